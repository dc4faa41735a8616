-- name: get
SELECT json_group_array(json_array({JobRow:most})) FROM headrace_jobs WHERE id IN (SELECT value FROM json_each(:ids));

-- name: unfinished
SELECT json_group_array(id) FROM headrace_jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND state NOT IN ('completed', 'failed', 'cancelled');

-- Most jobs of an old store are finished. Counting them by state and queue is three times as fast as grouping them.
-- name: queue_counts
WITH ended (queue, state, jobs, oldest) AS MATERIALIZED (
    SELECT queue.name, final.value,
           (SELECT count(*) FROM headrace_jobs AS job
            WHERE job.queue = queue.name AND job.state = final.value AND job.finished_at IS NOT NULL),
           (SELECT min(job.finished_at) FROM headrace_jobs AS job
            WHERE job.queue = queue.name AND job.state = final.value AND job.finished_at IS NOT NULL)
    FROM headrace_queues AS queue CROSS JOIN json_each('["completed","failed","cancelled"]') AS final
    WHERE :finished)
SELECT json_group_array(json_array(queue, state, jobs, oldest)) FROM (
    SELECT queue, 'pending' AS state, count(*) AS jobs, min(abs(rank)) AS oldest
    FROM headrace_jobs WHERE state = 'pending' GROUP BY queue
    UNION ALL
    SELECT queue, state, count(*), min(run_at)
    FROM headrace_jobs WHERE state IN ('scheduled', 'retrying') GROUP BY queue, state
    UNION ALL
    SELECT queue, 'waiting', count(*), NULL FROM headrace_jobs WHERE state = 'waiting' GROUP BY queue
    UNION ALL
    SELECT queue, 'running', count(*), min(started_at) FROM headrace_jobs WHERE state = 'running' GROUP BY queue
    UNION ALL
    SELECT queue, state, jobs, oldest FROM ended WHERE jobs > 0);

-- name: logs
SELECT json_group_array(json_array({LogLine})) FROM (
    SELECT * FROM (SELECT l.* FROM headrace_logs AS l JOIN headrace_jobs AS job ON job.seq = l.job
                   WHERE job.id = :id AND l.level <> 'stream' ORDER BY l.seq DESC LIMIT :limit) ORDER BY seq);

-- name: newest_of_stream
SELECT json_group_array(json_array({LogLine})) FROM (
    SELECT * FROM (SELECT l.* FROM headrace_logs AS l JOIN headrace_jobs AS job ON job.seq = l.job
                   WHERE job.id = :id AND l.level = 'stream' ORDER BY l.seq DESC LIMIT :limit) ORDER BY seq);

-- name: stream
SELECT json_group_array(json_array({LogLine})) FROM (
    SELECT l.* FROM headrace_logs AS l JOIN headrace_jobs AS job ON job.seq = l.job
    WHERE job.id = :id AND l.level = 'stream' ORDER BY l.seq LIMIT :limit OFFSET :first);
