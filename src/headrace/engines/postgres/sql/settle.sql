-- The end of a job in a lane, or in a queue or task with rules, may let another worker's job start.
-- The worker that claimed a job knows its number, which spares the lookup by id. It is of this store only if the id fits.
-- name: complete (each o: Completion)
WITH done AS (
    UPDATE headrace_jobs AS job SET state = 'completed', {next_version o.finished_at}, result = o.result,
                                    result_checksum = o.result_checksum, finished_at = o.finished_at,
                                    reason = NULL, lease_until = NULL
    FROM jsonb_array_elements(:o::jsonb) AS o(value)
    WHERE job.seq = ANY (ARRAY[coalesce(o.seq, (SELECT seq FROM headrace_ids WHERE id = o.id))]) AND job.id = o.id
      AND job.version = o.version AND (job.has_dependencies = 0 OR :with_dependencies > 0)
      AND jsonb_typeof(o.value) = 'array'
    RETURNING job.id, job.version - 1 AS version, CASE WHEN job.has_dependencies <> 0 THEN job.seq END AS edge_seq,
              job.lane > '' OR EXISTS (SELECT FROM headrace_tasks)
                  OR job.queue = ANY (ARRAY(SELECT name FROM headrace_queues
                                            WHERE strpos(rules, '"concurrency":') > 0)) AS frees
), notified AS (
    SELECT pg_notify(:channel, 'done') FROM (SELECT FROM done LIMIT 1) AS any_done
    UNION ALL
    SELECT pg_notify(:channel, 'work') FROM (SELECT FROM done WHERE frees LIMIT 1) AS any_free
), recorded AS (
    INSERT INTO headrace_events (at, size, page, only_jobs)
    SELECT :at, :size, :page::text, CASE WHEN count(*) < :completions THEN coalesce(json_agg(id), '[]')::text END
    FROM done HAVING :page::text IS NOT NULL
)
SELECT json_build_array(
           CASE WHEN count(*) <> :expected THEN
               (SELECT coalesce(json_agg(json_build_array(id, version)), '[]') FROM done) END,
           CASE WHEN count(edge_seq) > 0 THEN (SELECT json_agg(edge_seq) FROM done WHERE edge_seq > 0) END,
           coalesce(bool_or(frees), false))::text,
       (SELECT count(*) FROM notified)
FROM done;

