-- name: drop_workers
DELETE FROM headrace_workers;

-- A worker without a heartbeat updates only when it was seen; its other columns stay.
-- name: register_worker
INSERT INTO headrace_workers (id, host, pid, started_at, seen_at, state, command, queues, concurrency, running,
                              completed, failed, tasks, heartbeat, capabilities)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
    seen_at = excluded.seen_at, state = excluded.state, running = excluded.running,
    host = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.host ELSE excluded.host END,
    pid = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.pid ELSE excluded.pid END,
    queues = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.queues ELSE excluded.queues END,
    concurrency = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.concurrency ELSE excluded.concurrency END,
    completed = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.completed ELSE excluded.completed END,
    failed = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.failed ELSE excluded.failed END,
    tasks = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.tasks ELSE excluded.tasks END,
    heartbeat = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.heartbeat ELSE excluded.heartbeat END,
    capabilities = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.capabilities ELSE excluded.capabilities END;

-- name: worker_command
SELECT command, (SELECT lease_until FROM headrace_jobs WHERE state = 'running' ORDER BY lease_until LIMIT 1)
FROM headrace_workers WHERE id = :id;
