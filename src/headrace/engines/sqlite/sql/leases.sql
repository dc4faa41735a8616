-- name: renew (each lease: Lease)
UPDATE headrace_jobs SET lease_until = :until
FROM json_each(:lease) AS lease
WHERE headrace_jobs.id = lease.id AND headrace_jobs.version = lease.version AND lease_until > :now;

-- name: lost (each lease: Lease)
SELECT json_group_array(json_array(lease.id, lease.version)) FROM json_each(:lease) AS lease
WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job
                  WHERE job.id = lease.id AND job.version = lease.version AND job.lease_until > :now);

-- name: overdue
SELECT json_group_array(json_array(seq, worker, json(iif(attempt < max_attempts, 'true', 'false')), crashes)) FROM (
    SELECT seq, worker, attempt, max_attempts, crashes FROM headrace_jobs
    WHERE state = 'running' AND (lease_until <= :now OR worker IN (SELECT value FROM json_each(:dead)))
    LIMIT :limit);

-- name: lock_unknown_claims (each lease: Lease)
SELECT json_group_array(seq) FROM headrace_jobs AS job
WHERE job.state = 'running' AND job.worker = :worker
  AND (job.id, job.version) NOT IN (SELECT lease.id, lease.version FROM json_each(:lease) AS lease);

-- name: record_lost
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, detail,
                              error_type, error_message, error_traceback)
SELECT seq, :now, 'lease_expired', state, :target, version + 1, attempt, worker, started_at, :detail,
       'WorkerLost', 'worker ' || worker || ' died or let its lease run out', ''
FROM headrace_jobs WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: release
UPDATE headrace_jobs SET state = 'pending', version = version + 1, attempt = attempt - 1, releases = releases + 1,
                         lease_until = NULL, worker = NULL, started_at = NULL
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: reaped
SELECT json_group_array(json_array(id, queue, state, :worker)) FROM headrace_jobs
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: expire_lease
UPDATE headrace_jobs SET state = :target, version = version + 1, crashes = crashes + 1, lease_until = NULL,
                         worker = CASE WHEN :target = 'failed' THEN worker END,
                         finished_at = CASE WHEN :target = 'failed' THEN :now END,
                         reason = :reason
WHERE seq IN (SELECT value FROM json_each(:seqs));
