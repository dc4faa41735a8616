-- name: set_worker_command
UPDATE headrace_workers SET command = :command WHERE id = :id;

-- name: unregister_workers
DELETE FROM headrace_workers WHERE id {in_texts :ids};

-- Running jobs are counted by leases, not by the worker's last report; prefetched jobs do not count.
-- name: workers
SELECT {rows {WorkerRow}} FROM (
    SELECT id, host, pid, started_at, seen_at, state, command, queues, concurrency, completed, failed, tasks, heartbeat,
           capabilities,
           CASE WHEN held.jobs > concurrency THEN concurrency ELSE coalesce(held.jobs, 0) END AS running
    FROM headrace_workers AS known
    LEFT JOIN (SELECT worker, count(*) AS jobs FROM headrace_jobs WHERE state = 'running' GROUP BY worker) AS held
           ON held.worker = known.id
    ORDER BY started_at, id) AS worker;
