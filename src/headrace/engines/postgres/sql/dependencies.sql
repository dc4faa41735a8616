-- Dependencies. All statements here are for jobs that have any; other jobs never come here. Each statement returns one
-- value, so that a caller's library can run it as well. `coalesce` of a state keeps the planner from expecting few
-- waiting jobs, and from starting with those.

-- name: add_flow
WITH added AS (
    INSERT INTO headrace_flows (id, name, created_at) VALUES (:id, :name, :created_at) ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT count(*) FROM added;

-- name: lock_named
SELECT coalesce(json_agg(json_build_array(id, seq, state)), '[]')::text FROM (
    SELECT id, seq, state FROM headrace_jobs WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
    ORDER BY seq FOR UPDATE) AS named;

-- name: edges_below
WITH RECURSIVE below (seq) AS (
    SELECT seq FROM headrace_jobs WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
    UNION
    SELECT edge.child FROM below CROSS JOIN LATERAL (
        SELECT child FROM headrace_dependencies WHERE parent = below.seq OFFSET 0) AS edge
)
SELECT coalesce(json_agg(json_build_array(parent.id, child.id)), '[]')::text
FROM below
CROSS JOIN LATERAL (SELECT * FROM headrace_dependencies WHERE parent = below.seq OFFSET 0) AS edge
CROSS JOIN LATERAL (SELECT id FROM headrace_jobs WHERE seq = edge.parent OFFSET 0) AS parent
CROSS JOIN LATERAL (SELECT id FROM headrace_jobs WHERE seq = edge.child OFFSET 0) AS child;

-- name: add_edges (each b: Dependency)
WITH tied AS (
    INSERT INTO headrace_dependencies (child, parent, policy, blocks)
    SELECT child.seq, parent.seq, b.policy, b.blocks
    FROM jsonb_array_elements(:b::jsonb) AS b(value)
    CROSS JOIN LATERAL (SELECT seq FROM headrace_jobs WHERE id = b.child OFFSET 0) AS child
    CROSS JOIN LATERAL (SELECT seq FROM headrace_jobs WHERE id = b.parent OFFSET 0) AS parent
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT count(*) FROM tied;

-- name: mark_dependents
WITH marked AS (
    UPDATE headrace_jobs SET has_dependencies = 1
    WHERE has_dependencies = 0 AND id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
    RETURNING 1
)
SELECT count(*) FROM marked;

-- name: back_to_waiting
WITH held AS (
    UPDATE headrace_jobs SET state = 'waiting', version = version + 1,
                             run_at = CASE WHEN starts_with(reason, 'waits for event ') THEN :now::bigint ELSE run_at END,
                             reason = CASE WHEN starts_with(reason, 'waits for event ') THEN NULL ELSE reason END
    WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
    RETURNING 1
)
SELECT count(*) FROM held;

-- name: with_dependents
SELECT coalesce(json_agg(seq), '[]')::text FROM headrace_jobs
WHERE has_dependencies <> 0 AND seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- name: outcomes_with_dependents (each o: SettleKey)
SELECT coalesce(json_agg(json_build_array(locked.key - 1, locked.seq)), '[]')::text
FROM (
    SELECT o.key, job.seq
    FROM jsonb_array_elements(:o::jsonb) WITH ORDINALITY AS o(value, key)
    JOIN headrace_jobs AS job ON job.id = ANY (ARRAY[o.id]) AND job.version = o.version
    WHERE (job.has_dependencies <> 0 OR o.spawned) AND jsonb_typeof(o.value) = 'array'
    ORDER BY job.seq
    FOR UPDATE OF job) AS locked;

-- name: blocking
SELECT coalesce(json_agg(json_build_array(child, jobs)), '[]')::text FROM (
    SELECT child, count(*) AS jobs FROM headrace_dependencies
    WHERE blocks AND child = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint)) GROUP BY child) AS those;

-- A transaction that locks connected jobs in an order of its own needs this lock exclusively; those that settle, all in
-- the order of the dependencies, share it. It comes first in a transaction: one that already holds a row could
-- deadlock.
-- name: lock_dependencies
SELECT count(pg_advisory_xact_lock('headrace_dependencies'::regclass::oid::bigint));

-- name: share_dependencies
SELECT count(pg_advisory_xact_lock_shared('headrace_dependencies'::regclass::oid::bigint));

-- The effects of finished jobs on their dependents. Children are locked first, in one order for all transactions: the
-- second one then sees, in its later statements, the changes of the first.

-- name: lock_children
SELECT coalesce(json_agg(seq), '[]')::text FROM (
    SELECT job.seq FROM headrace_jobs AS job
    WHERE job.seq = ANY (ARRAY(SELECT DISTINCT child FROM headrace_dependencies
                               WHERE parent = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))))
    ORDER BY job.seq FOR UPDATE) AS children;

