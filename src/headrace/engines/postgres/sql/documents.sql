-- name: replace_documents (each p: DocumentRow)
UPDATE headrace_documents AS paper SET version = paper.version + 1, value = p.text
FROM jsonb_array_elements(:p::jsonb) AS p(value)
WHERE paper.kind = ANY (ARRAY[p.kind]) AND paper.key = ANY (ARRAY[p.key]) AND paper.version = p.version
  AND jsonb_typeof(p.value) = 'array';

-- name: remove_documents (each p: DocumentRow)
DELETE FROM headrace_documents AS paper USING jsonb_array_elements(:p::jsonb) AS p(value)
WHERE paper.kind = ANY (ARRAY[p.kind]) AND paper.key = ANY (ARRAY[p.key]) AND paper.version = p.version
  AND jsonb_typeof(p.value) = 'array';
