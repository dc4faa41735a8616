-- Leases. `coalesce` keeps the planner from expecting few jobs with a lease, and from starting with those.

-- It does not wait for locks. A locked job is most likely being settled; otherwise the next heartbeat renews it.
-- name: renew (each lease: Lease)
UPDATE headrace_jobs SET lease_until = :until
WHERE seq = ANY (ARRAY(
    SELECT job.seq FROM jsonb_array_elements(:lease::jsonb) AS lease(value)
    JOIN headrace_jobs AS job ON job.id = ANY (ARRAY[lease.id]) AND job.version = lease.version
    WHERE jsonb_typeof(lease.value) = 'array' AND coalesce(job.lease_until, 0) > :now
    FOR UPDATE OF job SKIP LOCKED));

-- name: lost (each lease: Lease)
SELECT coalesce(json_agg(json_build_array(lease.id, lease.version)), '[]')::text
FROM jsonb_array_elements(:lease::jsonb) AS lease(value)
WHERE jsonb_typeof(lease.value) = 'array'
  AND NOT EXISTS (SELECT 1 FROM headrace_jobs AS job
                  WHERE job.id = ANY (ARRAY[lease.id]) AND job.version = lease.version
                    AND coalesce(job.lease_until, 0) > :now);

-- Every worker runs this every second, and dead workers are rare: the first part reads only overdue jobs, the second
-- only the jobs of dead workers.
-- name: overdue
SELECT coalesce(json_agg(json_build_array(seq, worker, attempt < max_attempts, crashes)), '[]')::text FROM (
    SELECT seq, worker, attempt, max_attempts, crashes FROM headrace_jobs WHERE state = 'running' AND lease_until <= :now
    UNION ALL
    SELECT seq, worker, attempt, max_attempts, crashes FROM headrace_jobs
    WHERE :dead::jsonb <> '[]' AND state = 'running' AND lease_until > :now
      AND worker IN (SELECT jsonb_array_elements_text(:dead::jsonb))
    LIMIT :limit) AS overdue;

-- name: lock_overdue
SELECT coalesce(json_agg(json_build_array(seq, worker, attempt < max_attempts, crashes)), '[]')::text FROM (
    SELECT seq, worker, attempt, max_attempts, crashes FROM headrace_jobs
    WHERE state = 'running'
      AND (lease_until <= :now OR worker IN (SELECT jsonb_array_elements_text(:dead::jsonb)))
    LIMIT :limit FOR UPDATE SKIP LOCKED) AS overdue;

-- name: lock_unknown_claims (each lease: Lease)
SELECT coalesce(json_agg(seq), '[]')::text FROM (
    SELECT job.seq FROM headrace_jobs AS job
    WHERE job.state = 'running' AND job.worker = :worker
      AND (job.id, job.version) NOT IN (SELECT lease.id, lease.version
                                        FROM jsonb_array_elements(:lease::jsonb) AS lease(value))
    FOR UPDATE OF job) AS disowned;

-- name: record_lost
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, detail,
                              error_type, error_message, error_traceback)
SELECT seq, :now, 'lease_expired', state, :target, version + 1, attempt, worker, started_at, :detail,
       'WorkerLost', 'worker ' || worker || ' died or let its lease run out', ''
FROM headrace_jobs WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- name: release
UPDATE headrace_jobs SET state = 'pending', version = version + 1, attempt = attempt - 1, releases = releases + 1,
                         lease_until = NULL, worker = NULL, started_at = NULL
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- name: reaped
SELECT coalesce(json_agg(json_build_array(id, queue, state, :worker::text)), '[]')::text FROM headrace_jobs
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- name: next_expiry
SELECT (SELECT lease_until FROM headrace_jobs WHERE state = 'running' ORDER BY lease_until LIMIT 1);

-- name: expire_lease
UPDATE headrace_jobs SET state = :target, version = version + 1, crashes = crashes + 1, lease_until = NULL,
                         worker = CASE WHEN :target = 'failed' THEN worker END,
                         finished_at = CASE WHEN :target = 'failed' THEN :now::bigint END,
                         reason = :reason
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));
