-- Claims under limits.

-- Claims under limits are serialized until their transaction ends, so their counts are exact.
-- name: lock_claims
SELECT count(pg_advisory_xact_lock('headrace_queues'::regclass::oid::bigint));

-- name: running
SELECT coalesce(json_agg(json_build_array(queue, task, lane, jobs)), '[]')::text FROM (
    SELECT queue, task, lane, count(*) AS jobs FROM headrace_jobs
    WHERE state = 'running' AND lease_until > :now GROUP BY queue, task, lane) AS running;

-- The limit of a capability begins like this; names of other limits may contain it, too.
-- name: lanes_needing
SELECT coalesce(json_agg(json_build_array(lane.queue, lane.lane, lane.jobs, job.id)), '[]')::text FROM (
    SELECT queue, lane, count(*) AS jobs, min(seq) AS first FROM headrace_jobs
    WHERE state = 'pending' AND lane > '' AND position('"n:' IN lane) > 0 GROUP BY queue, lane) AS lane
JOIN headrace_jobs AS job ON job.seq = lane.first;

-- name: lanes
WITH RECURSIVE lanes (lane) AS (
    SELECT (SELECT job.lane FROM headrace_jobs AS job
            WHERE job.state = 'pending' AND job.queue = :queue AND job.lane > :beyond ORDER BY job.lane LIMIT 1)
    UNION ALL
    SELECT (SELECT job.lane FROM headrace_jobs AS job
            WHERE job.state = 'pending' AND job.queue = :queue AND job.lane > lanes.lane ORDER BY job.lane LIMIT 1)
    FROM lanes WHERE lanes.lane IS NOT NULL
)
SELECT coalesce(json_agg(lane), '[]')::text FROM (
    SELECT lane FROM lanes WHERE lane IS NOT NULL LIMIT :limit) AS few;

-- The lanes after `beyond`, each with the highest priority of its pending jobs.
-- name: lane_tops
WITH RECURSIVE lanes (lane, priority) AS (
    (SELECT job.lane, job.priority FROM headrace_jobs AS job
     WHERE job.state = 'pending' AND job.queue = :queue AND job.lane > :beyond
     ORDER BY job.lane, job.priority DESC LIMIT 1)
    UNION ALL
    SELECT next.lane, next.priority FROM lanes CROSS JOIN LATERAL (
        SELECT job.lane, job.priority FROM headrace_jobs AS job
        WHERE job.state = 'pending' AND job.queue = :queue AND job.lane > lanes.lane
        ORDER BY job.lane, job.priority DESC LIMIT 1) AS next
)
SELECT coalesce(json_agg(json_build_array(lane, priority)), '[]')::text FROM (
    SELECT lane, priority FROM lanes LIMIT :limit) AS few;

-- The same with ageing: the urgency of the most urgent job of each lane, where `point` milliseconds of waiting count as
-- one point of priority. It does not change with time. For each priority in a lane the oldest job counts: it is the
-- first one, except for LIFO jobs, whose rank is negative.
-- name: lane_tops_by_age
WITH RECURSIVE lanes (lane, priority, rank) AS (
    (SELECT job.lane, job.priority, job.rank FROM headrace_jobs AS job
     WHERE job.state = 'pending' AND job.queue = :queue AND job.lane > :beyond
     ORDER BY job.lane, job.priority DESC, job.rank LIMIT 1)
    UNION ALL
    SELECT next.lane, next.priority, next.rank FROM lanes CROSS JOIN LATERAL (
        SELECT job.lane, job.priority, job.rank FROM headrace_jobs AS job
        WHERE job.state = 'pending' AND job.queue = :queue AND job.lane > lanes.lane
        ORDER BY job.lane, job.priority DESC, job.rank LIMIT 1) AS next
), firsts (lane, priority, rank) AS (
    (SELECT lane, priority, rank FROM lanes LIMIT :limit)
    UNION ALL
    SELECT firsts.lane, next.priority, next.rank FROM firsts CROSS JOIN LATERAL (
        SELECT job.priority, job.rank FROM headrace_jobs AS job
        WHERE job.state = 'pending' AND job.queue = :queue AND job.lane = firsts.lane AND job.priority < firsts.priority
        ORDER BY job.priority DESC, job.rank LIMIT 1) AS next
)
SELECT coalesce(json_agg(json_build_array(lane, level) ORDER BY lane), '[]')::text FROM (
    SELECT lane, max(priority - CASE WHEN rank >= 0 THEN rank ELSE least(
        -(SELECT job.rank FROM headrace_jobs AS job
          WHERE job.state = 'pending' AND job.queue = :queue AND job.lane = firsts.lane
            AND job.priority = firsts.priority AND job.rank < 0 ORDER BY job.rank DESC LIMIT 1),
        (SELECT job.rank FROM headrace_jobs AS job
         WHERE job.state = 'pending' AND job.queue = :queue AND job.lane = firsts.lane
           AND job.priority = firsts.priority AND job.rank >= 0 ORDER BY job.rank LIMIT 1))
    END / :point) AS level
    FROM firsts GROUP BY lane) AS tops;

