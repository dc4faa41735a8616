-- name: record_moves
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, finished_at,
                              detail)
SELECT seq, :now, :event, state, :target, version + 1, attempt, worker, started_at, finished_at, :detail
FROM headrace_jobs WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: move_cancel
UPDATE headrace_jobs SET state = 'cancelled', version = version + 1, finished_at = :now, lease_until = NULL,
                         reason = :reason
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: move_revive
UPDATE headrace_jobs SET state = :state, version = version + 1, attempt = 0, crashes = 0, finished_at = NULL,
                         started_at = NULL, worker = NULL, result = NULL, result_checksum = NULL, progress = NULL,
                         reason = NULL, expires_at = NULL, run_at = :now,
                         rank = CASE WHEN rank < 0 THEN -:now ELSE :now END
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: move_promote_now
UPDATE headrace_jobs SET state = 'pending', version = version + 1, run_at = :now, reason = nullif(reason, 'held'),
                         rank = CASE WHEN rank < 0 THEN -:now ELSE :now END
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: move_delete
DELETE FROM headrace_jobs WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: ids_of
SELECT json_group_array(id) FROM headrace_jobs WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: state_of
SELECT state FROM headrace_jobs WHERE seq = :seq;

-- name: update_job
UPDATE headrace_jobs SET
    version = version + 1,
    priority = coalesce(:priority, priority),
    queue = coalesce(:queue, queue),
    run_at = coalesce(:run_at, run_at),
    rank = CASE WHEN :run_at IS NULL THEN rank WHEN rank < 0 THEN -:run_at ELSE :run_at END,
    state = :state
WHERE seq IN (SELECT value FROM json_each(:seqs));

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
job.id IN (SELECT value FROM json_each(:ids))

-- name: where_tag
job.seq IN (SELECT tags.job FROM headrace_tags AS tags WHERE tags.tag = :tag)

-- An encrypted call is skipped: a match in it would be chance.
-- name: where_text
(instr(job.id, :text) OR instr(job.task, :text)
 OR (instr(job.payload, :text) AND substr(job.payload, 1, 10) <> '{"$sealed"')
 OR instr(coalesce(job.reason, ''), :text) OR instr(coalesce(job.metadata, ''), :text))

-- name: lock_matching
SELECT json_group_array(seq) FROM (
    SELECT job.seq FROM headrace_jobs AS job WHERE {where} ORDER BY job.seq LIMIT :limit);
