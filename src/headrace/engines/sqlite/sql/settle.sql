-- name: add_dead_letters_of_outcomes (each o: Outcome)
INSERT INTO headrace_dead_letters (id, job_id, task, queue, reason, entered_at, snapshot, fingerprint, requeues)
SELECT printf('%012x%04x', o.at, job.version & 65535) || lower(hex(randomblob(8))), job.id, job.task, job.queue,
       coalesce(o.reason, 'failed'), o.at,
       json_object('state', job.state, 'payload', job.payload, 'checksum', job.checksum, 'options', job.options,
                   'tags', job.tags, 'metadata', job.metadata, 'priority', job.priority, 'attempt', job.attempt,
                   'max_attempts', coalesce(o.max_attempts, job.max_attempts), 'created_at', job.created_at,
                   'started_at', job.started_at, 'worker', job.worker, 'error_type', o.error_type,
                   'error_message', o.error_message, 'error_traceback', o.error_traceback, 'lifo', job.rank < 0,
                   'lane', job.lane, 'unique_key', job.unique_key,
                   'flow', job.flow, 'parents', json((
                       SELECT json_group_array(parent.id) FROM headrace_dependencies AS edge
                       JOIN headrace_jobs AS parent ON parent.seq = edge.parent WHERE edge.child = job.seq)),
                   'history', json((
                       SELECT json_group_array(json_array({HistoryRow})) FROM (
                           SELECT * FROM (
                               SELECT *, row_number() OVER (ORDER BY entry.seq DESC) AS place,
                                      min(entry.seq) FILTER (WHERE entry.error_type IS NOT NULL) OVER () AS first_failure
                               FROM headrace_history AS entry WHERE entry.job = job.seq AND entry.version <= job.version)
                           WHERE place <= 10 OR seq = first_failure ORDER BY seq DESC))),
                   'version', job.version, 'progress', job.progress, 'steps', json((
                       SELECT json_group_array(name) FROM (
                           SELECT name FROM headrace_steps AS step WHERE step.job = job.seq AND step.kind = 'step'
                           ORDER BY step.seq LIMIT 100))),
                   'logs', json((
                       SELECT json_group_array(json_array({LogLine})) FROM (
                           SELECT * FROM headrace_logs AS line WHERE line.job = job.seq AND line.level <> 'stream'
                           ORDER BY line.seq DESC LIMIT 10)))),
       coalesce(o.fingerprint, ''),
       coalesce((SELECT requeues FROM headrace_dead_letters AS before WHERE before.job_id = job.id
                 ORDER BY before.id DESC LIMIT 1), 0)
FROM json_each(:o) AS o
JOIN headrace_jobs AS job ON job.id = o.id AND job.version = o.version
WHERE true
ON CONFLICT (job_id) WHERE status = 'pending' DO UPDATE
SET id = excluded.id, task = excluded.task, queue = excluded.queue, reason = excluded.reason,
    entered_at = excluded.entered_at, snapshot = excluded.snapshot, fingerprint = excluded.fingerprint;

-- name: record_outcomes (each o: Outcome)
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, detail,
                              error_type, error_message, error_traceback, run_at)
SELECT job.seq, o.at, o.event, job.state, o.state, job.version + 1, job.attempt, job.worker, job.started_at,
       o.reason, o.error_type, o.error_message, o.error_traceback, o.run_at
FROM json_each(:o) AS o
JOIN headrace_jobs AS job ON job.id = o.id AND job.version = o.version;

-- name: settle (each o: Outcome)
UPDATE headrace_jobs SET
    state = o.state,
    {next_version o.at},
    attempt = attempt - o.attempt_refund,
    releases = releases + o.attempt_refund,
    crashes = CASE WHEN o.event IN ('retry', 'snooze') THEN 0 ELSE crashes END,
    run_at = coalesce(o.run_at, headrace_jobs.run_at),
    rank = CASE WHEN o.run_at IS NULL THEN rank WHEN rank < 0 THEN -o.run_at ELSE o.run_at END,
    max_attempts = coalesce(o.max_attempts, headrace_jobs.max_attempts),
    result = o.result,
    result_checksum = o.result_checksum,
    reason = CASE WHEN o.state = 'waiting' THEN NULL ELSE o.reason END,
    finished_at = o.finished_at,
    expires_at = CASE WHEN o.state = 'waiting' THEN NULL ELSE expires_at END,
    worker = CASE WHEN o.finished_at IS NULL THEN NULL ELSE worker END,
    lease_until = NULL
FROM json_each(:o) AS o
WHERE headrace_jobs.id = o.id AND headrace_jobs.version = o.version AND (headrace_jobs.has_dependencies = 0 OR :with_dependencies);

-- name: complete (each o: Completion)
UPDATE headrace_jobs SET state = 'completed', {next_version o.finished_at}, result = o.result,
                         result_checksum = o.result_checksum, finished_at = o.finished_at, reason = NULL,
                         lease_until = NULL
FROM json_each(:o) AS o
WHERE headrace_jobs.id = o.id AND headrace_jobs.version = o.version AND (headrace_jobs.has_dependencies = 0 OR :with_dependencies);

-- name: stale_outcomes (each o: Outcome)
SELECT json_group_array(o.key) FROM json_each(:o) AS o
WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.id = o.id AND job.version = o.version);

-- name: record_stale (each o: Outcome)
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, detail,
                              error_type, error_message, error_traceback)
SELECT job.seq, :now, 'lease_lost', job.state, job.state, o.version, job.attempt, :worker,
       'late ' || o.event || ' refused: it held version ' || o.version || ', the job is at ' || job.version,
       o.error_type, o.error_message, o.error_traceback
FROM json_each(:o) AS o
JOIN headrace_jobs AS job ON job.id = o.id;

-- name: note_progress (each n: JobNote)
UPDATE headrace_jobs SET progress = n.progress
FROM json_each(:n) AS n
WHERE headrace_jobs.id = n.id AND headrace_jobs.version = n.version;

-- name: note_logs (each n: JobNote)
INSERT INTO headrace_logs (job, at, attempt, level, message, fields)
SELECT job.seq, n.at, job.attempt, n.level, n.message, n.fields
FROM json_each(:n) AS n
JOIN headrace_jobs AS job ON job.id = n.id AND job.version = n.version
ORDER BY n.key;
