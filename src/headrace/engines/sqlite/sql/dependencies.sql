-- Dependencies. All statements here are for jobs that have any; other jobs never come here.

-- name: add_flow
INSERT INTO headrace_flows (id, name, created_at) VALUES (:id, :name, :created_at) ON CONFLICT DO NOTHING;

-- name: lock_named
SELECT json_group_array(json_array(id, seq, state)) FROM headrace_jobs
WHERE id IN (SELECT value FROM json_each(:ids));

-- name: edges_below
WITH RECURSIVE below (seq) AS (
    SELECT seq FROM headrace_jobs WHERE id IN (SELECT value FROM json_each(:ids))
    UNION
    SELECT edge.child FROM below JOIN headrace_dependencies AS edge ON edge.parent = below.seq
)
SELECT json_group_array(json_array(parent.id, child.id))
FROM below
JOIN headrace_dependencies AS edge ON edge.parent = below.seq
JOIN headrace_jobs AS parent ON parent.seq = edge.parent
JOIN headrace_jobs AS child ON child.seq = edge.child;

-- name: add_edges (each b: Dependency)
INSERT INTO headrace_dependencies (child, parent, policy, blocks)
SELECT child.seq, parent.seq, b.policy, b.blocks
FROM json_each(:b) AS b
JOIN headrace_jobs AS child ON child.id = b.child
JOIN headrace_jobs AS parent ON parent.id = b.parent
WHERE true
ON CONFLICT DO NOTHING;

-- name: mark_dependents
UPDATE headrace_jobs SET has_dependencies = 1 WHERE has_dependencies = 0 AND id IN (SELECT value FROM json_each(:ids));

-- name: back_to_waiting
UPDATE headrace_jobs SET state = 'waiting', version = version + 1,
                         run_at = iif(reason LIKE 'waits for event %', :now, run_at),
                         reason = iif(reason LIKE 'waits for event %', NULL, reason)
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: with_dependents
SELECT json_group_array(seq) FROM headrace_jobs WHERE has_dependencies <> 0 AND seq IN (SELECT value FROM json_each(:seqs));

-- name: outcomes_with_dependents (each o: SettleKey)
SELECT json_group_array(json_array(o.key, job.seq))
FROM json_each(:o) AS o
JOIN headrace_jobs AS job ON job.id = o.id AND job.version = o.version
WHERE job.has_dependencies <> 0 OR o.spawned;

-- name: blocking
SELECT json_group_array(json_array(child, jobs)) FROM (
    SELECT child, count(*) AS jobs FROM headrace_dependencies
    WHERE blocks AND child IN (SELECT value FROM json_each(:seqs)) GROUP BY child);

-- The effects of finished jobs on their dependents.

-- name: delete_edges
UPDATE headrace_dependencies SET blocks = 0
WHERE blocks AND parent IN (SELECT value FROM json_each(:seqs)) AND (:completed OR policy = 'run');

-- name: children_to_cancel
SELECT json_group_array(json_array(seq, id, task, state, reason)) FROM (
    SELECT child.seq, parent.id, parent.task, parent.state, parent.reason, min(parent.seq)
    FROM headrace_dependencies AS edge
    JOIN headrace_jobs AS parent ON parent.seq = edge.parent
    JOIN headrace_jobs AS child ON child.seq = edge.child
    WHERE edge.parent IN (SELECT value FROM json_each(:seqs)) AND edge.blocks AND edge.policy = 'cancel'
      AND parent.state IN ('failed', 'cancelled') AND child.state = 'waiting'
    GROUP BY child.seq);

-- name: hold_children
UPDATE headrace_jobs SET reason = 'held'
WHERE state = 'waiting'
  AND seq IN (SELECT edge.child FROM headrace_dependencies AS edge
              JOIN headrace_jobs AS parent ON parent.seq = edge.parent
              WHERE edge.parent IN (SELECT value FROM json_each(:seqs)) AND edge.blocks AND edge.policy = 'hold'
                AND parent.state IN ('failed', 'cancelled'));

