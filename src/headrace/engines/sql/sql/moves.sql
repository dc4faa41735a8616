-- name: record_moves
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, finished_at,
                              detail)
SELECT seq, :now, :event, state, :target, version + 1, attempt, worker, started_at, finished_at, :detail
FROM headrace_jobs WHERE seq {in_numbers :seqs};

-- name: move_cancel
UPDATE headrace_jobs SET state = 'cancelled', {next_version :now}, finished_at = :now, lease_until = NULL,
                         reason = :reason
WHERE seq {in_numbers :seqs};

-- name: move_revive
UPDATE headrace_jobs SET state = :state, {next_version :now}, attempt = 0, crashes = 0, finished_at = NULL,
                         started_at = NULL, worker = NULL, result = NULL, result_checksum = NULL, progress = NULL,
                         reason = NULL, expires_at = NULL, run_at = :now,
                         rank = CASE WHEN rank < 0 THEN -CAST(:now AS bigint) ELSE CAST(:now AS bigint) END
WHERE seq {in_numbers :seqs};

-- name: move_promote_now
UPDATE headrace_jobs SET state = 'pending', {next_version :now}, run_at = :now, reason = nullif(reason, 'held'),
                         rank = CASE WHEN rank < 0 THEN -CAST(:now AS bigint) ELSE CAST(:now AS bigint) END
WHERE seq {in_numbers :seqs};

-- name: ids_of
SELECT {list id} FROM (SELECT id FROM headrace_jobs WHERE seq {in_numbers :seqs} ORDER BY seq) AS known;

-- name: state_of
SELECT state FROM headrace_jobs WHERE seq = :seq;

-- name: update_job
UPDATE headrace_jobs SET
    {next_version :now},
    priority = coalesce(:priority, priority),
    queue = coalesce(:queue, queue),
    run_at = coalesce(:run_at, run_at),
    rank = CASE WHEN CAST(:run_at AS bigint) IS NULL THEN rank
                WHEN rank < 0 THEN -CAST(:run_at AS bigint) ELSE CAST(:run_at AS bigint) END,
    state = :state
WHERE seq {in_numbers :seqs};

-- Reads. The `where_` fragments are the parts of `{where}`.

-- name: where_queue
job.queue = :queue

-- name: where_task
job.task = :task

-- name: where_worker
job.worker = :worker

-- name: where_since
job.created_at >= :since

-- name: where_until
job.created_at < :until

-- name: where_flow
job.flow = :flow

-- name: where_startable
job.finished_at IS NULL

-- name: where_ids
job.{named :ids}

-- name: where_tag
job.seq IN (SELECT tags.job FROM headrace_tags AS tags WHERE tags.tag = :tag)

-- name: lock_matching
SELECT {list seq} FROM (
    SELECT job.seq FROM headrace_jobs AS job WHERE {where} ORDER BY job.seq LIMIT :limit {lock FOR UPDATE}) AS matching;