-- name: delete_edges
WITH unbound AS (
    UPDATE headrace_dependencies SET blocks = false
    WHERE blocks AND parent = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
      AND (:completed OR policy = 'run')
    RETURNING 1
)
SELECT count(*) FROM unbound;

-- name: children_to_cancel
SELECT coalesce(json_agg(json_build_array(child, id, task, state, reason)), '[]')::text FROM (
    SELECT DISTINCT ON (edge.child) edge.child, parent.id, parent.task, parent.state, parent.reason
    FROM headrace_dependencies AS edge
    CROSS JOIN LATERAL (SELECT * FROM headrace_jobs WHERE seq = edge.parent OFFSET 0) AS parent
    CROSS JOIN LATERAL (SELECT state FROM headrace_jobs WHERE seq = edge.child OFFSET 0) AS child
    WHERE edge.parent = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
      AND edge.blocks AND edge.policy = 'cancel'
      AND parent.state IN ('failed', 'cancelled') AND child.state = 'waiting'
    ORDER BY edge.child, edge.parent) AS doomed;

-- name: cancel
WITH cancelled AS (
    UPDATE headrace_jobs SET state = 'cancelled', version = version + 1, finished_at = :now, lease_until = NULL,
                             reason = :reason
    WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
    RETURNING 1
)
SELECT count(*) FROM cancelled;

-- name: hold_children
WITH held AS (
    UPDATE headrace_jobs SET reason = 'held'
    WHERE coalesce(state, '') = 'waiting'
      AND seq = ANY (ARRAY(
          SELECT edge.child FROM headrace_dependencies AS edge
          CROSS JOIN LATERAL (SELECT state FROM headrace_jobs WHERE seq = edge.parent OFFSET 0) AS parent
          WHERE edge.parent = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
            AND edge.blocks AND edge.policy = 'hold' AND parent.state IN ('failed', 'cancelled')))
    RETURNING 1
)
SELECT count(*) FROM held;

-- name: unblocked
SELECT coalesce(json_agg(json_build_array(seq, CASE WHEN finished_at IS NOT NULL THEN 'completed'
                                                    WHEN run_at > :now THEN 'scheduled'
                                                    ELSE 'pending' END)), '[]')::text
FROM headrace_jobs AS job
WHERE coalesce(state, '') = 'waiting' AND coalesce(reason, '') <> 'held'
  AND seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
  AND (SELECT 1 FROM headrace_dependencies AS edge WHERE edge.child = job.seq AND edge.blocks LIMIT 1) IS NULL;

-- name: unblock
WITH unblocked AS (
    UPDATE headrace_jobs SET state = :target, version = version + 1, reason = NULL,
                             finished_at = CASE WHEN finished_at IS NOT NULL THEN :now::bigint END
    WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
    RETURNING 1
)
SELECT count(*) FROM unblocked;

-- Jobs that run again, and their dependents.

-- name: waiting_again
SELECT coalesce(json_agg(seq), '[]')::text FROM headrace_jobs AS job
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
  AND (SELECT 1 FROM headrace_dependencies AS edge
       CROSS JOIN LATERAL (SELECT state FROM headrace_jobs WHERE seq = edge.parent OFFSET 0) AS parent
       WHERE edge.child = job.seq AND edge.blocks
         AND (parent.state NOT IN ('completed', 'failed', 'cancelled')
              OR edge.parent = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint)))
       LIMIT 1) = 1;

-- name: hold_again
WITH held AS (
    UPDATE headrace_jobs AS job SET reason = 'held'
    WHERE job.seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
      AND (SELECT 1 FROM headrace_dependencies AS edge
           CROSS JOIN LATERAL (SELECT state FROM headrace_jobs WHERE seq = edge.parent OFFSET 0) AS parent
           WHERE edge.child = job.seq AND edge.blocks AND edge.policy = 'hold'
             AND parent.state IN ('failed', 'cancelled') LIMIT 1) = 1
    RETURNING 1
)
SELECT count(*) FROM held;

