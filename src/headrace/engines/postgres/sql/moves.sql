-- name: record_moves
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, finished_at,
                              detail)
SELECT seq, :now, :event, state, :target, version + 1, attempt, worker, started_at, finished_at, :detail
FROM headrace_jobs WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- name: move_cancel
UPDATE headrace_jobs SET state = 'cancelled', version = version + 1, finished_at = :now, lease_until = NULL,
                         reason = :reason
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- name: move_revive
UPDATE headrace_jobs SET state = :state, version = version + 1, attempt = 0, crashes = 0, finished_at = NULL,
                         started_at = NULL, worker = NULL, result = NULL, result_checksum = NULL, progress = NULL,
                         reason = NULL, expires_at = NULL, run_at = :now,
                         rank = CASE WHEN rank < 0 THEN -:now::bigint ELSE :now::bigint END
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- name: move_promote_now
UPDATE headrace_jobs SET state = 'pending', version = version + 1, run_at = :now, reason = nullif(reason, 'held'),
                         rank = CASE WHEN rank < 0 THEN -:now::bigint ELSE :now::bigint END
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- The rows of a job are found job by job (OFFSET 0 forces that) and deleted by ctid: in one join, a planner that does
-- not know how few rows a job has would read all rows.
-- name: move_delete
WITH gone AS (
    DELETE FROM headrace_jobs WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint)) RETURNING seq
), tags AS (
    DELETE FROM headrace_tags WHERE ctid = ANY (ARRAY(
        SELECT of_one.place FROM gone CROSS JOIN LATERAL (
            SELECT t.ctid AS place FROM headrace_tags AS t WHERE t.job = gone.seq OFFSET 0) AS of_one))
), history AS (
    DELETE FROM headrace_history WHERE ctid = ANY (ARRAY(
        SELECT of_one.place FROM gone CROSS JOIN LATERAL (
            SELECT h.ctid AS place FROM headrace_history AS h WHERE h.job = gone.seq OFFSET 0) AS of_one))
), edges AS (
    DELETE FROM headrace_dependencies WHERE ctid = ANY (ARRAY(
        SELECT of_one.place FROM gone CROSS JOIN LATERAL (
            SELECT b.ctid AS place FROM headrace_dependencies AS b WHERE b.child = gone.seq OFFSET 0) AS of_one
        UNION
        SELECT of_one.place FROM gone CROSS JOIN LATERAL (
            SELECT b.ctid AS place FROM headrace_dependencies AS b WHERE b.parent = gone.seq OFFSET 0) AS of_one))
)
DELETE FROM headrace_logs WHERE ctid = ANY (ARRAY(
    SELECT of_one.place FROM gone CROSS JOIN LATERAL (
        SELECT l.ctid AS place FROM headrace_logs AS l WHERE l.job = gone.seq OFFSET 0) AS of_one));

-- name: ids_of
SELECT coalesce(json_agg(id ORDER BY seq), '[]')::text FROM headrace_jobs
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- name: state_of
SELECT state FROM headrace_jobs WHERE seq = :seq;

-- name: update_job
UPDATE headrace_jobs SET
    version = version + 1,
    priority = coalesce(:priority, priority),
    queue = coalesce(:queue, queue),
    run_at = coalesce(:run_at, run_at),
    rank = CASE WHEN :run_at::bigint IS NULL THEN rank WHEN rank < 0 THEN -:run_at::bigint ELSE :run_at::bigint END,
    state = :state
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

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
job.id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))

-- name: where_tag
job.seq IN (SELECT tags.job FROM headrace_tags AS tags WHERE tags.tag = :tag)

-- An encrypted call is skipped: a match in it would be chance.
-- name: where_text
(strpos(job.id, :text) > 0 OR strpos(job.task, :text) > 0
 OR (strpos(job.payload, :text) > 0 AND left(job.payload, 10) <> '{"$sealed"')
 OR strpos(coalesce(job.reason, ''), :text) > 0 OR strpos(coalesce(job.metadata, ''), :text) > 0)

-- name: lock_matching
SELECT coalesce(json_agg(seq), '[]')::text FROM (
    SELECT job.seq FROM headrace_jobs AS job WHERE {where} ORDER BY job.seq LIMIT :limit FOR UPDATE) AS matching;
