-- Claims under limits.

-- name: running
SELECT {rows queue, task, lane, jobs} FROM (
    SELECT queue, task, lane, count(*) AS jobs FROM headrace_jobs
    WHERE state = 'running' AND lease_until > :now GROUP BY queue, task, lane) AS running;

-- The limit of a capability begins like this; names of other limits may contain it, too.
-- name: lanes_needing
SELECT {rows lane.queue, lane.lane, lane.jobs, job.id} FROM (
    SELECT queue, lane, count(*) AS jobs, min(seq) AS first FROM headrace_jobs
    WHERE state = 'pending' AND lane > '' AND replace(lane, '"n:', '') <> lane GROUP BY queue, lane) AS lane
JOIN headrace_jobs AS job ON job.seq = lane.first;

-- Move open jobs of a task into lanes that include its limit. By its prefix a task's limit is the last of a lane.
-- name: assign_lanes
UPDATE headrace_jobs
SET lane = CASE lane WHEN '' THEN '[' ELSE substr(lane, 1, length(lane) - 1) || ',' END || :lane_limit || ']'
WHERE seq > :after AND seq <= :until AND task = :task AND finished_at IS NULL
  AND replace(lane, :lane_limit, '') = lane;

-- name: lane_heads
SELECT {rows {QueuedJob}} FROM (
    SELECT seq, task, priority, rank, lane FROM headrace_jobs
    WHERE state = 'pending' AND queue = :queue AND lane = :lane ORDER BY priority DESC, rank, seq LIMIT :limit) AS heads;

-- Jobs that were never tried, among the first pending ones. The scan stops at the limit.
-- name: untried_heads
SELECT {rows {QueuedJob}} FROM (
    SELECT * FROM (SELECT seq, task, priority, rank, lane, attempt FROM headrace_jobs
                   WHERE state = 'pending' AND queue = :queue AND lane = :lane
                   ORDER BY priority DESC, rank, seq LIMIT :looks) AS first
    WHERE attempt = 0 LIMIT :limit) AS heads;

-- The others: those that lost their worker, then those that failed, each class below every priority of the last one.
-- name: tried_heads
SELECT {rows {QueuedJob}} FROM (
    SELECT seq, task, priority - CASE WHEN crashes > 0 THEN 1000 ELSE 2000 END AS priority, rank, lane
    FROM (SELECT seq, task, priority, rank, lane, attempt, crashes FROM headrace_jobs
          WHERE state = 'pending' AND queue = :queue AND lane = :lane
          ORDER BY priority DESC, rank, seq LIMIT :looks) AS first
    WHERE attempt > 0 ORDER BY 3 DESC, rank, seq LIMIT :limit) AS heads;

-- name: levels
WITH RECURSIVE levels (priority) AS (
    SELECT (SELECT job.priority FROM headrace_jobs AS job
            WHERE job.state = 'pending' AND job.queue = :queue AND job.lane = :lane ORDER BY job.priority DESC LIMIT 1)
    UNION ALL
    SELECT (SELECT job.priority FROM headrace_jobs AS job
            WHERE job.state = 'pending' AND job.queue = :queue AND job.lane = :lane AND job.priority < levels.priority
            ORDER BY job.priority DESC LIMIT 1)
    FROM levels WHERE levels.priority IS NOT NULL
)
SELECT {list priority} FROM levels WHERE priority IS NOT NULL;

-- LIFO jobs have a negative rank.
-- name: oldest
SELECT {rows {QueuedJob}} FROM (
    SELECT * FROM (SELECT seq, task, priority, rank, lane FROM headrace_jobs
                   WHERE state = 'pending' AND queue = :queue AND lane = :lane AND priority = :priority AND rank >= 0
                   ORDER BY rank, seq LIMIT :limit) AS fifo
    UNION ALL
    SELECT * FROM (SELECT seq, task, priority, rank, lane FROM headrace_jobs
                   WHERE state = 'pending' AND queue = :queue AND lane = :lane AND priority = :priority AND rank < 0
                   ORDER BY rank DESC, seq LIMIT :limit) AS lifo) AS heads;

-- name: newest
SELECT {rows {QueuedJob}} FROM (
    SELECT * FROM (SELECT seq, task, priority, rank, lane FROM headrace_jobs
                   WHERE state = 'pending' AND queue = :queue AND lane = :lane AND priority = :priority AND rank >= 0
                   ORDER BY rank DESC, seq DESC LIMIT :limit) AS fifo
    UNION ALL
    SELECT * FROM (SELECT seq, task, priority, rank, lane FROM headrace_jobs
                   WHERE state = 'pending' AND queue = :queue AND lane = :lane AND priority = :priority AND rank < 0
                   ORDER BY rank, seq DESC LIMIT :limit) AS lifo) AS heads;

-- name: options_of
SELECT {rows job.seq, job.options} FROM {each seqs}
    {lookup headrace_jobs AS job ON job.seq = CAST(seqs.value AS bigint)} WHERE job.options IS NOT NULL;

-- name: charged (each lease: Lease)
SELECT {rows job.id, job.queue, job.task, job.lane, job.options, job.started_at, queue.rules, task.rules}
FROM {each lease}
    {lookup headrace_jobs AS job ON job.{has_id lease.id}}
    LEFT JOIN headrace_queues AS queue ON queue.name = job.queue
    LEFT JOIN headrace_tasks AS task ON task.name = job.task
WHERE job.state = 'running' AND job.version = lease.version;

-- name: rate_buckets
SELECT {rows name, full_at} FROM headrace_rate_buckets WHERE name {in_texts :names};

-- name: spend
INSERT INTO headrace_rate_buckets (name, full_at)
SELECT b.value ->> 0, CAST(b.value ->> 1 AS bigint) FROM {each b} WHERE true
ON CONFLICT (name) DO UPDATE SET full_at = excluded.full_at;

-- name: drop_buckets
DELETE FROM headrace_rate_buckets WHERE full_at < :now;

-- name: rows
SELECT {rows {JobRow:most}} FROM (
    SELECT job.* FROM {each seqs} {lookup headrace_jobs AS job ON job.seq = CAST(seqs.value AS bigint)}
    ORDER BY seqs.key) AS found;
