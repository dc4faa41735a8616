-- name: add_dead_letters (each b: DeadLetterInsert)
INSERT INTO headrace_dead_letters (id, job_id, task, queue, reason, entered_at, snapshot, fingerprint, requeues)
SELECT printf('%012x%04x', :now, version & 65535) || lower(hex(randomblob(8))), headrace_jobs.id, task, queue, b.reason,
       :now,
       json_object('state', headrace_jobs.state, 'payload', payload, 'checksum', checksum, 'options', options,
                   'tags', tags, 'metadata', metadata, 'priority', priority, 'attempt', attempt,
                   'max_attempts', max_attempts, 'created_at', created_at, 'started_at', started_at,
                   'worker', worker, 'error_type', b.error_type, 'error_message', b.error_message,
                   'error_traceback', '', 'crashes', json(b.crashes), 'lifo', rank < 0,
                   'lane', lane, 'unique_key', unique_key, 'flow', flow, 'parents', json((
                       SELECT json_group_array(parent.id) FROM headrace_dependencies AS edge
                       JOIN headrace_jobs AS parent ON parent.seq = edge.parent
                       WHERE edge.child = headrace_jobs.seq)),
                   'history', json((
                       SELECT json_group_array(json_array({HistoryRow})) FROM (
                           SELECT * FROM (
                               SELECT *, row_number() OVER (ORDER BY entry.seq DESC) AS place,
                                      min(entry.seq) FILTER (WHERE entry.error_type IS NOT NULL) OVER () AS first_failure
                               FROM headrace_history AS entry WHERE entry.job = headrace_jobs.seq AND entry.version <= headrace_jobs.version)
                           WHERE place <= 10 OR seq = first_failure ORDER BY seq DESC))),
                   'version', headrace_jobs.version, 'progress', headrace_jobs.progress, 'steps', json((
                       SELECT json_group_array(name) FROM (
                           SELECT name FROM headrace_steps AS step WHERE step.job = headrace_jobs.seq AND step.kind = 'step'
                           ORDER BY step.seq LIMIT 100))),
                   'logs', json((
                       SELECT json_group_array(json_array({LogLine})) FROM (
                           SELECT * FROM headrace_logs AS line
                           WHERE line.job = headrace_jobs.seq AND line.level <> 'stream'
                           ORDER BY line.seq DESC LIMIT 10)))),
       b.fingerprint,
       coalesce((SELECT requeues FROM headrace_dead_letters AS before WHERE before.job_id = headrace_jobs.id
                 ORDER BY before.id DESC LIMIT 1), 0)
FROM json_each(:b) AS b
JOIN headrace_jobs ON headrace_jobs.seq = b.seq
WHERE true
ON CONFLICT (job_id) WHERE status = 'pending' DO UPDATE
SET id = excluded.id, task = excluded.task, queue = excluded.queue, reason = excluded.reason,
    entered_at = excluded.entered_at, snapshot = excluded.snapshot, fingerprint = excluded.fingerprint;

-- name: tag_revived (each r: RequeueChange)
INSERT OR IGNORE INTO headrace_tags (tag, job)
SELECT tag.value, r.seq FROM json_each(:r) AS r JOIN json_each(r.tags) AS tag;
