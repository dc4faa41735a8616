-- name: renew (each lease: Lease)
UPDATE headrace_jobs SET lease_until = :until
FROM json_each(:lease) AS lease
WHERE headrace_jobs.id = lease.id AND headrace_jobs.version = lease.version AND lease_until > :now;

-- name: lost (each lease: Lease)
SELECT json_group_array(json_array(lease.id, lease.version)) FROM json_each(:lease) AS lease
WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job
                  WHERE job.id = lease.id AND job.version = lease.version AND job.lease_until > :now);

-- name: overdue
SELECT json_group_array(json_array(seq, worker, json(iif(attempt < max_attempts, 'true', 'false')), crashes, reason)) FROM (
    SELECT seq, worker, attempt, max_attempts, crashes, reason FROM headrace_jobs
    WHERE state = 'running' AND (lease_until <= :now OR worker IN (SELECT value FROM json_each(:dead)))
    LIMIT :limit);
