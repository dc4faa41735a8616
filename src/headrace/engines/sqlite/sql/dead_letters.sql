-- Dead letters: writes, and the queries of operators.

-- name: tasks_of
SELECT json_group_array(json_array(seq, task)) FROM headrace_jobs WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: crashes_of
SELECT json_group_array(json_array(job, at, worker)) FROM (
    SELECT job, at, worker FROM headrace_history
    WHERE job IN (SELECT value FROM json_each(:seqs)) AND event = 'lease_expired' ORDER BY seq);

-- name: add_dead_letters (each b: DeadLetterInsert)
INSERT INTO headrace_dead_letters (id, job_id, task, queue, reason, entered_at, snapshot, fingerprint, requeues)
SELECT printf('%012x', :now) || lower(hex(randomblob(10))), headrace_jobs.id, task, queue, b.reason, :now,
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
                           SELECT * FROM headrace_logs AS line WHERE line.job = headrace_jobs.seq
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

-- name: requeue_dead_letters
UPDATE headrace_dead_letters SET status = 'requeued', resolved_at = :now, resolved_by = :by
WHERE status = 'pending' AND job_id IN (SELECT id FROM headrace_jobs
                                        WHERE seq IN (SELECT value FROM json_each(:seqs)));

-- name: dead_letters
SELECT json_group_array(json_array({DeadLetterRow})) FROM headrace_dead_letters WHERE id IN (SELECT value FROM json_each(:ids));

-- name: dead_letters_of
SELECT json_group_array(json_array({DeadLetterRow})) FROM headrace_dead_letters
WHERE id IN (SELECT max(id) FROM headrace_dead_letters
             WHERE job_id IN (SELECT value FROM json_each(:ids)) GROUP BY job_id);

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
SELECT json_group_array(json_array({DeadLetterRow})) FROM (
    SELECT * FROM headrace_dead_letters
    WHERE id IN (SELECT dead_letter.id FROM headrace_dead_letters AS dead_letter WHERE {where} ORDER BY dead_letter.id DESC LIMIT :limit)
    ORDER BY id DESC);

-- name: oldest_dead_letters
SELECT json_group_array(id) FROM (SELECT id FROM headrace_dead_letters WHERE status = :status ORDER BY id LIMIT :limit);

-- name: count_dead_letters
SELECT count(*) FROM headrace_dead_letters AS dead_letter WHERE {where};

-- name: dead_letter_groups
SELECT json_group_array(json_array(fingerprint, task, reason, snapshot, dead_letters, first_seen, last_seen))
FROM (SELECT found.fingerprint, newest.task, newest.reason, newest.snapshot, found.dead_letters,
             oldest.entered_at AS first_seen, newest.entered_at AS last_seen
      FROM (SELECT dead_letter.fingerprint, count(*) AS dead_letters, min(dead_letter.id) AS first, max(dead_letter.id) AS last
            FROM headrace_dead_letters AS dead_letter WHERE {where}
            GROUP BY dead_letter.fingerprint ORDER BY dead_letters DESC, last DESC LIMIT :limit) AS found
      JOIN headrace_dead_letters AS oldest ON oldest.id = found.first
      JOIN headrace_dead_letters AS newest ON newest.id = found.last
      ORDER BY found.dead_letters DESC, found.last DESC);

-- name: dead_letter_stats
SELECT json_group_array(json_array(found.reason, found.status, found.dead_letters, found.requeues, oldest.entered_at,
                                   newest.entered_at))
FROM (SELECT status, reason, count(*) AS dead_letters, sum(requeues) AS requeues, min(id) AS first, max(id) AS last
      FROM headrace_dead_letters GROUP BY status, reason) AS found
JOIN headrace_dead_letters AS oldest ON oldest.id = found.first
JOIN headrace_dead_letters AS newest ON newest.id = found.last;

-- name: lock_jobs
SELECT json_group_array(json_array(id, seq, state)) FROM headrace_jobs
WHERE id IN (SELECT value FROM json_each(:ids));

-- name: resolve_dead_letters (each c: DeadLetterResolution)
UPDATE headrace_dead_letters SET status = c.status, resolved_at = c.resolved_at, resolved_by = c.resolved_by,
                         requeues = c.requeues, notes = c.notes
FROM json_each(:c) AS c WHERE headrace_dead_letters.id = c.id;

-- name: raise_revived (each r: RequeueChange)
UPDATE headrace_jobs SET
    priority = max(-100, min(100, headrace_jobs.priority + r.boost)),
    run_at = r.run_at,
    rank = CASE WHEN rank < 0 THEN -r.run_at ELSE r.run_at END,
    payload = coalesce(r.payload, headrace_jobs.payload),
    checksum = CASE WHEN r.payload IS NULL THEN headrace_jobs.checksum ELSE r.checksum END,
    tags = CASE WHEN r.tags IS NULL THEN headrace_jobs.tags ELSE nullif(r.tags, '[]') END
FROM json_each(:r) AS r WHERE headrace_jobs.seq = r.seq;

-- name: tag_revived (each r: RequeueChange)
INSERT OR IGNORE INTO headrace_tags (tag, job)
SELECT tag.value, r.seq FROM json_each(:r) AS r JOIN json_each(r.tags) AS tag;

-- name: purge_dead_letters
DELETE FROM headrace_dead_letters WHERE id IN (
    SELECT dead_letter.id FROM headrace_dead_letters AS dead_letter
    WHERE {where} AND coalesce(dead_letter.resolved_at, dead_letter.entered_at) < :before LIMIT :limit);

-- name: remove_dead_letters
DELETE FROM headrace_dead_letters WHERE id IN (SELECT value FROM json_each(:ids));

-- name: export_dead_letters
SELECT json_group_array(json_array({DeadLetterRow})) FROM (
    SELECT * FROM headrace_dead_letters WHERE id > :after ORDER BY id LIMIT :limit);

-- name: import_dead_letters (each r: DeadLetterRow)
INSERT OR IGNORE INTO headrace_dead_letters (id, job_id, task, queue, reason, entered_at, status, resolved_at, resolved_by,
                                     snapshot, fingerprint, requeues, notes)
SELECT r.id, r.job_id, r.task, r.queue, r.reason, r.entered_at, r.status, r.resolved_at,
       r.resolved_by, r.snapshot, r.fingerprint, r.requeues, r.notes
FROM json_each(:r) AS r;
