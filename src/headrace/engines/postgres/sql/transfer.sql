-- name: export_jobs
SELECT coalesce(json_agg(json_build_array({JobRow})), '[]')::text FROM (
    SELECT * FROM headrace_jobs WHERE seq > :after ORDER BY seq LIMIT :limit) AS exported;

-- name: export_history
SELECT coalesce(json_agg(json_build_array(job, json_build_array({HistoryRow})) ORDER BY seq), '[]')::text
FROM jsonb_array_elements(:seqs::jsonb) AS exported CROSS JOIN LATERAL (
    SELECT * FROM headrace_history WHERE job = exported::bigint OFFSET 0) AS entry;

-- name: export_logs
SELECT coalesce(json_agg(json_build_array(job, json_build_array({LogLine})) ORDER BY seq), '[]')::text
FROM jsonb_array_elements(:seqs::jsonb) AS exported CROSS JOIN LATERAL (
    SELECT * FROM headrace_logs WHERE job = exported::bigint OFFSET 0) AS logged;

-- name: import_jobs (each r: JobRow)
INSERT INTO headrace_jobs (id, task, queue, state, priority, rank, version, attempt, max_attempts, crashes, releases,
                           payload, checksum, created_at, run_at, expires_at, started_at, finished_at, worker,
                           lease_until, result, result_checksum, progress, reason, options, tags, metadata,
                           unique_key, lane, flow, has_dependencies)
SELECT r.id, r.task, r.queue, r.state, r.priority, r.rank, r.version, r.attempt, r.max_attempts,
       r.crashes, r.releases, r.payload, r.checksum, r.created_at, r.run_at, r.expires_at,
       r.started_at, r.finished_at, r.worker, r.lease_until, r.result, r.result_checksum, r.progress,
       r.reason, r.options, r.tags, r.metadata, r.unique_key, r.lane, r.flow, r.has_dependencies
FROM jsonb_array_elements(:r::jsonb) WITH ORDINALITY AS r(value, key)
ORDER BY r.key;

-- name: import_tags (each r: JobRow)
INSERT INTO headrace_tags (tag, job)
SELECT tag, job.seq
FROM jsonb_array_elements(:r::jsonb) AS r(value)
JOIN headrace_jobs AS job ON job.id = ANY (ARRAY[r.id])
CROSS JOIN jsonb_array_elements_text(job.tags::jsonb) AS tag
WHERE jsonb_typeof(r.value) = 'array'
ON CONFLICT DO NOTHING;

-- name: import_history (each r: ImportedHistoryRow)
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, finished_at,
                              detail, error_type, error_message, error_traceback)
SELECT job.seq, r.at, r.event, r.source, r.target, r.version, r.attempt, r.worker, r.started_at,
       r.finished_at, r.detail, r.error_type, r.error_message, r.error_traceback
FROM jsonb_array_elements(:r::jsonb) WITH ORDINALITY AS r(value, key)
JOIN headrace_jobs AS job ON job.id = ANY (ARRAY[r.job_id])
WHERE jsonb_typeof(r.value) = 'array'
ORDER BY r.key;

-- name: import_logs (each r: ImportedLogLine)
INSERT INTO headrace_logs (job, at, attempt, level, message, fields)
SELECT job.seq, r.at, r.attempt, r.level, r.message, r.fields
FROM jsonb_array_elements(:r::jsonb) WITH ORDINALITY AS r(value, key)
JOIN headrace_jobs AS job ON job.id = ANY (ARRAY[r.job_id])
WHERE jsonb_typeof(r.value) = 'array'
ORDER BY r.key;

-- name: import_queues (each r: QueueRow)
INSERT INTO headrace_queues (name, paused, created_at, rules)
SELECT r.name, r.paused, r.created_at, r.rules FROM jsonb_array_elements(:r::jsonb) AS r(value)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, created_at = excluded.created_at, rules = excluded.rules;
