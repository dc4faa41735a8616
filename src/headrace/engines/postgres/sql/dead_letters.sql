-- Dead letters: writes, and the queries of operators.

-- name: tasks_of
SELECT coalesce(json_agg(json_build_array(seq, task)), '[]')::text FROM headrace_jobs
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- name: crashes_of
SELECT coalesce(json_agg(json_build_array(h.job, h.at, h.worker) ORDER BY h.seq), '[]')::text
FROM jsonb_array_elements(:seqs::jsonb) AS s(value)
CROSS JOIN LATERAL (
    SELECT * FROM headrace_history WHERE job = s.value::bigint AND event = 'lease_expired' OFFSET 0) AS h;

-- name: add_dead_letters (each b: DeadLetterInsert)
INSERT INTO headrace_dead_letters (id, job_id, task, queue, reason, entered_at, snapshot, fingerprint, requeues)
SELECT lpad(to_hex(:now::bigint), 12, '0') || substr(replace(gen_random_uuid()::text, '-', ''), 1, 20),
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
                                     SELECT * FROM headrace_logs AS line WHERE line.job = job.seq
                                     ORDER BY line.seq + 0 DESC LIMIT 10) AS newest))::text,
       b.fingerprint,
       coalesce((SELECT before.requeues FROM headrace_dead_letters AS before WHERE before.job_id = job.id
                     ORDER BY before.id DESC LIMIT 1), 0)
FROM jsonb_array_elements(:b::jsonb) AS b(value)
CROSS JOIN LATERAL (SELECT * FROM headrace_jobs WHERE seq = b.seq OFFSET 0) AS job
ON CONFLICT (job_id) WHERE status = 'pending' DO UPDATE
SET id = excluded.id, task = excluded.task, queue = excluded.queue, reason = excluded.reason,
    entered_at = excluded.entered_at, snapshot = excluded.snapshot, fingerprint = excluded.fingerprint;

-- name: requeue_dead_letters
UPDATE headrace_dead_letters SET status = 'requeued', resolved_at = :now, resolved_by = :by
WHERE status = 'pending'
  AND job_id = ANY (ARRAY(SELECT id FROM headrace_jobs
                          WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))));

-- name: dead_letters
SELECT coalesce(json_agg(json_build_array({DeadLetterRow})), '[]')::text FROM headrace_dead_letters
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)));

-- name: lock_dead_letters
SELECT coalesce(json_agg(json_build_array({DeadLetterRow})), '[]')::text FROM (
    SELECT * FROM headrace_dead_letters WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
    ORDER BY id FOR UPDATE) AS locked;

-- name: dead_letters_of
SELECT coalesce(json_agg(json_build_array({DeadLetterRow})), '[]')::text FROM headrace_dead_letters
WHERE id IN (SELECT max(id) FROM headrace_dead_letters
             WHERE job_id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb))) GROUP BY job_id);

-- The `where_dead_letter_` fragments are the parts of `{where}`. A record with its snapshot is wide: only requested
-- records are read, all other answers come from the indexes.

-- name: where_dead_letter_reason
dead_letter.reason = :reason

-- name: where_dead_letter_task
dead_letter.task = :task

-- name: where_dead_letter_queue
dead_letter.queue = :queue

-- name: where_dead_letter_fingerprint
dead_letter.fingerprint = :fingerprint

-- name: where_dead_letter_requeues
dead_letter.requeues = :requeues

-- name: where_dead_letter_ids
dead_letter.id >= :first AND dead_letter.id < :last

-- name: find_dead_letters
SELECT coalesce(json_agg(json_build_array({DeadLetterRow})), '[]')::text FROM (
    SELECT * FROM headrace_dead_letters
    WHERE id IN (SELECT dead_letter.id FROM headrace_dead_letters AS dead_letter WHERE {where} ORDER BY dead_letter.id DESC LIMIT :limit)
    ORDER BY id DESC) AS found;

-- name: oldest_dead_letters
SELECT coalesce(json_agg(id ORDER BY id), '[]')::text
FROM (SELECT id FROM headrace_dead_letters WHERE status = :status ORDER BY id LIMIT :limit) AS oldest;

-- name: count_dead_letters
SELECT count(*) FROM headrace_dead_letters AS dead_letter WHERE {where};

