-- name: set_task_rules
INSERT INTO headrace_tasks (name, rules) VALUES (:name, :rules)
ON CONFLICT (name) DO UPDATE SET rules = excluded.rules;

-- name: drop_task_rules
DELETE FROM headrace_tasks WHERE name = :name;

-- name: tasks
SELECT json_group_array(json_array(name, rules)) FROM (SELECT * FROM headrace_tasks ORDER BY name);

-- name: add_queues
INSERT OR IGNORE INTO headrace_queues (name, created_at) SELECT value, :now FROM json_each(:names);

-- name: queues
SELECT json_group_array(json_array(name, json(iif(paused, 'true', 'false')), created_at, rules)) FROM (
    SELECT * FROM headrace_queues ORDER BY name);

-- name: pause_queue
INSERT INTO headrace_queues (name, paused, created_at) VALUES (:name, :paused, :now)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused;

-- name: add_queues_of (each p: Replacement)
INSERT OR IGNORE INTO headrace_queues (name, created_at) SELECT p.queue, :now FROM json_each(:p) AS p;

-- Rules of queues.

-- name: set_queue_rules
INSERT INTO headrace_queues (name, rules, created_at) VALUES (:name, :rules, :now)
ON CONFLICT (name) DO UPDATE SET rules = excluded.rules;

-- name: rules_for_inserts
SELECT json_array(
    (SELECT json_group_array(json_array(name, rules)) FROM headrace_queues WHERE rules IS NOT NULL),
    (SELECT json_group_array(name) FROM headrace_tasks WHERE instr(rules, '"strategy":') > 0));

-- name: lock_queues
SELECT json_array_length(:names);

-- name: queue_lengths
SELECT json_group_array(json_array(value,
    (SELECT count(*) FROM headrace_jobs WHERE state = 'pending' AND queue = value)
    + (SELECT count(*) FROM headrace_jobs WHERE state IN ('scheduled', 'retrying') AND queue = value)
    + (SELECT count(*) FROM headrace_jobs WHERE state = 'waiting' AND queue = value))) FROM json_each(:names);
