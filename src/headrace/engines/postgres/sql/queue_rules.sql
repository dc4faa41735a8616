-- name: add_queues
INSERT INTO headrace_queues (name, created_at) SELECT jsonb_array_elements_text(:names::jsonb), :now
ON CONFLICT DO NOTHING;

-- name: rules_for_inserts
SELECT json_build_array(
    (SELECT coalesce(json_agg(json_build_array(name, rules)), '[]') FROM headrace_queues WHERE rules IS NOT NULL),
    (SELECT coalesce(json_agg(name), '[]') FROM headrace_tasks WHERE strpos(rules, '"strategy":') > 0))::text;

-- name: lock_queues
SELECT count(*) FROM (
    SELECT 1 FROM headrace_queues WHERE name = ANY (ARRAY(SELECT jsonb_array_elements_text(:names::jsonb)))
    ORDER BY name FOR NO KEY UPDATE) AS locked;

-- name: queue_lengths
SELECT coalesce(json_agg(json_build_array(name,
    (SELECT count(*) FROM headrace_jobs WHERE state = 'pending' AND queue = name)
    + (SELECT count(*) FROM headrace_jobs WHERE state IN ('scheduled', 'retrying') AND queue = name)
    + (SELECT count(*) FROM headrace_jobs WHERE state = 'waiting' AND queue = name))), '[]')::text
FROM jsonb_array_elements_text(:names::jsonb) AS name;