-- name: dead_letter_groups
SELECT coalesce(json_agg(json_build_array(fingerprint, task, reason, snapshot, dead_letters, first_seen, last_seen)), '[]')::text
FROM (SELECT found.fingerprint, newest.task, newest.reason, newest.snapshot, found.dead_letters,
             oldest.entered_at AS first_seen, newest.entered_at AS last_seen
      FROM (SELECT dead_letter.fingerprint, count(*) AS dead_letters, min(dead_letter.id) AS first, max(dead_letter.id) AS last
            FROM headrace_dead_letters AS dead_letter WHERE {where}
            GROUP BY dead_letter.fingerprint ORDER BY dead_letters DESC, last DESC LIMIT :limit) AS found
      JOIN headrace_dead_letters AS oldest ON oldest.id = found.first
      JOIN headrace_dead_letters AS newest ON newest.id = found.last
      ORDER BY found.dead_letters DESC, found.last DESC) AS grouped;

-- name: dead_letter_stats
SELECT coalesce(json_agg(json_build_array(found.reason, found.status, found.dead_letters, found.requeues, oldest.entered_at,
                                          newest.entered_at)), '[]')::text
FROM (SELECT status, reason, count(*) AS dead_letters, sum(requeues) AS requeues, min(id) AS first, max(id) AS last
      FROM headrace_dead_letters GROUP BY status, reason) AS found
JOIN headrace_dead_letters AS oldest ON oldest.id = found.first
JOIN headrace_dead_letters AS newest ON newest.id = found.last;

-- name: lock_jobs
SELECT coalesce(json_agg(json_build_array(id, seq, state)), '[]')::text FROM (
    SELECT id, seq, state FROM headrace_jobs
    WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
    ORDER BY seq FOR UPDATE) AS locked;

-- name: resolve_dead_letters (each c: DeadLetterResolution)
UPDATE headrace_dead_letters SET status = c.status, resolved_at = c.resolved_at, resolved_by = c.resolved_by,
                         requeues = c.requeues, notes = c.notes
FROM jsonb_array_elements(:c::jsonb) AS c(value) WHERE headrace_dead_letters.id = c.id;

-- name: raise_revived (each r: RequeueChange)
UPDATE headrace_jobs SET
    priority = greatest(-100, least(100, headrace_jobs.priority + r.boost)),
    run_at = r.run_at,
    rank = CASE WHEN headrace_jobs.rank < 0 THEN -r.run_at ELSE r.run_at END,
    payload = coalesce(r.payload, headrace_jobs.payload),
    checksum = CASE WHEN r.payload IS NULL THEN headrace_jobs.checksum ELSE r.checksum END,
    tags = CASE WHEN r.tags IS NULL THEN headrace_jobs.tags ELSE nullif(r.tags, '[]') END
FROM jsonb_array_elements(:r::jsonb) AS r(value) WHERE headrace_jobs.seq = r.seq;

-- name: tag_revived (each r: RequeueChange)
INSERT INTO headrace_tags (tag, job)
SELECT DISTINCT tag, r.seq FROM jsonb_array_elements(:r::jsonb) AS r(value), jsonb_array_elements_text((r.tags)::jsonb) AS tag
ON CONFLICT DO NOTHING;

-- As an array: a join might execute a subquery again for each row, and it would lock other rows each time.
-- name: purge_dead_letters
DELETE FROM headrace_dead_letters WHERE id = ANY (ARRAY(
    SELECT dead_letter.id FROM headrace_dead_letters AS dead_letter
    WHERE {where} AND coalesce(dead_letter.resolved_at, dead_letter.entered_at) < :before LIMIT :limit
    FOR UPDATE SKIP LOCKED));

-- name: remove_dead_letters
DELETE FROM headrace_dead_letters WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)));

-- name: export_dead_letters
SELECT coalesce(json_agg(json_build_array({DeadLetterRow})), '[]')::text FROM (
    SELECT * FROM headrace_dead_letters WHERE id > :after ORDER BY id LIMIT :limit) AS exported;

-- name: import_dead_letters (each r: DeadLetterRow)
INSERT INTO headrace_dead_letters (id, job_id, task, queue, reason, entered_at, status, resolved_at, resolved_by, snapshot,
                           fingerprint, requeues, notes)
SELECT r.id, r.job_id, r.task, r.queue, r.reason, r.entered_at, r.status, r.resolved_at, r.resolved_by, r.snapshot,
       r.fingerprint, r.requeues, r.notes
FROM jsonb_array_elements(:r::jsonb) AS r(value)
ON CONFLICT DO NOTHING;
