-- name: set_task_rules
INSERT INTO headrace_tasks (name, rules) VALUES (:name, :rules)
ON CONFLICT (name) DO UPDATE SET rules = excluded.rules;

-- name: drop_task_rules
DELETE FROM headrace_tasks WHERE name = :name;

-- name: tasks
SELECT coalesce(json_agg(json_build_array(name, rules) ORDER BY name), '[]')::text FROM headrace_tasks;

-- name: add_queues
INSERT INTO headrace_queues (name, created_at) SELECT jsonb_array_elements_text(:names::jsonb), :now
ON CONFLICT DO NOTHING;

-- name: queues
SELECT coalesce(json_agg(json_build_array(name, paused, created_at, rules) ORDER BY name), '[]')::text FROM headrace_queues;

-- name: pause_queue
INSERT INTO headrace_queues (name, paused, created_at) VALUES (:name, :paused, :now)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused;

-- name: add_queues_of (each p: Replacement)
WITH added AS (
    INSERT INTO headrace_queues (name, created_at)
    SELECT DISTINCT p.queue, :now::bigint FROM jsonb_array_elements(:p::jsonb) AS p(value)
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT count(*) FROM added;

-- Rules of queues.

-- name: set_queue_rules
INSERT INTO headrace_queues (name, rules, created_at) VALUES (:name, :rules, :now)
ON CONFLICT (name) DO UPDATE SET rules = excluded.rules;

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
