-- Retention of finished jobs. A page of them comes from the index of finished jobs, from either end.

-- name: finished_oldest
SELECT coalesce(json_agg(json_build_array(seq, id, task, queue, state, finished_at, version, options,
                                          unique_key IS NOT NULL, held, flow)
                         ORDER BY finished_at, seq), '[]')::text FROM (
    SELECT job.*, EXISTS (SELECT 1 FROM headrace_dead_letters AS dead_letter
                          WHERE dead_letter.job_id = job.id AND dead_letter.status = 'pending')
                  OR (job.has_dependencies <> 0 AND EXISTS (
                          SELECT 1 FROM headrace_dependencies AS edge JOIN headrace_jobs AS child ON child.seq = edge.child
                          WHERE edge.parent = job.seq
                            AND (child.state NOT IN ('completed', 'failed', 'cancelled')
                                 OR (child.state = 'failed' AND EXISTS (
                                         SELECT 1 FROM headrace_dead_letters AS dead_letter
                                         WHERE dead_letter.job_id = child.id AND dead_letter.status = 'pending')))))
                  AS held
    FROM headrace_jobs AS job
    WHERE job.finished_at IS NOT NULL AND job.queue = :queue AND job.state = :state
      AND job.finished_at < :before::bigint AND job.finished_at >= :at::bigint
      AND (job.finished_at, job.seq) > (:at::bigint, :seq::bigint)
    ORDER BY job.finished_at, job.seq LIMIT :limit) AS found;

-- name: finished_newest
SELECT coalesce(json_agg(json_build_array(seq, id, task, queue, state, finished_at, version, options,
                                          unique_key IS NOT NULL, held, flow)
                         ORDER BY finished_at DESC, seq DESC), '[]')::text FROM (
    SELECT job.*, EXISTS (SELECT 1 FROM headrace_dead_letters AS dead_letter
                          WHERE dead_letter.job_id = job.id AND dead_letter.status = 'pending')
                  OR (job.has_dependencies <> 0 AND EXISTS (
                          SELECT 1 FROM headrace_dependencies AS edge JOIN headrace_jobs AS child ON child.seq = edge.child
                          WHERE edge.parent = job.seq
                            AND (child.state NOT IN ('completed', 'failed', 'cancelled')
                                 OR (child.state = 'failed' AND EXISTS (
                                         SELECT 1 FROM headrace_dead_letters AS dead_letter
                                         WHERE dead_letter.job_id = child.id AND dead_letter.status = 'pending')))))
                  AS held
    FROM headrace_jobs AS job
    WHERE job.finished_at IS NOT NULL AND job.queue = :queue AND job.state = :state
      AND job.finished_at < :before::bigint AND job.finished_at <= :at::bigint
      AND (job.finished_at, job.seq) < (:at::bigint, :seq::bigint)
    ORDER BY job.finished_at DESC, job.seq DESC LIMIT :limit) AS found;

-- A lookup for each flow, whatever the planner estimates: a join would read every job.
-- name: open_flows
SELECT coalesce(json_agg(given.name), '[]')::text FROM jsonb_array_elements_text(:ids::jsonb) AS given(name)
CROSS JOIN LATERAL (
    SELECT 1 FROM headrace_jobs AS job
    WHERE job.flow = given.name
      AND (job.state NOT IN ('completed', 'failed', 'cancelled')
           OR (job.state = 'failed' AND EXISTS (
                   SELECT 1 FROM headrace_dead_letters AS dead_letter
                   WHERE dead_letter.job_id = job.id AND dead_letter.status = 'pending')))
    LIMIT 1) AS busy;

-- Those of these jobs that were cancelled with an ancestor whose dead letter is pending: a requeue lets them run.
-- name: cut_off
WITH RECURSIVE above (job, parent) AS (
    SELECT edge.child, edge.parent FROM jsonb_array_elements(:seqs::jsonb) AS s(value)
    CROSS JOIN LATERAL (
        SELECT seq FROM headrace_jobs
        WHERE seq = s.value::bigint AND state = 'cancelled' AND reason = 'parent_failed' OFFSET 0) AS lost
    CROSS JOIN LATERAL (SELECT * FROM headrace_dependencies WHERE child = lost.seq OFFSET 0) AS edge
    UNION
    SELECT above.job, edge.parent FROM above
    CROSS JOIN LATERAL (
        SELECT seq FROM headrace_jobs
        WHERE seq = above.parent AND state = 'cancelled' AND reason = 'parent_failed' OFFSET 0) AS lost
    CROSS JOIN LATERAL (SELECT * FROM headrace_dependencies WHERE child = lost.seq OFFSET 0) AS edge
)
SELECT coalesce(json_agg(DISTINCT above.job), '[]')::text FROM above
CROSS JOIN LATERAL (SELECT id FROM headrace_jobs WHERE seq = above.parent AND state = 'failed' OFFSET 0) AS parent
WHERE EXISTS (SELECT 1 FROM headrace_dead_letters AS dead_letter WHERE dead_letter.job_id = parent.id AND dead_letter.status = 'pending');

-- name: any_dependents
SELECT EXISTS (SELECT 1 FROM headrace_jobs AS job
               WHERE job.id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
                 AND (job.has_dependencies <> 0 OR job.flow IS NOT NULL));

-- Jobs that others have locked are left for the next retention run.
-- name: lock_jobs_to_delete (each lease: Lease)
SELECT coalesce(json_agg(json_build_array(seq, id, has_dependencies, flow, state)), '[]')::text FROM (
    SELECT job.seq, job.id, job.has_dependencies, job.flow, job.state
    FROM jsonb_array_elements(:lease::jsonb) AS lease(value), headrace_jobs AS job
    WHERE job.id = ANY (ARRAY[lease.id]) AND job.version = lease.version AND jsonb_typeof(lease.value) = 'array'
      AND job.state IN ('completed', 'failed', 'cancelled')
      AND NOT EXISTS (SELECT 1 FROM headrace_dead_letters AS dead_letter WHERE dead_letter.job_id = job.id AND dead_letter.status = 'pending')
    FOR UPDATE OF job SKIP LOCKED) AS to_delete;

-- name: open_parents
SELECT coalesce(json_agg(DISTINCT edge.parent), '[]')::text
FROM headrace_dependencies AS edge JOIN headrace_jobs AS child ON child.seq = edge.child
WHERE edge.parent = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
  AND (child.state NOT IN ('completed', 'failed', 'cancelled')
       OR (child.state = 'failed' AND EXISTS (
               SELECT 1 FROM headrace_dead_letters AS dead_letter WHERE dead_letter.job_id = child.id AND dead_letter.status = 'pending')));