-- name: unblocked
SELECT json_group_array(json_array(seq, iif(finished_at IS NOT NULL, 'completed',
                                            iif(run_at > :now, 'scheduled', 'pending'))))
FROM headrace_jobs AS job
WHERE state = 'waiting' AND coalesce(reason, '') <> 'held'
  AND seq IN (SELECT value FROM json_each(:seqs))
  AND NOT EXISTS (SELECT 1 FROM headrace_dependencies AS edge WHERE edge.child = job.seq AND edge.blocks);

-- name: unblock
UPDATE headrace_jobs SET state = :target, version = version + 1, reason = NULL,
                         finished_at = iif(finished_at IS NOT NULL, :now, NULL)
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- Jobs that run again, and their dependents.

-- name: waiting_again
SELECT json_group_array(seq) FROM headrace_jobs AS job
WHERE seq IN (SELECT value FROM json_each(:seqs))
  AND EXISTS (SELECT 1 FROM headrace_dependencies AS edge JOIN headrace_jobs AS parent ON parent.seq = edge.parent
              WHERE edge.child = job.seq AND edge.blocks
                AND (parent.state NOT IN ('completed', 'failed', 'cancelled')
                     OR edge.parent IN (SELECT value FROM json_each(:seqs))));

-- name: wait_again
UPDATE headrace_jobs SET state = 'waiting', version = version + 1, attempt = 0, crashes = 0, finished_at = NULL,
                         started_at = NULL, worker = NULL, result = NULL, result_checksum = NULL, progress = NULL,
                         reason = NULL, expires_at = NULL
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: lost_parents
SELECT json_group_array(DISTINCT edge.parent)
FROM headrace_dependencies AS edge JOIN headrace_jobs AS parent ON parent.seq = edge.parent
WHERE edge.child IN (SELECT value FROM json_each(:seqs)) AND edge.blocks AND parent.state IN ('failed', 'cancelled');

-- name: hold_again
UPDATE headrace_jobs SET reason = 'held'
WHERE seq IN (SELECT value FROM json_each(:seqs))
  AND EXISTS (SELECT 1 FROM headrace_dependencies AS edge JOIN headrace_jobs AS parent ON parent.seq = edge.parent
              WHERE edge.child = headrace_jobs.seq AND edge.blocks AND edge.policy = 'hold'
                AND parent.state IN ('failed', 'cancelled'));

-- name: ignore_edges
UPDATE headrace_dependencies SET blocks = 0
WHERE blocks AND child IN (SELECT value FROM json_each(:seqs))
  AND (NOT :all OR (SELECT state FROM headrace_jobs AS job WHERE job.seq = headrace_dependencies.child) = 'waiting')
  AND (:all OR (parent NOT IN (SELECT value FROM json_each(:seqs))
                AND (SELECT state FROM headrace_jobs AS job WHERE job.seq = headrace_dependencies.parent)
                    IN ('completed', 'failed', 'cancelled')));

-- name: restore_blocks
UPDATE headrace_dependencies SET blocks = 1
WHERE parent IN (SELECT value FROM json_each(:seqs))
  AND child IN (SELECT child.seq FROM headrace_dependencies AS edge JOIN headrace_jobs AS child ON child.seq = edge.child
                WHERE edge.parent IN (SELECT value FROM json_each(:seqs))
                  AND (child.state = 'waiting' OR (child.state = 'cancelled' AND child.reason = 'parent_failed')));

-- name: unhold_children
UPDATE headrace_jobs SET reason = NULL
WHERE state = 'waiting' AND reason = 'held'
  AND seq IN (SELECT child FROM headrace_dependencies WHERE parent IN (SELECT value FROM json_each(:seqs)))
  AND NOT EXISTS (SELECT 1 FROM headrace_dependencies AS edge JOIN headrace_jobs AS parent ON parent.seq = edge.parent
                  WHERE edge.child = headrace_jobs.seq AND edge.policy = 'hold'
                    AND parent.state IN ('failed', 'cancelled'));

