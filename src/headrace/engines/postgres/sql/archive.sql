-- The archive. archive.py creates and drops its partitions: their names and bounds cannot be parameters.

-- name: archive_add (each r: ArchiveRow)
INSERT INTO headrace_archive (id, task, queue, state, created_at, finished_at, duration, attempts, summary, tags, body,
                              bytes)
SELECT r.id, r.task, r.queue, r.state, r.created_at, r.finished_at, r.duration, r.attempts, r.summary, r.tags,
       decode(r.body, 'base64'), r.bytes
FROM jsonb_array_elements(:r::jsonb) AS r(value)
ON CONFLICT (id, created_at, finished_at) DO UPDATE
SET task = excluded.task, queue = excluded.queue, state = excluded.state, duration = excluded.duration,
    attempts = excluded.attempts, summary = excluded.summary, tags = excluded.tags, body = excluded.body,
    bytes = excluded.bytes;

-- name: archive_supersede
DELETE FROM headrace_archive AS kept USING jsonb_array_elements(:keys::jsonb) AS key(value)
WHERE kept.id = (key.value ->> 0) AND kept.created_at = (key.value ->> 1)::bigint
  AND kept.finished_at < (key.value ->> 2)::bigint;

-- name: archive_remove
DELETE FROM headrace_archive AS kept USING jsonb_array_elements(:keys::jsonb) AS key(value)
WHERE kept.id = (key.value ->> 0) AND kept.created_at = (key.value ->> 1)::bigint
  AND kept.finished_at = (key.value ->> 2)::bigint;

-- Tags are a JSON list of texts without blanks. They are matched as text: damaged JSON would abort the search.
-- name: where_archived_tag
(strpos(kept.tags, '[' || to_json(:tag::text)::text) = 1
 OR strpos(kept.tags, ',' || to_json(:tag::text)::text) > 0)

-- name: archive_durations
SELECT kept.task, count(*), avg(kept.duration)::float8,
       (percentile_disc(0.95) WITHIN GROUP (ORDER BY kept.duration))::bigint, max(kept.duration)
FROM headrace_archive AS kept WHERE kept.duration IS NOT NULL AND {where} GROUP BY kept.task ORDER BY kept.task;

-- name: archive_partitions
SELECT part.relname, pg_get_expr(part.relpartbound, part.oid), pg_total_relation_size(part.oid)
FROM pg_inherits AS link JOIN pg_class AS part ON part.oid = link.inhrelid
WHERE link.inhparent = 'headrace_archive'::regclass;

-- name: archive_sizes
SELECT tableoid::regclass::text, count(*) FROM headrace_archive GROUP BY tableoid;

-- name: archive_first_of_rest
SELECT min(finished_at) FROM headrace_archive_default WHERE finished_at >= :since::bigint;

-- name: archive_drop_rest
DELETE FROM headrace_archive_default WHERE (id, created_at, finished_at) IN (
    SELECT id, created_at, finished_at FROM headrace_archive_default WHERE finished_at < :before LIMIT :limit);
