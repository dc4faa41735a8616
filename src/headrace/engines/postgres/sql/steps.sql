-- name: wake_if_come (each o: Outcome)
UPDATE headrace_jobs AS job SET state = 'pending', run_at = :now, reason = NULL,
                                rank = CASE WHEN job.rank < 0 THEN -:now::bigint ELSE :now::bigint END
FROM jsonb_array_elements(:o::jsonb) AS o(value)
WHERE job.{has_id o.id} AND job.version = o.version + 1 AND jsonb_typeof(o.value) = 'array'
  AND lower(job.state) = 'scheduled'
  AND (SELECT count(*) FROM headrace_steps AS step
       JOIN jsonb_array_elements(o.awaits::jsonb) AS event
         ON step.name = event ->> 0 AND step.number = (event ->> 1)::bigint
       WHERE step.job = job.seq AND step.kind = 'event') > 0;

-- name: delete_steps
DELETE FROM headrace_steps WHERE ctid = ANY (ARRAY(
    SELECT of_one.place FROM jsonb_array_elements(:seqs::jsonb) AS gone CROSS JOIN LATERAL (
        SELECT s.ctid AS place FROM headrace_steps AS s WHERE s.job = gone::bigint OFFSET 0) AS of_one));

-- name: delete_steps_of_completed
DELETE FROM headrace_steps WHERE ctid = ANY (ARRAY(
    SELECT of_one.place FROM headrace_jobs AS job CROSS JOIN LATERAL (
        SELECT s.ctid AS place FROM headrace_steps AS s WHERE s.job = job.seq OFFSET 0) AS of_one
    WHERE job.seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint)) AND job.state = 'completed'));

-- name: export_steps
SELECT coalesce(json_agg(json_build_array(job, json_build_array({Step})) ORDER BY seq), '[]')::text
FROM jsonb_array_elements(:seqs::jsonb) AS exported(one) CROSS JOIN LATERAL (
    SELECT * FROM headrace_steps WHERE job = exported.one::bigint OFFSET 0) AS remembered;

-- name: save_joined_step (each s: Step)
WITH leased AS (
    SELECT seq, state, version, attempt, worker, started_at FROM headrace_jobs
    WHERE {has_id :id} AND version = :version AND coalesce(lease_until, 0) > 0 FOR UPDATE
), saved AS (
    INSERT INTO headrace_steps (job, kind, name, number, at, value, checksum)
    SELECT leased.seq, s.kind, s.name, s.number, s.at, s.value, s.checksum FROM leased CROSS JOIN {each s}
    ON CONFLICT (job, kind, name, number) DO NOTHING
    RETURNING job, at, kind, name
), recorded AS (
    INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, detail)
    SELECT job, at, kind, state, state, version, attempt, worker, started_at, name
    FROM saved JOIN leased ON leased.seq = saved.job
)
SELECT count(*) FROM leased;
