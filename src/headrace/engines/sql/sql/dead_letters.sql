-- Dead letters: writes, and the queries of operators.

-- name: tasks_of
SELECT {rows seq, task} FROM headrace_jobs WHERE seq {in_numbers :seqs};

-- name: crashes_of
SELECT {rows job, at, worker} FROM (
    SELECT entry.job, entry.at, entry.worker
    FROM {each seqs}
    {lookup headrace_history AS entry ON entry.job = CAST(seqs.value AS bigint) AND entry.event = 'lease_expired'}
    ORDER BY entry.seq) AS crash;

-- name: requeue_dead_letters
UPDATE headrace_dead_letters SET status = 'requeued', resolved_at = :now, resolved_by = :by
WHERE status = 'pending' AND job_id {in SELECT id FROM headrace_jobs WHERE seq {in_numbers :seqs}};

-- name: dead_letters
SELECT {rows {DeadLetterRow}} FROM headrace_dead_letters WHERE id {in_texts :ids};

-- name: lock_dead_letters
SELECT {rows {DeadLetterRow}} FROM (
    SELECT * FROM headrace_dead_letters WHERE id {in_texts :ids} ORDER BY id {lock FOR UPDATE}) AS locked;

-- name: dead_letters_of
SELECT {rows {DeadLetterRow}} FROM headrace_dead_letters
WHERE id IN (SELECT max(id) FROM headrace_dead_letters WHERE job_id {in_texts :ids} GROUP BY job_id);

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

-- name: where_dead_letter_named
dead_letter.id {in_texts :ids}

-- name: where_dead_letter_latest
dead_letter.id {in SELECT max(id) FROM headrace_dead_letters WHERE job_id {in_texts :job_ids} GROUP BY job_id}

-- name: where_dead_letter_ended
coalesce(dead_letter.resolved_at, dead_letter.entered_at) < :ended_before

-- name: where_dead_letter_after
dead_letter.id > :after

-- name: find_dead_letters
SELECT {rows {DeadLetterRow}} FROM (
    SELECT * FROM headrace_dead_letters
    WHERE id IN (SELECT dead_letter.id FROM headrace_dead_letters AS dead_letter WHERE {where} ORDER BY dead_letter.id DESC LIMIT :limit)
    ORDER BY id DESC) AS found;

-- name: find_oldest_dead_letters
SELECT {rows {DeadLetterRow}} FROM (
    SELECT * FROM headrace_dead_letters
    WHERE id IN (SELECT dead_letter.id FROM headrace_dead_letters AS dead_letter WHERE {where} ORDER BY dead_letter.id LIMIT :limit)
    ORDER BY id) AS found;

-- name: count_dead_letters
SELECT count(*) FROM headrace_dead_letters AS dead_letter WHERE {where};

-- name: dead_letter_groups
SELECT {rows fingerprint, task, reason, snapshot, dead_letters, first_seen, last_seen}
FROM (SELECT found.fingerprint, newest.task, newest.reason, newest.snapshot, found.dead_letters,
             oldest.entered_at AS first_seen, newest.entered_at AS last_seen
      FROM (SELECT dead_letter.fingerprint, count(*) AS dead_letters, min(dead_letter.id) AS first, max(dead_letter.id) AS last
            FROM headrace_dead_letters AS dead_letter WHERE {where}
            GROUP BY dead_letter.fingerprint ORDER BY dead_letters DESC, last DESC LIMIT :limit) AS found
      JOIN headrace_dead_letters AS oldest ON oldest.id = found.first
      JOIN headrace_dead_letters AS newest ON newest.id = found.last
      ORDER BY found.dead_letters DESC, found.last DESC) AS grouped;

-- name: dead_letter_stats
SELECT {rows found.reason, found.status, found.dead_letters, found.requeues, oldest.entered_at, newest.entered_at}
FROM (SELECT status, reason, count(*) AS dead_letters, sum(requeues) AS requeues, min(id) AS first, max(id) AS last
      FROM headrace_dead_letters GROUP BY status, reason) AS found
JOIN headrace_dead_letters AS oldest ON oldest.id = found.first
JOIN headrace_dead_letters AS newest ON newest.id = found.last;

-- name: resolve_dead_letters (each c: DeadLetterResolution)
UPDATE headrace_dead_letters SET status = c.status, resolved_at = c.resolved_at, resolved_by = c.resolved_by,
                         requeues = c.requeues, notes = c.notes
FROM {each c} WHERE headrace_dead_letters.id = c.id;

-- name: raise_revived (each r: RequeueChange)
UPDATE headrace_jobs AS job SET
    priority = CASE WHEN job.priority + r.boost > 100 THEN 100 WHEN job.priority + r.boost < -100 THEN -100
                    ELSE job.priority + r.boost END,
    run_at = r.run_at,
    rank = CASE WHEN job.rank < 0 THEN -r.run_at ELSE r.run_at END,
    payload = coalesce(r.payload, job.payload),
    checksum = CASE WHEN r.payload IS NULL THEN job.checksum ELSE r.checksum END,
    tags = CASE WHEN r.tags IS NULL THEN job.tags ELSE nullif(r.tags, '[]') END
FROM {each r} WHERE job.seq = r.seq;

-- Once, and not as a join, which might execute the query again for each row, and lock other rows each time.
-- name: delete_dead_letters
DELETE FROM headrace_dead_letters WHERE id {in
    SELECT dead_letter.id FROM headrace_dead_letters AS dead_letter WHERE {where} LIMIT :limit
    {lock FOR UPDATE SKIP LOCKED}};

-- name: delete_named_dead_letters
DELETE FROM headrace_dead_letters WHERE id {in
    SELECT dead_letter.id FROM headrace_dead_letters AS dead_letter WHERE {where} ORDER BY dead_letter.id LIMIT :limit
    {lock FOR UPDATE}};

-- name: import_dead_letters (each r: DeadLetterRow)
INSERT INTO headrace_dead_letters (id, job_id, task, queue, reason, entered_at, status, resolved_at, resolved_by,
                                   snapshot, fingerprint, requeues, notes)
SELECT r.id, r.job_id, r.task, r.queue, r.reason, r.entered_at, r.status, r.resolved_at, r.resolved_by, r.snapshot,
       r.fingerprint, r.requeues, r.notes
FROM {each r} WHERE true
ON CONFLICT DO NOTHING;
