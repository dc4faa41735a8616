-- name: replace_documents (each p: DocumentRow)
UPDATE headrace_documents AS paper SET version = paper.version + 1, value = p.text
FROM json_each(:p) AS p
WHERE paper.kind = p.kind AND paper.key = p.key AND paper.version = p.version;

-- name: remove_documents (each p: DocumentRow)
DELETE FROM headrace_documents WHERE (kind, key, version) IN (SELECT p.kind, p.key, p.version FROM json_each(:p) AS p);
