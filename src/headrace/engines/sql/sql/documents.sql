-- Versioned documents: see engines/protocol/documents.py. In the order of the primary key, also where the kind is given:
-- so PostgreSQL reads them in that order, whatever it estimates.

-- name: documents
SELECT {rows {Document}} FROM (
    SELECT * FROM headrace_documents WHERE kind = :kind AND key {in_texts :keys} ORDER BY kind, key) AS document;

-- name: browse
SELECT {rows {Document}} FROM (
    SELECT * FROM headrace_documents WHERE kind = :kind AND key >= :first ORDER BY kind, key LIMIT :limit) AS document;

-- name: browse_to
SELECT {rows {Document}} FROM (
    SELECT * FROM headrace_documents WHERE kind = :kind AND key >= :first AND key < :last
    ORDER BY kind, key LIMIT :limit) AS document;

-- name: browse_back
SELECT {rows {Document}} FROM (
    SELECT * FROM headrace_documents WHERE kind = :kind AND key >= :first
    ORDER BY kind DESC, key DESC LIMIT :limit) AS document;

-- name: browse_back_to
SELECT {rows {Document}} FROM (
    SELECT * FROM headrace_documents WHERE kind = :kind AND key >= :first AND key < :last
    ORDER BY kind DESC, key DESC LIMIT :limit) AS document;

-- In one order for all transactions, so that they cannot deadlock.
-- name: add_documents (each p: DocumentRow)
INSERT INTO headrace_documents (kind, key, version, value)
SELECT p.kind, p.key, 1, p.text FROM {each p} WHERE true ORDER BY p.kind, p.key
ON CONFLICT (kind, key) DO NOTHING;

-- One step for each kind, however many documents it has.
-- name: kinds_of_documents
WITH RECURSIVE known(kind) AS (
    SELECT min(kind) FROM headrace_documents
    UNION ALL
    SELECT (SELECT min(paper.kind) FROM headrace_documents AS paper WHERE paper.kind > known.kind)
    FROM known WHERE known.kind IS NOT NULL
)
SELECT {list kind} FROM known WHERE kind IS NOT NULL;
