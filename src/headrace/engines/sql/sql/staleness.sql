-- Staleness.

-- The `where_after_` fragments continue a scan of pending jobs by age.

-- name: where_after_job
queue = :queue AND lane = :lane AND priority = :priority AND (rank, seq) > (:rank, :seq)

-- name: where_after_priority
queue = :queue AND lane = :lane AND priority < :priority

-- name: where_after_lane
queue = :queue AND lane > :lane

-- name: where_after_queue
queue > :queue

-- Staleness decisions. By id and version alone; no other predicate decides.

-- Found by id first: to lock them in the order of their numbers, a plan from before the first job would read all jobs.
-- name: lock_stale
WITH named AS MATERIALIZED (SELECT seq FROM headrace_jobs WHERE {named :ids})
SELECT {rows id, version, seq} FROM (
    SELECT id, version, seq, state FROM headrace_jobs WHERE seq {in SELECT seq FROM named}
    ORDER BY seq {lock FOR UPDATE}) AS locked
WHERE state IN ('scheduled', 'waiting', 'pending', 'running', 'retrying');

-- name: unreviewed
SELECT {list seq} FROM headrace_jobs AS job
WHERE seq {in_numbers :seqs}
  AND (SELECT 1 FROM headrace_history AS h
       WHERE h.job = job.seq AND h.event = 'review' AND h.version = job.version LIMIT 1) IS NULL;

-- name: record_reviews (each t: HistoryText)
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, detail)
SELECT job.seq, :now, 'review', state, state, version, attempt, worker, started_at, t.detail
FROM {each t} {lookup headrace_jobs AS job ON job.seq = t.seq};

-- name: record_marked (each t: HistoryText)
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, finished_at,
                              detail)
SELECT job.seq, :now, 'stale', state, 'failed', version + 1, attempt, worker, started_at, finished_at, t.detail
FROM {each t} {lookup headrace_jobs AS job ON job.seq = t.seq};

-- name: move_stale
UPDATE headrace_jobs SET state = 'failed', {next_version :now}, finished_at = :now, lease_until = NULL,
                         reason = :reason
WHERE seq {in_numbers :seqs};
