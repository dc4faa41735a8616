-- name: add_dead_letters (each b: DeadLetterInsert)
INSERT INTO headrace_dead_letters (id, job_id, task, queue, reason, entered_at, snapshot, fingerprint, requeues)
SELECT lpad(to_hex(:now::bigint), 12, '0') || lpad(to_hex(job.version & 65535), 4, '0')
           || substr(replace(gen_random_uuid()::text, '-', ''), 1, 16),
       job.id, job.task, job.queue, b.reason, :now,
       json_build_object('state', job.state, 'payload', job.payload, 'checksum', job.checksum,
                             'options', job.options, 'tags', job.tags, 'metadata', job.metadata,
                             'priority', job.priority, 'attempt', job.attempt, 'max_attempts', job.max_attempts,
                             'created_at', job.created_at, 'started_at', job.started_at, 'worker', job.worker,
                             'error_type', b.error_type, 'error_message', b.error_message,
                             'error_traceback', '', 'crashes', b.crashes::json,
                             'lifo', (job.rank < 0)::integer, 'lane', job.lane, 'unique_key', job.unique_key,
                             'flow', job.flow, 'parents', (
                                 SELECT coalesce(json_agg(parent.id), '[]') FROM headrace_dependencies AS edge
                                 CROSS JOIN LATERAL (
                                     SELECT id FROM headrace_jobs WHERE seq = edge.parent OFFSET 0) AS parent
                                 WHERE edge.child = job.seq),
                             'history', (
                                 SELECT coalesce(json_agg(json_build_array({HistoryRow}) ORDER BY seq DESC), '[]') FROM (
                                     SELECT *, row_number() OVER (ORDER BY entry.seq + 0 DESC) AS place,
                                            min(entry.seq) FILTER (WHERE entry.error_type IS NOT NULL) OVER () AS first_failure
                                     FROM headrace_history AS entry
                                     WHERE entry.job = job.seq AND entry.version <= job.version) AS kept
                                 WHERE place <= 10 OR seq = first_failure),
                             'version', job.version, 'progress', job.progress, 'steps', (
                                 SELECT coalesce(json_agg(name ORDER BY seq), '[]') FROM (
                                     SELECT name, seq FROM headrace_steps AS step
                                     WHERE step.job = job.seq AND step.kind = 'step'
                                     ORDER BY step.seq + 0 LIMIT 100) AS remembered),
                             'logs', (
                                 SELECT coalesce(json_agg(json_build_array({LogLine})), '[]') FROM (
                                     SELECT * FROM headrace_logs AS line
                                     WHERE line.job = job.seq AND line.level <> 'stream'
                                     ORDER BY line.seq + 0 DESC LIMIT 10) AS newest))::text,
       b.fingerprint,
       coalesce((SELECT before.requeues FROM headrace_dead_letters AS before WHERE before.job_id = job.id
                     ORDER BY before.id DESC LIMIT 1), 0)
FROM jsonb_array_elements(:b::jsonb) AS b(value)
CROSS JOIN LATERAL (SELECT * FROM headrace_jobs WHERE seq = b.seq OFFSET 0) AS job
ON CONFLICT (job_id) WHERE status = 'pending' DO UPDATE
SET id = excluded.id, task = excluded.task, queue = excluded.queue, reason = excluded.reason,
    entered_at = excluded.entered_at, snapshot = excluded.snapshot, fingerprint = excluded.fingerprint;

-- name: tag_revived (each r: RequeueChange)
INSERT INTO headrace_tags (tag, job)
SELECT DISTINCT tag, r.seq FROM jsonb_array_elements(:r::jsonb) AS r(value), jsonb_array_elements_text((r.tags)::jsonb) AS tag
ON CONFLICT DO NOTHING;