-- name: settle (each o: Outcome)
WITH o AS MATERIALIZED (
    SELECT job, o.value
    FROM jsonb_array_elements(:o::jsonb) WITH ORDINALITY AS o(value, key)
    JOIN headrace_jobs AS job ON job.{has_id o.id} AND job.version = o.version
    WHERE (job.has_dependencies = 0 OR :with_dependencies > 0) AND jsonb_typeof(o.value) = 'array'
    ORDER BY o.key
    FOR UPDATE OF job
), entry AS (
    INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, detail,
                                  error_type, error_message, error_traceback)
    SELECT (o.job).seq, o.at, o.event, (o.job).state, o.state, (o.job).version + 1, (o.job).attempt, (o.job).worker,
           (o.job).started_at, o.reason, o.error_type, o.error_message, o.error_traceback
    FROM o WHERE NOT o.quiet
    RETURNING job
), new_dead_letters AS (
    INSERT INTO headrace_dead_letters (id, job_id, task, queue, reason, entered_at, snapshot, fingerprint, requeues)
    SELECT lpad(to_hex(o.at), 12, '0') || lpad(to_hex((o.job).version & 65535), 4, '0')
               || substr(replace(gen_random_uuid()::text, '-', ''), 1, 16),
           (o.job).id, (o.job).task, (o.job).queue, coalesce(o.reason, 'failed'), o.at,
           json_build_object('state', (o.job).state, 'payload', (o.job).payload, 'checksum', (o.job).checksum,
                             'options', (o.job).options, 'tags', (o.job).tags, 'metadata', (o.job).metadata,
                             'priority', (o.job).priority, 'attempt', (o.job).attempt,
                             'max_attempts', coalesce(o.max_attempts, (o.job).max_attempts),
                             'created_at', (o.job).created_at, 'started_at', (o.job).started_at,
                             'worker', (o.job).worker, 'error_type', o.error_type,
                             'error_message', o.error_message, 'error_traceback', o.error_traceback,
                             'lifo', ((o.job).rank < 0)::integer, 'lane', (o.job).lane,
                             'unique_key', (o.job).unique_key,
                             'flow', (o.job).flow, 'parents', (
                                 SELECT coalesce(json_agg(parent.id), '[]') FROM headrace_dependencies AS edge
                                 CROSS JOIN LATERAL (
                                     SELECT id FROM headrace_jobs WHERE seq = edge.parent OFFSET 0) AS parent
                                 WHERE edge.child = (o.job).seq),
                             'history', (
                                 SELECT coalesce(json_agg(json_build_array({HistoryRow}) ORDER BY seq DESC), '[]') FROM (
                                     SELECT *, row_number() OVER (ORDER BY entry.seq + 0 DESC) AS place,
                                            min(entry.seq) FILTER (WHERE entry.error_type IS NOT NULL) OVER () AS first_failure
                                     FROM headrace_history AS entry
                                     WHERE entry.job = (o.job).seq AND entry.version <= (o.job).version) AS kept
                                 WHERE place <= 10 OR seq = first_failure),
                             'version', (o.job).version, 'progress', (o.job).progress, 'steps', (
                                 SELECT coalesce(json_agg(name ORDER BY seq), '[]') FROM (
                                     SELECT name, seq FROM headrace_steps AS step
                                     WHERE step.job = (o.job).seq AND step.kind = 'step'
                                     ORDER BY step.seq + 0 LIMIT 100) AS remembered),
                             'logs', (
                                 SELECT coalesce(json_agg(json_build_array({LogLine})), '[]') FROM (
                                     SELECT * FROM headrace_logs AS line
                                     WHERE line.job = (o.job).seq AND line.level <> 'stream'
                                     ORDER BY line.seq + 0 DESC LIMIT 10) AS newest))::text,
           coalesce(o.fingerprint, ''),
           coalesce((SELECT before.requeues FROM headrace_dead_letters AS before WHERE before.job_id = (o.job).id
                     ORDER BY before.id DESC LIMIT 1), 0)
    -- After the event of the history row.
    FROM o WHERE o.event = 'fail' AND o.opens_dead_letter AND (SELECT count(*) FROM entry) >= 0
    ON CONFLICT (job_id) WHERE status = 'pending' DO UPDATE
    SET id = excluded.id, task = excluded.task, queue = excluded.queue, reason = excluded.reason,
        entered_at = excluded.entered_at, snapshot = excluded.snapshot, fingerprint = excluded.fingerprint
), done AS (
    UPDATE headrace_jobs AS job SET
        state = o.state,
        {next_version o.at},
        attempt = job.attempt - o.attempt_refund,
        releases = job.releases + o.attempt_refund,
        crashes = CASE WHEN o.event IN ('retry', 'snooze') THEN 0 ELSE job.crashes END,
        run_at = coalesce(o.run_at, job.run_at),
        rank = CASE WHEN o.run_at IS NULL THEN job.rank WHEN job.rank < 0 THEN -o.run_at ELSE o.run_at END,
        max_attempts = coalesce(o.max_attempts, job.max_attempts),
        result = o.result,
        result_checksum = o.result_checksum,
        reason = CASE WHEN o.state = 'waiting' THEN NULL ELSE o.reason END,
        finished_at = o.finished_at,
        expires_at = CASE WHEN o.state = 'waiting' THEN NULL ELSE job.expires_at END,
        worker = CASE WHEN o.finished_at IS NULL THEN NULL ELSE job.worker END,
        lease_until = NULL
    FROM o WHERE job.seq = ANY (ARRAY[(o.job).seq])
    RETURNING job.id, (o.job).version
)
SELECT coalesce(json_agg(json_build_array(id, version)), '[]')::text FROM done;

-- name: record_stale (each o: Outcome)
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, detail,
                              error_type, error_message, error_traceback)
SELECT job.seq, :now, 'lease_lost', job.state, job.state, o.version, job.attempt, :worker,
       'late ' || o.event || ' refused: it held version ' || o.version || ', the job is at ' || job.version,
       o.error_type, o.error_message, o.error_traceback
FROM jsonb_array_elements(:o::jsonb) WITH ORDINALITY AS o(value, key)
JOIN headrace_jobs AS job ON job.{has_id o.id}
WHERE jsonb_typeof(o.value) = 'array'
ORDER BY o.key
RETURNING pg_notify(:channel, 'events');

-- name: note_progress (each n: JobNote)
UPDATE headrace_jobs AS job SET progress = n.progress
FROM jsonb_array_elements(:n::jsonb) AS n(value)
WHERE job.{has_id n.id} AND job.version = n.version AND jsonb_typeof(n.value) = 'array';

-- name: note_logs (each n: JobNote)
INSERT INTO headrace_logs (job, at, attempt, level, message, fields)
SELECT job.seq, n.at, job.attempt, n.level, n.message, n.fields
FROM jsonb_array_elements(:n::jsonb) WITH ORDINALITY AS n(value, key)
JOIN headrace_jobs AS job ON job.{has_id n.id} AND job.version = n.version
WHERE jsonb_typeof(n.value) = 'array'
ORDER BY n.key;
