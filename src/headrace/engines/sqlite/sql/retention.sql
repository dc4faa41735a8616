-- Retention of finished jobs. A page of them comes from the index of finished jobs, from either end.

-- name: finished_oldest
SELECT json_group_array(json_array(seq, id, task, queue, state, finished_at, version, options,
                                   json(iif(unique_key IS NULL, 'false', 'true')), json(iif(held, 'true', 'false')),
                                   flow)) FROM (
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
    WHERE job.finished_at IS NOT NULL AND job.queue = :queue AND job.state = :state AND job.finished_at < :before
      AND (job.finished_at, job.seq) > (:at, :seq)
    ORDER BY job.finished_at, job.seq LIMIT :limit);

-- name: finished_newest
SELECT json_group_array(json_array(seq, id, task, queue, state, finished_at, version, options,
                                   json(iif(unique_key IS NULL, 'false', 'true')), json(iif(held, 'true', 'false')),
                                   flow)) FROM (
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
    WHERE job.finished_at IS NOT NULL AND job.queue = :queue AND job.state = :state AND job.finished_at < :before
      AND (job.finished_at, job.seq) < (:at, :seq)
    ORDER BY job.finished_at DESC, job.seq DESC LIMIT :limit);

-- name: open_flows
SELECT json_group_array(flow.value) FROM json_each(:ids) AS flow
WHERE EXISTS (SELECT 1 FROM headrace_jobs AS job
              WHERE job.flow = flow.value
                AND (job.state NOT IN ('completed', 'failed', 'cancelled')
                     OR (job.state = 'failed' AND EXISTS (
                             SELECT 1 FROM headrace_dead_letters AS dead_letter
                             WHERE dead_letter.job_id = job.id AND dead_letter.status = 'pending'))));

-- Those of these jobs that were cancelled with an ancestor whose dead letter is pending: a requeue lets them run.
-- name: cut_off
WITH RECURSIVE above (job, parent) AS (
    SELECT edge.child, edge.parent FROM headrace_dependencies AS edge
    JOIN headrace_jobs AS child ON child.seq = edge.child
    WHERE edge.child IN (SELECT value FROM json_each(:seqs))
      AND child.state = 'cancelled' AND child.reason = 'parent_failed'
    UNION
    SELECT above.job, edge.parent FROM above
    JOIN headrace_jobs AS lost ON lost.seq = above.parent
    JOIN headrace_dependencies AS edge ON edge.child = lost.seq
    WHERE lost.state = 'cancelled' AND lost.reason = 'parent_failed')
SELECT json_group_array(DISTINCT above.job) FROM above
JOIN headrace_jobs AS parent ON parent.seq = above.parent
WHERE parent.state = 'failed'
  AND EXISTS (SELECT 1 FROM headrace_dead_letters AS dead_letter WHERE dead_letter.job_id = parent.id AND dead_letter.status = 'pending');

-- name: any_dependents
SELECT EXISTS (SELECT 1 FROM headrace_jobs AS job
               WHERE job.id IN (SELECT value FROM json_each(:ids)) AND (job.has_dependencies <> 0 OR job.flow IS NOT NULL));

-- name: lock_jobs_to_delete (each lease: Lease)
SELECT json_group_array(json_array(job.seq, job.id, job.has_dependencies, job.flow, job.state)) FROM json_each(:lease) AS lease
JOIN headrace_jobs AS job ON job.id = lease.id AND job.version = lease.version
WHERE job.state IN ('completed', 'failed', 'cancelled')
  AND NOT EXISTS (SELECT 1 FROM headrace_dead_letters AS dead_letter WHERE dead_letter.job_id = job.id AND dead_letter.status = 'pending');

-- name: open_parents
SELECT json_group_array(DISTINCT edge.parent)
FROM headrace_dependencies AS edge JOIN headrace_jobs AS child ON child.seq = edge.child
WHERE edge.parent IN (SELECT value FROM json_each(:seqs))
  AND (child.state NOT IN ('completed', 'failed', 'cancelled')
       OR (child.state = 'failed' AND EXISTS (
               SELECT 1 FROM headrace_dead_letters AS dead_letter WHERE dead_letter.job_id = child.id AND dead_letter.status = 'pending')));
