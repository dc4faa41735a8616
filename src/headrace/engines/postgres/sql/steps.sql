-- Stored steps of jobs, and the events they wait for. Every writer has locked the job's row before: so a suspension and
-- the event it waits for are serialized, and the second one sees the first. Conditions on a state are written so that
-- the planner does not use the index of all jobs in that state.

-- name: lock_leased
SELECT coalesce(json_agg(seq), '[]')::text FROM (
    SELECT seq FROM headrace_jobs WHERE id = :id AND version = :version AND coalesce(lease_until, 0) > 0
    FOR UPDATE) AS leased;

-- name: lock_open
SELECT coalesce(json_agg(seq), '[]')::text FROM (
    SELECT seq FROM headrace_jobs
    WHERE id = :id AND state NOT IN ('completed', 'failed', 'cancelled') FOR UPDATE) AS still_open;

-- name: save_step (each s: Step)
INSERT INTO headrace_steps (job, kind, name, number, at, value, checksum)
SELECT :seq, s.kind, s.name, s.number, s.at, s.value, s.checksum FROM jsonb_array_elements(:s::jsonb) AS s(value)
ON CONFLICT (job, kind, name, number) DO NOTHING;

-- name: record_step
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, detail)
SELECT seq, :at, :kind, state, state, version, attempt, worker, started_at, :name
FROM headrace_jobs WHERE seq = :seq;

-- name: events_so_far
SELECT coalesce(max(number), 0) FROM headrace_steps WHERE job = :seq AND kind = 'event' AND name = :name;

-- name: is_suspended
SELECT count(*) FILTER (WHERE state = 'scheduled' AND reason = :reason) FROM headrace_jobs WHERE seq = :seq;

-- name: wake
UPDATE headrace_jobs SET state = 'pending', version = version + 1, run_at = :now, reason = NULL,
                         rank = CASE WHEN rank < 0 THEN -:now::bigint ELSE :now::bigint END
WHERE seq = :seq;

-- name: wake_if_come (each o: Outcome)
UPDATE headrace_jobs AS job SET state = 'pending', run_at = :now, reason = NULL,
                                rank = CASE WHEN job.rank < 0 THEN -:now::bigint ELSE :now::bigint END
FROM jsonb_array_elements(:o::jsonb) AS o(value)
WHERE job.id = ANY (ARRAY[o.id]) AND job.version = o.version + 1 AND jsonb_typeof(o.value) = 'array'
  AND lower(job.state) = 'scheduled'
  AND (SELECT count(*) FROM headrace_steps AS step
       WHERE step.job = job.seq AND step.kind = 'event' AND step.name = o.awaits
         AND step.number = o.awaited_number) > 0;

-- name: steps
SELECT coalesce(json_agg(json_build_array({Step}) ORDER BY seq), '[]')::text
FROM headrace_steps WHERE job = (SELECT seq FROM headrace_jobs WHERE id = :id);

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

-- Here `r.value` is the step's, so the always true condition is another one.
-- name: import_steps (each r: ImportedStep)
INSERT INTO headrace_steps (job, kind, name, number, at, value, checksum)
SELECT job.seq, r.kind, r.name, r.number, r.at, r.value, r.checksum
FROM jsonb_array_elements(:r::jsonb) WITH ORDINALITY AS r(value, key)
JOIN headrace_jobs AS job ON job.id = ANY (ARRAY[r.job_id])
WHERE r.kind IN ('step', 'sleep', 'event')
ORDER BY r.key;
