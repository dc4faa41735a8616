-- Claims under limits. The file has one writer at a time, so nothing needs a lock.

-- name: lock_claims
SELECT 1;

-- name: running
SELECT json_group_array(json_array(queue, task, lane, jobs)) FROM (
    SELECT queue, task, lane, count(*) AS jobs FROM headrace_jobs
    WHERE state = 'running' AND lease_until > :now GROUP BY queue, task, lane);

-- The limit of a capability begins like this; names of other limits may contain it, too.
-- name: lanes_needing
SELECT json_group_array(json_array(lane.queue, lane.lane, lane.jobs, job.id)) FROM (
    SELECT queue, lane, count(*) AS jobs, min(seq) AS first FROM headrace_jobs
    WHERE state = 'pending' AND lane > '' AND instr(lane, '"n:') > 0 GROUP BY queue, lane) AS lane
JOIN headrace_jobs AS job ON job.seq = lane.first;

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

-- name: lane_heads
SELECT json_group_array(json_array({QueuedJob})) FROM (
    SELECT seq, task, priority, rank, lane FROM headrace_jobs
    WHERE state = 'pending' AND queue = :queue AND lane = :lane ORDER BY priority DESC, rank, seq LIMIT :limit);

-- Jobs that were never tried, among the first pending ones. The scan stops at the limit.
-- name: untried_heads
SELECT json_group_array(json_array({QueuedJob})) FROM (
    SELECT * FROM (SELECT seq, task, priority, rank, lane, attempt FROM headrace_jobs
                   WHERE state = 'pending' AND queue = :queue AND lane = :lane
                   ORDER BY priority DESC, rank, seq LIMIT :looks)
    WHERE attempt = 0 LIMIT :limit);

-- The others: those that lost their worker, then those that failed, each class below every priority of the last one.
-- name: tried_heads
SELECT json_group_array(json_array({QueuedJob})) FROM (
    SELECT seq, task, priority - iif(crashes > 0, 1000, 2000) AS priority, rank, lane
    FROM (SELECT seq, task, priority, rank, lane, attempt, crashes FROM headrace_jobs
          WHERE state = 'pending' AND queue = :queue AND lane = :lane
          ORDER BY priority DESC, rank, seq LIMIT :looks)
    WHERE attempt > 0 ORDER BY 3 DESC, rank, seq LIMIT :limit);

-- name: levels
WITH RECURSIVE levels (priority) AS (
    SELECT (SELECT priority FROM headrace_jobs WHERE state = 'pending' AND queue = :queue AND lane = :lane
            ORDER BY priority DESC LIMIT 1)
    UNION ALL
    SELECT (SELECT job.priority FROM headrace_jobs AS job
            WHERE job.state = 'pending' AND job.queue = :queue AND job.lane = :lane AND job.priority < levels.priority
            ORDER BY job.priority DESC LIMIT 1)
    FROM levels WHERE levels.priority IS NOT NULL
)
SELECT json_group_array(priority) FROM levels WHERE priority IS NOT NULL;

-- LIFO jobs have a negative rank.
-- name: oldest
SELECT json_group_array(json_array({QueuedJob})) FROM (
    SELECT * FROM (SELECT seq, task, priority, rank, lane FROM headrace_jobs
                   WHERE state = 'pending' AND queue = :queue AND lane = :lane AND priority = :priority AND rank >= 0
                   ORDER BY rank, seq LIMIT :limit)
    UNION ALL
    SELECT * FROM (SELECT seq, task, priority, rank, lane FROM headrace_jobs
                   WHERE state = 'pending' AND queue = :queue AND lane = :lane AND priority = :priority AND rank < 0
                   ORDER BY rank DESC, seq LIMIT :limit));

-- name: newest
SELECT json_group_array(json_array({QueuedJob})) FROM (
    SELECT * FROM (SELECT seq, task, priority, rank, lane FROM headrace_jobs
                   WHERE state = 'pending' AND queue = :queue AND lane = :lane AND priority = :priority AND rank >= 0
                   ORDER BY rank DESC, seq DESC LIMIT :limit)
    UNION ALL
    SELECT * FROM (SELECT seq, task, priority, rank, lane FROM headrace_jobs
                   WHERE state = 'pending' AND queue = :queue AND lane = :lane AND priority = :priority AND rank < 0
                   ORDER BY rank, seq DESC LIMIT :limit));

-- name: move_lane
UPDATE headrace_jobs SET lane = :lane WHERE seq IN (SELECT value FROM json_each(:seqs)) AND state = 'pending';

-- The lowest and the highest job number. Not one SELECT of both, which would read the whole index.
-- name: span
SELECT json_array(coalesce((SELECT min(seq) FROM headrace_jobs WHERE seq > 0), 0),
                  coalesce((SELECT max(seq) FROM headrace_jobs WHERE seq > 0), 0));

-- Move open jobs of a task into lanes that include its limit. By its prefix a task's limit is the last of a lane.
-- name: assign_lanes
UPDATE headrace_jobs SET lane = CASE lane WHEN '' THEN '[' ELSE substr(lane, 1, length(lane) - 1) || ',' END || :lane_limit || ']'
WHERE seq > :after AND seq <= :until AND task = :task AND finished_at IS NULL AND instr(lane, :lane_limit) = 0;

-- name: chosen
SELECT json_group_array(json_array({Claim})) FROM (
    SELECT job.id, job.seq AS ref, job.task, job.queue, job.priority, job.version, job.attempt, job.max_attempts,
           job.payload, job.checksum, job.created_at, job.run_at, job.crashes, job.releases, job.options, job.metadata
    FROM json_each(:seqs) AS c JOIN headrace_jobs AS job ON job.seq = c.value
    WHERE job.state = 'running' AND job.worker = :worker ORDER BY c.key);

-- name: rate_buckets
SELECT json_group_array(json_array(name, full_at)) FROM headrace_rate_buckets
WHERE name IN (SELECT value FROM json_each(:names));

-- name: spend
INSERT INTO headrace_rate_buckets (name, full_at)
SELECT json_extract(b.value, '$[0]'), json_extract(b.value, '$[1]') FROM json_each(:b) AS b
WHERE true
ON CONFLICT (name) DO UPDATE SET full_at = excluded.full_at;

-- name: drop_buckets
DELETE FROM headrace_rate_buckets WHERE full_at < :now;

-- name: rows
SELECT json_group_array(json_array({JobRow:most})) FROM (
    SELECT job.* FROM json_each(:seqs) AS c JOIN headrace_jobs AS job ON job.seq = c.value ORDER BY c.key);
