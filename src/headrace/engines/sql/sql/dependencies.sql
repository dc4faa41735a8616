-- Dependencies. All statements here are for jobs that have any; other jobs never come here. Each statement returns one
-- value, so that a caller's library can run it as well. `coalesce` of a state, and a subquery with a limit instead of
-- EXISTS, keep PostgreSQL from expecting few waiting jobs or few dependencies, and from starting with those.

-- name: add_flow
{count INSERT INTO headrace_flows (id, name, created_at) VALUES (:id, :name, :created_at) ON CONFLICT DO NOTHING};

-- name: lock_named
SELECT {rows id, seq, state} FROM (
    SELECT id, seq, state FROM headrace_jobs WHERE {named :ids} ORDER BY seq {lock FOR UPDATE}) AS named;

-- name: edges_below
WITH RECURSIVE below (seq) AS (
    SELECT seq FROM headrace_jobs WHERE {named :ids}
    UNION
    SELECT edge.child FROM below {lookup headrace_dependencies AS edge ON edge.parent = below.seq}
)
SELECT {rows parent.id, child.id}
FROM below
{lookup headrace_dependencies AS edge ON edge.parent = below.seq}
{lookup headrace_jobs AS parent ON parent.seq = edge.parent}
{lookup headrace_jobs AS child ON child.seq = edge.child};

-- name: add_edges (each b: Dependency)
{count
INSERT INTO headrace_dependencies (child, parent, policy, blocks)
SELECT child.seq, parent.seq, b.policy, b.blocks
FROM {each b}
{lookup headrace_jobs AS child ON child.{has_id b.child}}
{lookup headrace_jobs AS parent ON parent.{has_id b.parent}}
WHERE true
ON CONFLICT DO NOTHING};

-- name: mark_dependents
{count UPDATE headrace_jobs SET has_dependencies = 1 WHERE has_dependencies = 0 AND {named :ids}};

-- name: back_to_waiting
{count
UPDATE headrace_jobs SET
    state = 'waiting', {next_version :now},
    run_at = CASE WHEN substr(reason, 1, 16) = 'waits for event ' THEN CAST(:now AS bigint) ELSE run_at END,
    reason = CASE WHEN substr(reason, 1, 16) = 'waits for event ' THEN NULL ELSE reason END
WHERE seq {in_numbers :seqs}};

-- name: with_dependents
SELECT {list seq} FROM headrace_jobs WHERE has_dependencies <> 0 AND seq {in_numbers :seqs};

-- name: blocking
SELECT {rows child, jobs} FROM (
    SELECT child, count(*) AS jobs FROM headrace_dependencies
    WHERE blocks AND child {in_numbers :seqs} GROUP BY child) AS those;

-- The effects of finished jobs on their dependents.

-- name: delete_edges
{count
UPDATE headrace_dependencies SET blocks = false
WHERE blocks AND parent {in_numbers :seqs} AND (:completed OR policy IN ('run', 'only'))};

-- name: children_to_cancel
SELECT {rows child, id, task, state, reason} FROM (
    SELECT edge.child, parent.id, parent.task, parent.state, parent.reason,
           row_number() OVER (PARTITION BY edge.child ORDER BY edge.parent) AS place
    FROM headrace_dependencies AS edge
    {lookup headrace_jobs AS parent ON parent.seq = edge.parent}
    {lookup headrace_jobs AS child ON child.seq = edge.child}
    WHERE edge.parent {in_numbers :seqs} AND edge.blocks AND edge.policy = 'cancel'
      AND parent.state IN ('failed', 'cancelled') AND child.state = 'waiting') AS doomed
WHERE place = 1;

-- name: cancel
{count
UPDATE headrace_jobs SET state = 'cancelled', {next_version :now}, finished_at = :now, lease_until = NULL,
                         reason = :reason
WHERE seq {in_numbers :seqs}};

-- name: hold_children
{count
UPDATE headrace_jobs SET reason = 'held'
WHERE coalesce(state, '') = 'waiting'
  AND seq {in SELECT edge.child FROM headrace_dependencies AS edge
              {lookup headrace_jobs AS parent ON parent.seq = edge.parent}
              WHERE edge.parent {in_numbers :seqs} AND edge.blocks AND edge.policy = 'hold'
                AND parent.state IN ('failed', 'cancelled')}};

-- A job to run only if a parent fails is cancelled if none has.
-- name: unblocked
SELECT {rows seq, CASE
    WHEN finished_at IS NOT NULL THEN 'completed'
    WHEN (SELECT max(CASE WHEN parent.state IN ('failed', 'cancelled') THEN 1 ELSE 0 END)
          FROM headrace_dependencies AS edge
          {lookup headrace_jobs AS parent ON parent.seq = edge.parent}
          WHERE edge.child = job.seq AND edge.policy = 'only') = 0 THEN 'cancelled'
    WHEN run_at > :now THEN 'scheduled' ELSE 'pending' END}
FROM headrace_jobs AS job
WHERE coalesce(state, '') = 'waiting' AND coalesce(reason, '') <> 'held'
  AND seq {in_numbers :seqs}
  AND (SELECT 1 FROM headrace_dependencies AS edge WHERE edge.child = job.seq AND edge.blocks LIMIT 1) IS NULL;

-- name: unblock
{count
UPDATE headrace_jobs SET state = :target, {next_version :now}, reason = NULL,
                         finished_at = CASE WHEN finished_at IS NOT NULL THEN CAST(:now AS bigint) END
WHERE seq {in_numbers :seqs}};

-- Jobs that run again, and their dependents.

