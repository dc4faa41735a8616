-- Stored steps of jobs, and the events they wait for.

-- name: lock_leased
SELECT json_group_array(seq) FROM headrace_jobs WHERE id = :id AND version = :version AND state = 'running';

-- name: lock_open
SELECT json_group_array(seq) FROM headrace_jobs
WHERE id = :id AND state NOT IN ('completed', 'failed', 'cancelled');

-- name: save_step (each s: Step)
INSERT INTO headrace_steps (job, kind, name, number, at, value, checksum)
SELECT :seq, s.kind, s.name, s.number, s.at, s.value, s.checksum FROM json_each(:s) AS s WHERE true
ON CONFLICT (job, kind, name, number) DO NOTHING;

-- name: record_step
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, detail)
SELECT seq, :at, :kind, state, state, version, attempt, worker, started_at, :name
FROM headrace_jobs WHERE seq = :seq;

-- name: events_so_far
SELECT coalesce(max(number), 0) FROM headrace_steps WHERE job = :seq AND kind = 'event' AND name = :name;

-- name: is_suspended
SELECT count(*) FROM headrace_jobs WHERE seq = :seq AND state = 'scheduled' AND reason = :reason;

-- name: wake
UPDATE headrace_jobs SET state = 'pending', version = version + 1, run_at = :now, reason = NULL,
                         rank = CASE WHEN rank < 0 THEN -:now ELSE :now END
WHERE seq = :seq;

-- name: wake_if_come (each o: Outcome)
UPDATE headrace_jobs SET state = 'pending', run_at = :now, reason = NULL,
                         rank = CASE WHEN rank < 0 THEN -:now ELSE :now END
FROM json_each(:o) AS o
WHERE headrace_jobs.id = o.id AND headrace_jobs.version = o.version + 1 AND headrace_jobs.state = 'scheduled'
  AND EXISTS (SELECT 1 FROM headrace_steps AS step
              WHERE step.job = headrace_jobs.seq AND step.kind = 'event' AND step.name = o.awaits
                AND step.number = o.awaited_number);

-- name: steps
SELECT json_group_array(json_array({Step})) FROM (
    SELECT s.* FROM headrace_steps AS s JOIN headrace_jobs AS job ON job.seq = s.job
    WHERE job.id = :id ORDER BY s.seq);

-- name: delete_steps
DELETE FROM headrace_steps WHERE job IN (SELECT value FROM json_each(:seqs));

-- name: delete_steps_of_completed
DELETE FROM headrace_steps
WHERE job IN (SELECT seq FROM headrace_jobs WHERE seq IN (SELECT value FROM json_each(:seqs)) AND state = 'completed');

-- name: export_steps
SELECT json_group_array(json_array(job, json_array({Step}))) FROM (
    SELECT * FROM headrace_steps WHERE job IN (SELECT value FROM json_each(:seqs)) ORDER BY seq);

-- name: import_steps (each r: ImportedStep)
INSERT INTO headrace_steps (job, kind, name, number, at, value, checksum)
SELECT job.seq, r.kind, r.name, r.number, r.at, r.value, r.checksum
FROM json_each(:r) AS r
JOIN headrace_jobs AS job ON job.id = r.job_id
ORDER BY r.key;