-- name: revivable
SELECT json_group_array(json_array(seq, id)) FROM (
    SELECT child.seq, parent.id, min(parent.seq)
    FROM headrace_dependencies AS edge
    JOIN headrace_jobs AS parent ON parent.seq = edge.parent
    JOIN headrace_jobs AS child ON child.seq = edge.child
    WHERE edge.parent IN (SELECT value FROM json_each(:seqs))
      AND child.state = 'cancelled' AND child.reason = 'parent_failed'
    GROUP BY child.seq
    -- Once for each child, which may have thousands of parents, not once for each dependency.
    HAVING NOT EXISTS (SELECT 1 FROM headrace_dependencies AS other JOIN headrace_jobs AS lost ON lost.seq = other.parent
                       WHERE other.child = child.seq AND other.policy = 'cancel'
                         AND lost.state IN ('failed', 'cancelled')));

-- name: open_among
SELECT json_group_array(seq) FROM headrace_jobs
WHERE seq IN (SELECT value FROM json_each(:seqs)) AND state NOT IN ('completed', 'failed', 'cancelled');

-- name: flows_of
SELECT json_group_array(DISTINCT flow) FROM headrace_jobs
WHERE flow IS NOT NULL AND seq IN (SELECT value FROM json_each(:seqs));

-- name: drop_flows
DELETE FROM headrace_flows
WHERE id IN (SELECT value FROM json_each(:ids))
  AND NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.flow = headrace_flows.id);

-- Reads.

-- name: edges
SELECT json_group_array(json_array(parent, child, policy, json(iif(blocks, 'true', 'false')))) FROM (
    SELECT parent.id AS parent, child.id AS child, edge.policy, edge.blocks, child.seq, parent.seq
    FROM headrace_jobs AS job
    JOIN headrace_dependencies AS edge ON edge.child = job.seq
    JOIN headrace_jobs AS parent ON parent.seq = edge.parent
    JOIN headrace_jobs AS child ON child.seq = edge.child
    WHERE job.id IN (SELECT value FROM json_each(:ids))
    UNION
    SELECT parent.id, child.id, edge.policy, edge.blocks, child.seq, parent.seq
    FROM headrace_jobs AS job
    JOIN headrace_dependencies AS edge ON edge.parent = job.seq
    JOIN headrace_jobs AS parent ON parent.seq = edge.parent
    JOIN headrace_jobs AS child ON child.seq = edge.child
    WHERE job.id IN (SELECT value FROM json_each(:ids))
    ORDER BY 5, 6);

-- name: flows
SELECT json_group_array(json_array(json_array(id, name, created_at), json(jobs))) FROM (
    SELECT id, name, created_at,
           (SELECT json_group_object(state, jobs)
            FROM (SELECT state, count(*) AS jobs FROM headrace_jobs AS job WHERE job.flow = flow.id
                  GROUP BY state)) AS jobs
    FROM headrace_flows AS flow
    WHERE (:before IS NULL OR id < :before) AND (:ids = '[]' OR id IN (SELECT value FROM json_each(:ids)))
    ORDER BY id DESC LIMIT :limit);

-- name: import_flows (each f: FlowRow)
INSERT INTO headrace_flows (id, name, created_at)
SELECT f.id, f.name, f.created_at FROM json_each(:f) AS f WHERE true
ON CONFLICT DO NOTHING;

-- There is one writer at a time, so nothing needs a lock.
-- name: lock_dependencies
SELECT 1;

-- name: lock_children
SELECT json_group_array(DISTINCT child) FROM headrace_dependencies WHERE parent IN (SELECT value FROM json_each(:seqs));
