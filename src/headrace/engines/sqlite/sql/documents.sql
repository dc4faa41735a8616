-- Versioned documents: see engines/protocol/documents.py.

-- name: documents
SELECT coalesce(json_group_array(json_array({Document})), '[]') FROM (
    SELECT * FROM headrace_documents WHERE kind = :kind AND key IN (SELECT value FROM json_each(:keys)) ORDER BY key);

-- name: browse
SELECT coalesce(json_group_array(json_array({Document})), '[]') FROM (
    SELECT * FROM headrace_documents WHERE kind = :kind AND key >= :first ORDER BY key LIMIT :limit);

-- name: browse_to
SELECT coalesce(json_group_array(json_array({Document})), '[]') FROM (
    SELECT * FROM headrace_documents WHERE kind = :kind AND key >= :first AND key < :last ORDER BY key LIMIT :limit);

-- name: browse_back
SELECT coalesce(json_group_array(json_array({Document})), '[]') FROM (
    SELECT * FROM headrace_documents WHERE kind = :kind AND key >= :first ORDER BY key DESC LIMIT :limit);

-- name: browse_back_to
SELECT coalesce(json_group_array(json_array({Document})), '[]') FROM (
    SELECT * FROM headrace_documents WHERE kind = :kind AND key >= :first AND key < :last ORDER BY key DESC LIMIT :limit);

-- name: add_documents (each p: DocumentRow)
INSERT INTO headrace_documents (kind, key, version, value)
SELECT p.kind, p.key, 1, p.text FROM json_each(:p) AS p
WHERE true
ON CONFLICT (kind, key) DO NOTHING;

-- name: replace_documents (each p: DocumentRow)
UPDATE headrace_documents AS paper SET version = paper.version + 1, value = p.text
FROM json_each(:p) AS p
WHERE paper.kind = p.kind AND paper.key = p.key AND paper.version = p.version;

-- name: remove_documents (each p: DocumentRow)
DELETE FROM headrace_documents WHERE (kind, key, version) IN (SELECT p.kind, p.key, p.version FROM json_each(:p) AS p);

-- name: drop_documents
DELETE FROM headrace_documents WHERE kind = :kind AND key IN (
    SELECT key FROM headrace_documents WHERE kind = :kind AND key < :before ORDER BY key LIMIT :limit);

-- One step for each kind, however many documents it has.
-- name: kinds_of_documents
WITH RECURSIVE known(kind) AS (
    SELECT min(kind) FROM headrace_documents
    UNION ALL
    SELECT (SELECT min(paper.kind) FROM headrace_documents AS paper WHERE paper.kind > known.kind)
    FROM known WHERE known.kind IS NOT NULL
)
SELECT coalesce(json_group_array(kind), '[]') FROM known WHERE kind IS NOT NULL;
