-- Leases. `coalesce` keeps the planner from expecting few jobs with a lease, and from starting with those.

-- It does not wait for locks. A locked job is most likely being settled; otherwise the next heartbeat renews it.
-- name: renew (each lease: Lease)
UPDATE headrace_jobs SET lease_until = :until
WHERE seq = ANY (ARRAY(
    SELECT job.seq FROM jsonb_array_elements(:lease::jsonb) AS lease(value)
    JOIN headrace_jobs AS job ON job.{has_id lease.id} AND job.version = lease.version
    WHERE jsonb_typeof(lease.value) = 'array' AND coalesce(job.lease_until, 0) > :now
    FOR UPDATE OF job SKIP LOCKED));

-- name: lost (each lease: Lease)
SELECT coalesce(json_agg(json_build_array(lease.id, lease.version)), '[]')::text
FROM jsonb_array_elements(:lease::jsonb) AS lease(value)
WHERE jsonb_typeof(lease.value) = 'array'
  AND NOT EXISTS (SELECT 1 FROM headrace_jobs AS job
                  WHERE job.{has_id lease.id} AND job.version = lease.version
                    AND coalesce(job.lease_until, 0) > :now);

-- Every worker runs this every second, and dead workers are rare: the first part reads only overdue jobs, the second
-- only the jobs of dead workers.
-- name: overdue
SELECT coalesce(json_agg(json_build_array(seq, worker, attempt < max_attempts, crashes, reason)), '[]')::text FROM (
    SELECT seq, worker, attempt, max_attempts, crashes, reason FROM headrace_jobs
    WHERE state = 'running' AND lease_until <= :now
    UNION ALL
    SELECT seq, worker, attempt, max_attempts, crashes, reason FROM headrace_jobs
    WHERE :dead::jsonb <> '[]' AND state = 'running' AND lease_until > :now
      AND worker IN (SELECT jsonb_array_elements_text(:dead::jsonb))
    LIMIT :limit) AS overdue;

-- name: lock_overdue
SELECT coalesce(json_agg(json_build_array(seq, worker, attempt < max_attempts, crashes, reason)), '[]')::text FROM (
    SELECT seq, worker, attempt, max_attempts, crashes, reason FROM headrace_jobs
    WHERE state = 'running'
      AND (lease_until <= :now OR worker IN (SELECT jsonb_array_elements_text(:dead::jsonb)))
    LIMIT :limit FOR UPDATE SKIP LOCKED) AS overdue;

-- name: next_expiry
SELECT (SELECT lease_until FROM headrace_jobs WHERE state = 'running' ORDER BY lease_until LIMIT 1);
