-- name: emptied_tables
SELECT json_group_array(name) FROM sqlite_master
WHERE type = 'table' AND name LIKE 'headrace@_%' ESCAPE '@' AND name NOT IN ('headrace_schema', 'headrace_store');

-- name: export_jobs
SELECT json_group_array(json_array({JobRow})) FROM (
    SELECT * FROM headrace_jobs WHERE seq > :after ORDER BY seq LIMIT :limit);

-- name: export_history
SELECT json_group_array(json_array(job, json_array({HistoryRow}))) FROM (
    SELECT * FROM headrace_history WHERE job IN (SELECT value FROM json_each(:seqs)) ORDER BY seq);

-- name: export_logs
SELECT json_group_array(json_array(job, json_array({LogLine}))) FROM (
    SELECT * FROM headrace_logs WHERE job IN (SELECT value FROM json_each(:seqs)) ORDER BY seq);

-- name: import_jobs (each r: JobRow)
INSERT INTO headrace_jobs (id, task, queue, state, priority, rank, version, attempt, max_attempts, crashes, releases,
                           payload, checksum, created_at, run_at, expires_at, started_at, finished_at, worker,
                           lease_until, result, result_checksum, progress, reason, options, tags, metadata,
                           unique_key, lane, flow, has_dependencies)
SELECT r.id, r.task, r.queue, r.state, r.priority, r.rank, r.version, r.attempt, r.max_attempts,
       r.crashes, r.releases, r.payload, r.checksum, r.created_at, r.run_at, r.expires_at,
       r.started_at, r.finished_at, r.worker, r.lease_until, r.result, r.result_checksum, r.progress,
       r.reason, r.options, r.tags, r.metadata, r.unique_key, r.lane, r.flow, r.has_dependencies
FROM json_each(:r) AS r
WHERE true
ORDER BY r.key;

-- name: import_tags (each r: JobRow)
INSERT OR IGNORE INTO headrace_tags (tag, job)
SELECT tag.value, job.seq
FROM json_each(:r) AS r
JOIN headrace_jobs AS job ON job.id = r.id
JOIN json_each(r.tags) AS tag;

-- name: import_history (each r: ImportedHistoryRow)
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, finished_at,
                              detail, error_type, error_message, error_traceback)
SELECT job.seq, r.at, r.event, r.source, r.target, r.version, r.attempt, r.worker, r.started_at,
       r.finished_at, r.detail, r.error_type, r.error_message, r.error_traceback
FROM json_each(:r) AS r
JOIN headrace_jobs AS job ON job.id = r.job_id
ORDER BY r.key;

-- name: import_logs (each r: ImportedLogLine)
INSERT INTO headrace_logs (job, at, attempt, level, message, fields)
SELECT job.seq, r.at, r.attempt, r.level, r.message, r.fields
FROM json_each(:r) AS r
JOIN headrace_jobs AS job ON job.id = r.job_id
ORDER BY r.key;

-- name: import_queues (each r: QueueRow)
INSERT INTO headrace_queues (name, paused, created_at, rules)
SELECT r.name, r.paused, r.created_at, r.rules FROM json_each(:r) AS r
WHERE true
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, created_at = excluded.created_at, rules = excluded.rules;
