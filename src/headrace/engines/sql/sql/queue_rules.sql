-- name: set_task_rules
INSERT INTO headrace_tasks (name, rules) VALUES (:name, :rules)
ON CONFLICT (name) DO UPDATE SET rules = excluded.rules;

-- name: drop_task_rules
DELETE FROM headrace_tasks WHERE name = :name;

-- name: tasks
SELECT {rows name, rules} FROM (SELECT * FROM headrace_tasks ORDER BY name) AS known;

-- name: queues
SELECT {rows name, {flag paused}, created_at, rules} FROM (SELECT * FROM headrace_queues ORDER BY name) AS known;

-- name: pause_queue
INSERT INTO headrace_queues (name, paused, created_at) VALUES (:name, :paused, :now)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused;

-- name: add_queues_of (each p: Replacement)
{count
INSERT INTO headrace_queues (name, created_at)
SELECT DISTINCT p.queue, CAST(:now AS bigint) FROM {each p} WHERE true
ON CONFLICT DO NOTHING};

-- name: set_queue_rules
INSERT INTO headrace_queues (name, rules, created_at) VALUES (:name, :rules, :now)
ON CONFLICT (name) DO UPDATE SET rules = excluded.rules;
