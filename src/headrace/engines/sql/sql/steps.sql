-- Stored steps of jobs, and the events they wait for. Every writer has locked the job's row before: so a suspension and
-- the event it waits for are serialized, and the second one sees the first. Conditions on a state are written so that
-- PostgreSQL does not use the index of all jobs in that state.

-- name: lock_leased
SELECT {list seq} FROM (
    SELECT seq FROM headrace_jobs WHERE {has_id :id} AND version = :version AND coalesce(lease_until, 0) > 0
    {lock FOR UPDATE}) AS leased;

-- name: lock_open
SELECT {list seq} FROM (
    SELECT seq FROM headrace_jobs
    WHERE {has_id :id} AND state NOT IN ('completed', 'failed', 'cancelled') {lock FOR UPDATE}) AS still_open;

-- name: save_step (each s: Step)
INSERT INTO headrace_steps (job, kind, name, number, at, value, checksum)
SELECT :seq, s.kind, s.name, s.number, s.at, s.value, s.checksum FROM {each s} WHERE true
ON CONFLICT (job, kind, name, number) DO NOTHING;

-- name: record_step
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, detail)
SELECT seq, :at, :kind, state, state, version, attempt, worker, started_at, :name
FROM headrace_jobs WHERE seq = :seq;

-- name: events_so_far
SELECT coalesce(max(number), 0) FROM headrace_steps WHERE job = :seq AND kind = 'event' AND name = :name;

-- name: scheduled_because
SELECT max(reason) FILTER (WHERE state = 'scheduled') FROM headrace_jobs WHERE seq = :seq;

-- name: wake
UPDATE headrace_jobs SET state = 'pending', {next_version :now}, run_at = :now, reason = NULL,
                         rank = CASE WHEN rank < 0 THEN -CAST(:now AS bigint) ELSE CAST(:now AS bigint) END
WHERE seq = :seq;

-- name: steps
SELECT {rows {Step}} FROM (
    SELECT * FROM headrace_steps WHERE job = (SELECT seq FROM headrace_jobs WHERE {has_id :id}) ORDER BY seq) AS step;

-- name: import_steps (each r: ImportedStep)
INSERT INTO headrace_steps (job, kind, name, number, at, value, checksum)
SELECT job.seq, r.kind, r.name, r.number, r.at, r.value, r.checksum
FROM {each r} {lookup headrace_jobs AS job ON job.{has_id r.job_id}}
ORDER BY r.key;
