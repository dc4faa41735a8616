-- name: outcomes_with_dependents (each o: SettleKey)
SELECT json_group_array(json_array(o.key, job.seq))
FROM json_each(:o) AS o
JOIN headrace_jobs AS job ON job.id = o.id AND job.version = o.version
WHERE job.has_dependencies <> 0 OR o.spawned;

-- Reads.

-- name: flows
SELECT json_group_array(json_array(json_array(id, name, created_at), json(jobs))) FROM (
    SELECT id, name, created_at,
           (SELECT json_group_object(state, jobs)
            FROM (SELECT state, count(*) AS jobs FROM headrace_jobs AS job WHERE job.flow = flow.id
                  GROUP BY state)) AS jobs
    FROM headrace_flows AS flow
    WHERE (:before IS NULL OR id < :before) AND (:ids = '[]' OR id IN (SELECT value FROM json_each(:ids)))
    ORDER BY id DESC LIMIT :limit);

-- There is one writer at a time, so nothing needs a lock.
-- name: lock_dependencies
SELECT 1;

-- name: lock_children
SELECT json_group_array(DISTINCT child) FROM headrace_dependencies WHERE parent IN (SELECT value FROM json_each(:seqs));
