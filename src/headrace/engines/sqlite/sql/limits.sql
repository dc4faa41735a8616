-- Claims under limits. The file has one writer at a time, so nothing needs a lock.

-- name: lock_claims
SELECT 1;

-- name: lanes
WITH RECURSIVE lanes (lane) AS (
    SELECT (SELECT lane FROM headrace_jobs WHERE state = 'pending' AND queue = :queue AND lane > :beyond
            ORDER BY lane LIMIT 1)
    UNION ALL
    SELECT (SELECT job.lane FROM headrace_jobs AS job
            WHERE job.state = 'pending' AND job.queue = :queue AND job.lane > lanes.lane ORDER BY job.lane LIMIT 1)
    FROM lanes WHERE lanes.lane IS NOT NULL
    LIMIT :limit
)
SELECT json_group_array(lane) FROM lanes WHERE lane IS NOT NULL;

-- The lanes after `beyond`, each with the highest priority of its pending jobs.
-- name: lane_tops
WITH RECURSIVE lanes (seq) AS (
    SELECT (SELECT seq FROM headrace_jobs WHERE state = 'pending' AND queue = :queue AND lane > :beyond
            ORDER BY lane, priority DESC LIMIT 1)
    UNION ALL
    SELECT (SELECT next.seq FROM headrace_jobs AS next
            WHERE next.state = 'pending' AND next.queue = :queue AND next.lane > job.lane
            ORDER BY next.lane, next.priority DESC LIMIT 1)
    FROM lanes JOIN headrace_jobs AS job ON job.seq = lanes.seq
    LIMIT :limit
)
SELECT json_group_array(json_array(lane, priority)) FROM (
    SELECT job.lane, job.priority FROM lanes JOIN headrace_jobs AS job ON job.seq = lanes.seq ORDER BY job.lane);

-- The same with ageing: the urgency of the most urgent job of each lane, where `point` milliseconds of waiting count as
-- one point of priority. It does not change with time. For each priority in a lane the oldest job counts: it is the
-- first one, except for LIFO jobs, whose rank is negative.
-- name: lane_tops_by_age
WITH RECURSIVE lanes (seq) AS (
    SELECT (SELECT seq FROM headrace_jobs WHERE state = 'pending' AND queue = :queue AND lane > :beyond
            ORDER BY lane, priority DESC, rank LIMIT 1)
    UNION ALL
    SELECT (SELECT next.seq FROM headrace_jobs AS next
            WHERE next.state = 'pending' AND next.queue = :queue AND next.lane > job.lane
            ORDER BY next.lane, next.priority DESC, next.rank LIMIT 1)
    FROM lanes JOIN headrace_jobs AS job ON job.seq = lanes.seq
    LIMIT :limit
), firsts (seq) AS (
    SELECT seq FROM lanes
    UNION ALL
    SELECT (SELECT next.seq FROM headrace_jobs AS next
            WHERE next.state = 'pending' AND next.queue = :queue AND next.lane = job.lane
              AND next.priority < job.priority ORDER BY next.priority DESC, next.rank LIMIT 1)
    FROM firsts JOIN headrace_jobs AS job ON job.seq = firsts.seq
)
SELECT json_group_array(json_array(lane, level)) FROM (
    SELECT first.lane, max(first.priority - iif(first.rank >= 0, first.rank, min(
        -(SELECT job.rank FROM headrace_jobs AS job
          WHERE job.state = 'pending' AND job.queue = :queue AND job.lane = first.lane AND job.priority = first.priority
            AND job.rank < 0 ORDER BY job.rank DESC LIMIT 1),
        coalesce((SELECT job.rank FROM headrace_jobs AS job
                  WHERE job.state = 'pending' AND job.queue = :queue AND job.lane = first.lane
                    AND job.priority = first.priority AND job.rank >= 0 ORDER BY job.rank LIMIT 1), -first.rank)
    )) / :point) AS level
    FROM firsts JOIN headrace_jobs AS first ON first.seq = firsts.seq GROUP BY first.lane ORDER BY first.lane);

-- name: move_lane
UPDATE headrace_jobs SET lane = :lane WHERE seq IN (SELECT value FROM json_each(:seqs)) AND state = 'pending';

-- The lowest and the highest job number. Not one SELECT of both, which would read the whole index.
-- name: span
SELECT json_array(coalesce((SELECT min(seq) FROM headrace_jobs WHERE seq > 0), 0),
                  coalesce((SELECT max(seq) FROM headrace_jobs WHERE seq > 0), 0));

-- name: chosen
SELECT json_group_array(json_array({Claim})) FROM (
    SELECT job.id, job.seq AS ref, job.task, job.queue, job.priority, job.version, job.attempt, job.max_attempts,
           job.payload, job.checksum, job.created_at, job.run_at, job.crashes, job.releases, job.options, job.metadata
    FROM json_each(:seqs) AS c JOIN headrace_jobs AS job ON job.seq = c.value
    WHERE job.state = 'running' AND job.worker = :worker ORDER BY c.key);
