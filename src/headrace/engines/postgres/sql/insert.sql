-- The ids are inserted first: they give the numbers, and decide which jobs are new. Of jobs with one id in a batch the
-- first is stored. The numbers rise in the order of the batch. If some jobs are not new, their numbers are looked up in
-- one value: a join would compare each job with each.
-- name: insert (each j: NewJob)
WITH batch AS MATERIALIZED (
    SELECT value, key FROM jsonb_array_elements(:j::jsonb) WITH ORDINALITY AS given(value, key)
), named AS (
    INSERT INTO headrace_ids (id)
    SELECT j.id FROM batch AS j
    WHERE NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'inserts')
    ORDER BY j.key
    ON CONFLICT (id) DO NOTHING
    RETURNING id, seq
), numbers AS MATERIALIZED (
    SELECT array_agg(seq ORDER BY seq) AS seqs, count(*) = :expected AS all_new FROM named
), fresh AS (
    INSERT INTO headrace_jobs (seq, {NewJob})
    SELECT CASE WHEN numbers.all_new THEN numbers.seqs[j.key]
                ELSE ((SELECT jsonb_object_agg(id, seq) FROM named) ->> j.id)::bigint END, {j.NewJob}
    FROM numbers CROSS JOIN batch AS j
    WHERE numbers.all_new
       OR ((SELECT jsonb_object_agg(id, seq) FROM named) ->> j.id IS NOT NULL
           AND j.key = (SELECT min(twin.key) FROM batch AS twin WHERE twin.value -> 0 = j.value -> 0))
    RETURNING seq, id, queue, tags
), tagged AS (
    INSERT INTO headrace_tags (tag, job)
    SELECT DISTINCT tag, seq FROM fresh, jsonb_array_elements_text(fresh.tags::jsonb) AS tag
), rung AS (
    SELECT pg_notify(:channel, CASE WHEN length(queue) < 1000 THEN 'work:' || queue ELSE 'work' END)
    FROM (SELECT DISTINCT queue FROM fresh) AS queues
), recorded AS (
    INSERT INTO headrace_events (at, size, page, only_jobs)
    SELECT :at, :size, :page::text, CASE WHEN count(*) < :expected THEN json_agg(id)::text END
    FROM fresh HAVING count(*) > 0 AND :page::text IS NOT NULL
)
SELECT CASE WHEN count(*) <> :expected THEN (SELECT coalesce(json_agg(id), '[]')::text FROM fresh) END,
       (SELECT count(*) FROM rung)
FROM fresh;

-- A single job without tags, the usual case. The server is idle then and feels every step: this statement has half as
-- many. Numbers are text, otherwise each integer size would have a prepared statement of its own.
-- name: insert_one
WITH named AS (
    INSERT INTO headrace_ids (id)
    SELECT :id WHERE NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'inserts')
    ON CONFLICT (id) DO NOTHING
    RETURNING seq
), fresh AS (
    INSERT INTO headrace_jobs (seq, id, task, queue, state, priority, rank, payload, checksum, created_at, run_at,
                               max_attempts, expires_at, options, metadata, version, unique_key, lane, flow, has_dependencies)
    SELECT seq, :id, :task, :queue, :state, :priority::integer, :rank::bigint, :payload, :checksum::bigint,
           :created_at::bigint, :run_at::bigint, :max_attempts::bigint, :expires_at::bigint, :options, :metadata,
           :version::bigint, :unique_key, :lane, :flow, :has_dependencies::smallint
    FROM named
    RETURNING queue
), recorded AS (
    INSERT INTO headrace_events (at, size, page)
    SELECT :created_at::bigint, 1, :page::text FROM fresh WHERE :page::text IS NOT NULL
)
SELECT pg_notify(:channel, CASE WHEN length(queue) < 1000 THEN 'work:' || queue ELSE 'work' END) FROM fresh;

-- name: stored_as_given (each j: NewJob)
SELECT coalesce(json_agg(job.id), '[]')::text
FROM jsonb_array_elements(:j::jsonb) AS j(value)
JOIN headrace_jobs AS job ON job.{has_id j.id} AND job.created_at = j.created_at AND job.checksum = j.checksum
                         AND job.task = j.task
WHERE jsonb_typeof(j.value) = 'array';

-- name: existing_ids
SELECT coalesce(json_agg(id), '[]')::text
FROM (SELECT DISTINCT jsonb_array_elements_text(:ids::jsonb) AS name) AS given
CROSS JOIN LATERAL (SELECT id FROM headrace_ids WHERE id = given.name OFFSET 0) AS taken;
