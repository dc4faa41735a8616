-- Versioned documents: see engines/protocol/documents.py.

-- name: documents
SELECT coalesce(json_agg(json_build_array({Document}) ORDER BY key), '[]')::text FROM headrace_documents
WHERE kind = :kind AND key = ANY (ARRAY(SELECT jsonb_array_elements_text(:keys::jsonb)));

-- name: browse
SELECT coalesce(json_agg(json_build_array({Document}) ORDER BY key), '[]')::text FROM (
    SELECT * FROM headrace_documents WHERE kind = :kind AND key >= :first ORDER BY kind, key LIMIT :limit) AS paper;

-- name: browse_to
SELECT coalesce(json_agg(json_build_array({Document}) ORDER BY key), '[]')::text FROM (
    SELECT * FROM headrace_documents WHERE kind = :kind AND key >= :first AND key < :last
    ORDER BY kind, key LIMIT :limit) AS paper;

-- name: browse_back
SELECT coalesce(json_agg(json_build_array({Document}) ORDER BY key DESC), '[]')::text FROM (
    SELECT * FROM headrace_documents WHERE kind = :kind AND key >= :first
    ORDER BY kind DESC, key DESC LIMIT :limit) AS paper;

-- name: browse_back_to
SELECT coalesce(json_agg(json_build_array({Document}) ORDER BY key DESC), '[]')::text FROM (
    SELECT * FROM headrace_documents WHERE kind = :kind AND key >= :first AND key < :last
    ORDER BY kind DESC, key DESC LIMIT :limit) AS paper;

-- name: add_documents (each p: DocumentRow)
INSERT INTO headrace_documents (kind, key, version, value)
SELECT p.kind, p.key, 1, p.text FROM jsonb_array_elements(:p::jsonb) WITH ORDINALITY AS p(value, place)
ORDER BY p.place
ON CONFLICT (kind, key) DO NOTHING;

-- name: replace_documents (each p: DocumentRow)
UPDATE headrace_documents AS paper SET version = paper.version + 1, value = p.text
FROM jsonb_array_elements(:p::jsonb) AS p(value)
WHERE paper.kind = ANY (ARRAY[p.kind]) AND paper.key = ANY (ARRAY[p.key]) AND paper.version = p.version
  AND jsonb_typeof(p.value) = 'array';

-- name: remove_documents (each p: DocumentRow)
DELETE FROM headrace_documents AS paper USING jsonb_array_elements(:p::jsonb) AS p(value)
WHERE paper.kind = ANY (ARRAY[p.kind]) AND paper.key = ANY (ARRAY[p.key]) AND paper.version = p.version
  AND jsonb_typeof(p.value) = 'array';

-- name: drop_documents
DELETE FROM headrace_documents WHERE kind = :kind AND key = ANY (ARRAY(
    SELECT key FROM headrace_documents WHERE kind = :kind AND key < :before ORDER BY kind, key LIMIT :limit));

-- One step for each kind, however many documents it has.
-- name: kinds_of_documents
WITH RECURSIVE known(kind) AS (
    SELECT min(kind) FROM headrace_documents
    UNION ALL
    SELECT (SELECT min(paper.kind) FROM headrace_documents AS paper WHERE paper.kind > known.kind)
    FROM known WHERE known.kind IS NOT NULL
)
SELECT coalesce(json_agg(kind), '[]')::text FROM known WHERE kind IS NOT NULL;
