-- Claims under limits.

-- Claims under limits are serialized until their transaction ends, so their counts are exact.
-- name: lock_claims
SELECT count(pg_advisory_xact_lock('headrace_queues'::regclass::oid::bigint));

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

-- name: chosen
SELECT coalesce(json_agg(json_build_array(job.id, job.seq, job.task, job.queue, job.priority, job.version, job.attempt,
                                          job.max_attempts, job.payload, job.checksum, job.created_at, job.run_at,
                                          job.crashes, job.releases, job.options, job.metadata) ORDER BY c.key),
                '[]')::text
FROM jsonb_array_elements(:seqs::jsonb) WITH ORDINALITY AS c(value, key)
CROSS JOIN LATERAL (SELECT * FROM headrace_jobs WHERE seq = c.value::bigint OFFSET 0) AS job
WHERE job.state = 'running' AND job.worker = :worker;