-- name: ignore_edges
UPDATE headrace_dependencies SET blocks = false
WHERE blocks AND child = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
  AND (NOT :all OR (SELECT state FROM headrace_jobs AS job WHERE job.seq = headrace_dependencies.child) = 'waiting')
  AND (:all OR (parent <> ALL (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
                AND (SELECT state FROM headrace_jobs AS job WHERE job.seq = headrace_dependencies.parent)
                    IN ('completed', 'failed', 'cancelled')));

-- name: restore_blocks
WITH bound AS (
    UPDATE headrace_dependencies AS edge SET blocks = true
    WHERE edge.parent = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
      AND (SELECT child.state = 'waiting' OR (child.state = 'cancelled' AND child.reason = 'parent_failed')
           FROM headrace_jobs AS child WHERE child.seq = edge.child)
    RETURNING 1
)
SELECT count(*) FROM bound;

-- name: unhold_children
WITH freed AS (
    UPDATE headrace_jobs AS job SET reason = NULL
    WHERE coalesce(job.state, '') = 'waiting' AND job.reason = 'held'
      AND job.seq = ANY (ARRAY(SELECT child FROM headrace_dependencies
                               WHERE parent = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))))
      AND (SELECT 1 FROM headrace_dependencies AS edge
           CROSS JOIN LATERAL (SELECT state FROM headrace_jobs WHERE seq = edge.parent OFFSET 0) AS parent
           WHERE edge.child = job.seq AND edge.policy = 'hold' AND parent.state IN ('failed', 'cancelled')
           LIMIT 1) IS NULL
    RETURNING 1
)
SELECT count(*) FROM freed;

-- name: revivable
SELECT coalesce(json_agg(json_build_array(child, id)), '[]')::text FROM (
    SELECT DISTINCT ON (edge.child) edge.child, parent.id
    FROM headrace_dependencies AS edge
    CROSS JOIN LATERAL (SELECT id FROM headrace_jobs WHERE seq = edge.parent OFFSET 0) AS parent
    CROSS JOIN LATERAL (SELECT state, reason FROM headrace_jobs WHERE seq = edge.child OFFSET 0) AS child
    WHERE edge.parent = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
      AND child.state = 'cancelled' AND child.reason = 'parent_failed'
    ORDER BY edge.child, edge.parent OFFSET 0) AS revivable
WHERE (SELECT 1 FROM headrace_dependencies AS other
       CROSS JOIN LATERAL (SELECT state FROM headrace_jobs WHERE seq = other.parent OFFSET 0) AS lost
       WHERE other.child = revivable.child AND other.policy = 'cancel' AND lost.state IN ('failed', 'cancelled')
       LIMIT 1) IS NULL;

-- name: wait_again
WITH revived AS (
    UPDATE headrace_jobs SET state = 'waiting', version = version + 1, attempt = 0, crashes = 0, finished_at = NULL,
                             started_at = NULL, worker = NULL, result = NULL, result_checksum = NULL, progress = NULL,
                             reason = NULL, expires_at = NULL
    WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
    RETURNING 1
)
SELECT count(*) FROM revived;

-- name: lost_parents
SELECT coalesce(json_agg(DISTINCT edge.parent), '[]')::text
FROM headrace_dependencies AS edge
CROSS JOIN LATERAL (SELECT state FROM headrace_jobs WHERE seq = edge.parent OFFSET 0) AS parent
WHERE edge.child = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
  AND edge.blocks AND parent.state IN ('failed', 'cancelled');

-- name: open_among
SELECT coalesce(json_agg(seq), '[]')::text FROM headrace_jobs
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
  AND state NOT IN ('completed', 'failed', 'cancelled');

-- name: flows_of
SELECT coalesce(json_agg(DISTINCT flow), '[]')::text FROM headrace_jobs
WHERE flow IS NOT NULL AND seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- name: drop_flows
DELETE FROM headrace_flows
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
  AND (SELECT 1 FROM headrace_jobs AS job WHERE job.flow = headrace_flows.id LIMIT 1) IS NULL;

-- Reads.

-- name: edges
SELECT coalesce(json_agg(json_build_array(parent.id, child.id, edge.policy, edge.blocks)
                         ORDER BY edge.child, edge.parent), '[]')::text
FROM (
    SELECT of_child.* FROM headrace_jobs AS job
    CROSS JOIN LATERAL (SELECT * FROM headrace_dependencies WHERE child = job.seq OFFSET 0) AS of_child
    WHERE job.id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
    UNION
    SELECT of_parent.* FROM headrace_jobs AS job
    CROSS JOIN LATERAL (SELECT * FROM headrace_dependencies WHERE parent = job.seq OFFSET 0) AS of_parent
    WHERE job.id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))) AS edge
CROSS JOIN LATERAL (SELECT id FROM headrace_jobs WHERE seq = edge.parent OFFSET 0) AS parent
CROSS JOIN LATERAL (SELECT id FROM headrace_jobs WHERE seq = edge.child OFFSET 0) AS child;

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

-- name: import_flows (each f: FlowRow)
INSERT INTO headrace_flows (id, name, created_at)
SELECT f.id, f.name, f.created_at FROM jsonb_array_elements(:f::jsonb) AS f(value)
ON CONFLICT DO NOTHING;
