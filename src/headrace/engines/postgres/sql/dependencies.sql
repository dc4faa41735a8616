-- name: outcomes_with_dependents (each o: SettleKey)
SELECT coalesce(json_agg(json_build_array(locked.key - 1, locked.seq)), '[]')::text
FROM (
    SELECT o.key, job.seq
    FROM jsonb_array_elements(:o::jsonb) WITH ORDINALITY AS o(value, key)
    JOIN headrace_jobs AS job ON job.{has_id o.id} AND job.version = o.version
    WHERE (job.has_dependencies <> 0 OR o.spawned) AND jsonb_typeof(o.value) = 'array'
    ORDER BY job.seq
    FOR UPDATE OF job) AS locked;

-- A transaction that locks connected jobs in an order of its own needs this lock exclusively; those that settle, all in
-- the order of the dependencies, share it. It comes first in a transaction: one that already holds a row could
-- deadlock.
-- name: lock_dependencies
SELECT count(pg_advisory_xact_lock('headrace_dependencies'::regclass::oid::bigint));

-- name: share_dependencies
SELECT count(pg_advisory_xact_lock_shared('headrace_dependencies'::regclass::oid::bigint));

-- In one order for all transactions: the second one then sees, in its later statements, the changes of the first.
-- name: lock_children
SELECT coalesce(json_agg(seq), '[]')::text FROM (
    SELECT job.seq FROM headrace_jobs AS job
    WHERE job.seq = ANY (ARRAY(SELECT DISTINCT child FROM headrace_dependencies
                               WHERE parent = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))))
    ORDER BY job.seq FOR UPDATE) AS children;

-- Reads.

-- name: flows
SELECT coalesce(json_agg(json_build_array(json_build_array(id, name, created_at), jobs)), '[]')::text FROM (
    SELECT id, name, created_at,
           (SELECT coalesce(json_object_agg(state, jobs), '{}')
            FROM (SELECT state, count(*) AS jobs FROM headrace_jobs AS job WHERE job.flow = flow.id
                  GROUP BY state) AS tally) AS jobs
    FROM headrace_flows AS flow
    WHERE (:before::text IS NULL OR id < :before)
      AND (:ids::jsonb = '[]' OR id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb))))
    ORDER BY id DESC LIMIT :limit) AS found;
