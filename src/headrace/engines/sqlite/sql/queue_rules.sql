-- name: add_queues
INSERT OR IGNORE INTO headrace_queues (name, created_at) SELECT value, :now FROM json_each(:names);

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
