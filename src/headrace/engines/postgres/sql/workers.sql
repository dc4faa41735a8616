-- A worker without a heartbeat updates only when it was seen; its other columns stay.
-- name: register_worker (each w: WorkerRow)
INSERT INTO headrace_workers (id, host, pid, started_at, seen_at, state, command, queues, concurrency, running,
                              completed, failed, tasks, heartbeat, capabilities)
SELECT w.id, w.host, w.pid, w.started_at, w.seen_at, w.state, w.command, w.queues, w.concurrency, w.running,
       w.completed, w.failed, w.tasks, w.heartbeat, w.capabilities
FROM jsonb_array_elements(:w::jsonb) AS w(value)
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
    capabilities = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.capabilities ELSE excluded.capabilities END
RETURNING command;