-- name: lane_heads
SELECT coalesce(json_agg(json_build_array({QueuedJob})), '[]')::text FROM (
    SELECT seq, task, priority, rank, lane FROM headrace_jobs
    WHERE state = 'pending' AND queue = :queue AND lane = :lane ORDER BY priority DESC, rank, seq LIMIT :limit) AS heads;

-- Jobs that were never tried, among the first pending ones. The scan stops at the limit.
-- name: untried_heads
SELECT coalesce(json_agg(json_build_array({QueuedJob})), '[]')::text FROM (
    SELECT * FROM (SELECT seq, task, priority, rank, lane, attempt FROM headrace_jobs
                   WHERE state = 'pending' AND queue = :queue AND lane = :lane
                   ORDER BY priority DESC, rank, seq LIMIT :looks) AS first
    WHERE attempt = 0 LIMIT :limit) AS heads;

-- The others: those that lost their worker, then those that failed, each class below every priority of the last one.
-- name: tried_heads
SELECT coalesce(json_agg(json_build_array({QueuedJob})), '[]')::text FROM (
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
SELECT coalesce(json_agg(priority), '[]')::text FROM levels WHERE priority IS NOT NULL;

-- LIFO jobs have a negative rank.
-- name: oldest
SELECT coalesce(json_agg(json_build_array({QueuedJob})), '[]')::text FROM (
    (SELECT seq, task, priority, rank, lane FROM headrace_jobs
     WHERE state = 'pending' AND queue = :queue AND lane = :lane AND priority = :priority AND rank >= 0
     ORDER BY rank, seq LIMIT :limit)
    UNION ALL
    (SELECT seq, task, priority, rank, lane FROM headrace_jobs
     WHERE state = 'pending' AND queue = :queue AND lane = :lane AND priority = :priority AND rank < 0
     ORDER BY rank DESC, seq LIMIT :limit)) AS heads;

-- name: newest
SELECT coalesce(json_agg(json_build_array({QueuedJob})), '[]')::text FROM (
    (SELECT seq, task, priority, rank, lane FROM headrace_jobs
     WHERE state = 'pending' AND queue = :queue AND lane = :lane AND priority = :priority AND rank >= 0
     ORDER BY rank DESC, seq DESC LIMIT :limit)
    UNION ALL
    (SELECT seq, task, priority, rank, lane FROM headrace_jobs
     WHERE state = 'pending' AND queue = :queue AND lane = :lane AND priority = :priority AND rank < 0
     ORDER BY rank, seq DESC LIMIT :limit)) AS heads;

-- It does not wait for locks: a caller may hold a job for long, and all other claims under limits wait for this one.
-- `state || ''`: with the index of pending jobs it would read all of them.
-- name: move_lane
UPDATE headrace_jobs SET lane = :lane
WHERE seq = ANY (ARRAY(SELECT seq FROM headrace_jobs
                       WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
                         AND state || '' = 'pending' FOR UPDATE SKIP LOCKED));

-- The lowest and the highest job number.
-- name: span
SELECT json_build_array(coalesce((SELECT seq FROM headrace_jobs ORDER BY seq LIMIT 1), 0),
                        coalesce((SELECT seq FROM headrace_jobs ORDER BY seq DESC LIMIT 1), 0))::text;

-- Move open jobs of a task into lanes that include its limit. By its prefix a task's limit is the last of a lane.
-- name: assign_lanes
UPDATE headrace_jobs
SET lane = CASE lane WHEN '' THEN '[' ELSE left(lane, -1) || ',' END || :lane_limit || ']'
WHERE seq > :after AND seq <= :until AND task = :task AND finished_at IS NULL AND position(:lane_limit IN lane) = 0;

-- name: chosen
SELECT coalesce(json_agg(json_build_array(job.id, job.seq, job.task, job.queue, job.priority, job.version, job.attempt,
                                          job.max_attempts, job.payload, job.checksum, job.created_at, job.run_at,
                                          job.crashes, job.releases, job.options, job.metadata) ORDER BY c.key),
                '[]')::text
FROM jsonb_array_elements(:seqs::jsonb) WITH ORDINALITY AS c(value, key)
CROSS JOIN LATERAL (SELECT * FROM headrace_jobs WHERE seq = c.value::bigint OFFSET 0) AS job
WHERE job.state = 'running' AND job.worker = :worker;

-- name: rate_buckets
SELECT coalesce(json_agg(json_build_array(name, full_at)), '[]')::text FROM headrace_rate_buckets
WHERE name = ANY (ARRAY(SELECT jsonb_array_elements_text(:names::jsonb)));

-- name: spend
INSERT INTO headrace_rate_buckets (name, full_at)
SELECT b.value ->> 0, (b.value ->> 1)::bigint FROM jsonb_array_elements(:b::jsonb) AS b(value)
ON CONFLICT (name) DO UPDATE SET full_at = excluded.full_at;

-- name: drop_buckets
DELETE FROM headrace_rate_buckets WHERE full_at < :now;

-- name: rows
SELECT coalesce(json_agg(json_build_array({JobRow:most}) ORDER BY key), '[]')::text
FROM jsonb_array_elements(:seqs::jsonb) WITH ORDINALITY AS c(value, key)
CROSS JOIN LATERAL (SELECT * FROM headrace_jobs WHERE seq = c.value::bigint OFFSET 0) AS job;