-- name: waiting_again
SELECT {list seq} FROM headrace_jobs AS job
WHERE seq {in_numbers :seqs}
  AND (SELECT 1 FROM headrace_dependencies AS edge
       {lookup headrace_jobs AS parent ON parent.seq = edge.parent}
       WHERE edge.child = job.seq AND edge.blocks
         AND (parent.state NOT IN ('completed', 'failed', 'cancelled') OR edge.parent {in_numbers :seqs})
       LIMIT 1) = 1;

-- name: wait_again
{count
UPDATE headrace_jobs SET state = 'waiting', {next_version :now}, attempt = 0, crashes = 0, finished_at = NULL,
                         started_at = NULL, worker = NULL, result = NULL, result_checksum = NULL, progress = NULL,
                         reason = NULL, expires_at = NULL
WHERE seq {in_numbers :seqs}};

-- name: lost_parents
SELECT {list DISTINCT edge.parent}
FROM headrace_dependencies AS edge
{lookup headrace_jobs AS parent ON parent.seq = edge.parent}
WHERE edge.child {in_numbers :seqs} AND edge.blocks AND parent.state IN ('failed', 'cancelled');

-- name: hold_again
{count
UPDATE headrace_jobs AS job SET reason = 'held'
WHERE job.seq {in_numbers :seqs}
  AND (SELECT 1 FROM headrace_dependencies AS edge
       {lookup headrace_jobs AS parent ON parent.seq = edge.parent}
       WHERE edge.child = job.seq AND edge.blocks AND edge.policy = 'hold'
         AND parent.state IN ('failed', 'cancelled') LIMIT 1) = 1};

-- name: ignore_edges
UPDATE headrace_dependencies SET blocks = false
WHERE blocks AND child {in_numbers :seqs}
  AND (NOT :all OR (SELECT state FROM headrace_jobs AS job WHERE job.seq = headrace_dependencies.child) = 'waiting')
  AND (:all OR (NOT (parent {in_numbers :seqs})
                AND (SELECT state FROM headrace_jobs AS job WHERE job.seq = headrace_dependencies.parent)
                    IN ('completed', 'failed', 'cancelled')));

-- name: restore_blocks
{count
UPDATE headrace_dependencies AS edge SET blocks = true
WHERE edge.parent {in_numbers :seqs}
  AND (SELECT child.state = 'waiting' OR (child.state = 'cancelled' AND child.reason = 'parent_failed')
       FROM headrace_jobs AS child WHERE child.seq = edge.child)};

-- name: unhold_children
{count
UPDATE headrace_jobs AS job SET reason = NULL
WHERE coalesce(job.state, '') = 'waiting' AND job.reason = 'held'
  AND job.seq {in SELECT child FROM headrace_dependencies WHERE parent {in_numbers :seqs}}
  AND (SELECT 1 FROM headrace_dependencies AS edge
       {lookup headrace_jobs AS parent ON parent.seq = edge.parent}
       WHERE edge.child = job.seq AND edge.policy = 'hold' AND parent.state IN ('failed', 'cancelled')
       LIMIT 1) IS NULL};

-- Other parents are checked once for each child, which may have thousands of them, not once for each dependency.
-- name: revivable
SELECT {rows child, id} FROM (
    SELECT edge.child, parent.id, row_number() OVER (PARTITION BY edge.child ORDER BY edge.parent) AS place
    FROM headrace_dependencies AS edge
    {lookup headrace_jobs AS parent ON parent.seq = edge.parent}
    {lookup headrace_jobs AS child ON child.seq = edge.child}
    WHERE edge.parent {in_numbers :seqs} AND child.state = 'cancelled' AND child.reason = 'parent_failed') AS revivable
WHERE place = 1
  AND (SELECT 1 FROM headrace_dependencies AS other
       {lookup headrace_jobs AS lost ON lost.seq = other.parent}
       WHERE other.child = revivable.child AND other.policy = 'cancel' AND lost.state IN ('failed', 'cancelled')
       LIMIT 1) IS NULL;

-- name: open_among
SELECT {list seq} FROM headrace_jobs
WHERE seq {in_numbers :seqs} AND state NOT IN ('completed', 'failed', 'cancelled');

-- name: flows_of
SELECT {list DISTINCT flow} FROM headrace_jobs WHERE flow IS NOT NULL AND seq {in_numbers :seqs};

-- name: drop_flows
DELETE FROM headrace_flows
WHERE id {in_texts :ids} AND (SELECT 1 FROM headrace_jobs AS job WHERE job.flow = headrace_flows.id LIMIT 1) IS NULL;

-- name: edges
SELECT {rows parent, child, policy, {flag blocks}} FROM (
    SELECT parent.id AS parent, child.id AS child, edge.policy, edge.blocks
    FROM (SELECT below.* FROM headrace_jobs AS job
          {lookup headrace_dependencies AS below ON below.parent = job.seq} WHERE job.{named :ids}
          UNION
          SELECT above.* FROM headrace_jobs AS job
          {lookup headrace_dependencies AS above ON above.child = job.seq} WHERE job.{named :ids}) AS edge
    {lookup headrace_jobs AS parent ON parent.seq = edge.parent}
    {lookup headrace_jobs AS child ON child.seq = edge.child}
    ORDER BY edge.child, edge.parent) AS named;

-- name: import_flows (each f: FlowRow)
INSERT INTO headrace_flows (id, name, created_at)
SELECT f.id, f.name, f.created_at FROM {each f} WHERE true
ON CONFLICT DO NOTHING;
