-- How long jobs may stay. The terms of tasks and queues are read by chores and operators, never by a claim.

-- name: terms
SELECT json_group_array(json_array(kind, name, json(declared), json(ordered))) FROM (
    SELECT * FROM headrace_terms ORDER BY kind, name);

-- name: declare_terms (each t: TermsRow)
INSERT INTO headrace_terms (kind, name, declared)
SELECT t.kind, t.name, t.declared FROM json_each(:t) AS t
WHERE true
ON CONFLICT (kind, name) DO UPDATE SET declared = excluded.declared;

-- name: order_terms (each t: TermsRow)
INSERT INTO headrace_terms (kind, name, ordered)
SELECT t.kind, t.name, t.ordered FROM json_each(:t) AS t
WHERE true
ON CONFLICT (kind, name) DO UPDATE SET ordered = excluded.ordered;

-- name: drop_empty_terms
DELETE FROM headrace_terms WHERE declared = '{}' AND ordered = '{}';
