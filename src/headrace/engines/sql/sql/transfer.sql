-- name: export_jobs
SELECT {rows {JobRow}} FROM (SELECT * FROM headrace_jobs WHERE seq > :after ORDER BY seq LIMIT :limit) AS exported;

-- name: import_history (each r: ImportedHistoryRow)
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, finished_at,
                              detail, error_type, error_message, error_traceback)
SELECT job.seq, r.at, r.event, r.source, r.target, r.version, r.attempt, r.worker, r.started_at,
       r.finished_at, r.detail, r.error_type, r.error_message, r.error_traceback
FROM {each r} {lookup headrace_jobs AS job ON job.{has_id r.job_id}}
ORDER BY r.key;

-- name: import_logs (each r: ImportedLogLine)
INSERT INTO headrace_logs (job, at, attempt, level, message, fields)
SELECT job.seq, r.at, r.attempt, r.level, r.message, r.fields
FROM {each r} {lookup headrace_jobs AS job ON job.{has_id r.job_id}}
ORDER BY r.key;

-- name: import_queues (each r: QueueRow)
INSERT INTO headrace_queues (name, paused, created_at, rules)
SELECT r.name, r.paused, r.created_at, r.rules FROM {each r} WHERE true
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, created_at = excluded.created_at, rules = excluded.rules;
