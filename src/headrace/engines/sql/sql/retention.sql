-- Retention of finished jobs. A page of them comes from the index of finished jobs, from either end.

-- name: finished_oldest
SELECT {rows seq, id, task, queue, state, finished_at, version, options, {flag unique_key IS NOT NULL}, {flag held}, flow}
FROM (
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
      AND job.finished_at < CAST(:before AS bigint) AND job.finished_at >= CAST(:at AS bigint)
      AND (job.finished_at, job.seq) > (CAST(:at AS bigint), CAST(:seq AS bigint))
    ORDER BY job.finished_at, job.seq LIMIT :limit) AS found;

-- name: finished_newest
SELECT {rows seq, id, task, queue, state, finished_at, version, options, {flag unique_key IS NOT NULL}, {flag held}, flow}
FROM (
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
      AND job.finished_at < CAST(:before AS bigint) AND job.finished_at <= CAST(:at AS bigint)
      AND (job.finished_at, job.seq) < (CAST(:at AS bigint), CAST(:seq AS bigint))
    ORDER BY job.finished_at DESC, job.seq DESC LIMIT :limit) AS found;

-- Those of these jobs that were cancelled with an ancestor whose dead letter is pending: a requeue lets them run.
-- name: cut_off
WITH RECURSIVE above (job, parent) AS (
    SELECT edge.child, edge.parent FROM {each seqs}
    {lookup headrace_jobs AS lost ON lost.seq = CAST(seqs.value AS bigint)
                                 AND lost.state = 'cancelled' AND lost.reason = 'parent_failed'}
    {lookup headrace_dependencies AS edge ON edge.child = lost.seq}
    UNION
    SELECT above.job, edge.parent FROM above
    {lookup headrace_jobs AS lost ON lost.seq = above.parent
                                 AND lost.state = 'cancelled' AND lost.reason = 'parent_failed'}
    {lookup headrace_dependencies AS edge ON edge.child = lost.seq}
)
SELECT {list DISTINCT above.job} FROM above
{lookup headrace_jobs AS parent ON parent.seq = above.parent AND parent.state = 'failed'}
WHERE EXISTS (SELECT 1 FROM headrace_dead_letters AS dead_letter WHERE dead_letter.job_id = parent.id AND dead_letter.status = 'pending');

-- name: any_dependents
SELECT EXISTS (SELECT 1 FROM headrace_jobs AS job
               WHERE job.{named :ids} AND (job.has_dependencies <> 0 OR job.flow IS NOT NULL));

-- name: open_parents
SELECT {list DISTINCT edge.parent}
FROM headrace_dependencies AS edge JOIN headrace_jobs AS child ON child.seq = edge.child
WHERE edge.parent {in_numbers :seqs}
  AND (child.state NOT IN ('completed', 'failed', 'cancelled')
       OR (child.state = 'failed' AND EXISTS (
               SELECT 1 FROM headrace_dead_letters AS dead_letter WHERE dead_letter.job_id = child.id AND dead_letter.status = 'pending')));
