-- How long jobs may stay. The terms of tasks and queues are read by chores and operators, never by a claim.

-- name: terms
SELECT coalesce(json_agg(json_build_array(kind, name, declared::json, ordered::json) ORDER BY kind, name), '[]')::text
FROM headrace_terms;

-- name: declare_terms (each t: TermsRow)
INSERT INTO headrace_terms (kind, name, declared)
SELECT t.kind, t.name, t.declared FROM jsonb_array_elements(:t::jsonb) AS t(value)
ON CONFLICT (kind, name) DO UPDATE SET declared = excluded.declared;

-- name: order_terms (each t: TermsRow)
INSERT INTO headrace_terms (kind, name, ordered)
SELECT t.kind, t.name, t.ordered FROM jsonb_array_elements(:t::jsonb) AS t(value)
ON CONFLICT (kind, name) DO UPDATE SET ordered = excluded.ordered;

-- name: drop_empty_terms
DELETE FROM headrace_terms WHERE declared = '{}' AND ordered = '{}';
