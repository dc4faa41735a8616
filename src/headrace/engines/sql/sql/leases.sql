-- A job that was asked to stop runs under another version than its worker has claimed.
-- name: lock_unknown_claims (each lease: Lease)
SELECT {list seq} FROM (
    SELECT job.seq FROM headrace_jobs AS job
    WHERE job.state = 'running' AND job.worker = :worker
      AND substr(coalesce(job.reason, ''), 1, 31) <> 'cancelled by a newer call, job '
      AND (job.id, job.version) NOT IN (SELECT lease.id, lease.version FROM {each lease})
    {lock FOR UPDATE OF job}) AS disowned;

-- name: record_lost
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, detail,
                              error_type, error_message, error_traceback)
SELECT seq, :now, 'lease_expired', state, :target, version + 1, attempt, worker, started_at, :detail,
       'WorkerLost', 'worker ' || worker || ' died or let its lease run out', ''
FROM headrace_jobs WHERE seq {in_numbers :seqs};

-- name: release
UPDATE headrace_jobs SET state = 'pending', {next_version :now}, attempt = attempt - 1, releases = releases + 1,
                         lease_until = NULL, worker = NULL, started_at = NULL
WHERE seq {in_numbers :seqs};

-- name: reaped
SELECT {rows id, queue, state, CAST(:worker AS text)} FROM headrace_jobs WHERE seq {in_numbers :seqs};

-- name: expire_lease
UPDATE headrace_jobs SET state = :target, {next_version :now}, crashes = crashes + 1, lease_until = NULL,
                         worker = CASE WHEN :target = 'failed' THEN worker END,
                         finished_at = CASE WHEN :target = 'failed' THEN CAST(:now AS bigint) END,
                         reason = :reason
WHERE seq {in_numbers :seqs};
