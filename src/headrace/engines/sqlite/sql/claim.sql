-- name: claim_chosen
UPDATE headrace_jobs SET state = 'running', {next_version :now}, attempt = attempt + 1, worker = :worker,
                         started_at = :now, lease_until = :until, progress = NULL
WHERE seq IN (SELECT value FROM json_each(:seqs)) AND state = 'pending';

-- Rules are returned as stored: the caller handles damaged ones.
-- While a store status is set the list of queues is NULL, and nothing expires or is promoted. Beside it are the queues
-- that have a pending job, so that the claim asks no other: one look into the index tells that, and whether it has lanes.
-- name: claim_preamble
WITH last_lanes AS MATERIALIZED (
    SELECT name, paused, (SELECT lane FROM headrace_jobs WHERE state = 'pending' AND queue = known.name
                          ORDER BY lane DESC LIMIT 1) AS lane
    FROM headrace_queues AS known
)
SELECT (SELECT min(run_at) FROM headrace_jobs WHERE state IN ('scheduled', 'retrying')),
       (SELECT min(expires_at) FROM headrace_jobs
        WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'waiting', 'pending', 'retrying')),
       CASE WHEN NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'status')
            THEN (SELECT json_group_array(name) FROM headrace_queues WHERE NOT paused) END,
       (SELECT json_group_array(name) FROM last_lanes WHERE NOT paused AND lane IS NOT NULL),
       (SELECT json_array(
            (SELECT json_group_array(json_array(name, rules)) FROM headrace_queues WHERE rules IS NOT NULL),
            (SELECT json_group_array(name) FROM last_lanes WHERE lane > ''),
            (SELECT json_group_array(json_array(name, rules)) FROM headrace_tasks)));

-- name: lock_expired
SELECT json_group_array(seq) FROM (
    SELECT seq FROM headrace_jobs
    WHERE expires_at <= :now AND expires_at IS NOT NULL AND state IN ('scheduled', 'waiting', 'pending', 'retrying')
    LIMIT :limit);

-- name: due
SELECT json_group_array(seq) FROM (
    SELECT seq FROM headrace_jobs WHERE state IN ('scheduled', 'retrying') AND run_at <= :now
    ORDER BY run_at LIMIT :limit);

-- name: promote
UPDATE headrace_jobs SET state = 'pending', {next_version :now}
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- Claims from a queue without rules and lanes; claims under limits are in limits.sql.
-- name: claimable
SELECT json_group_array(json_array({Claim})) FROM (
    SELECT id, seq AS ref, task, queue, priority, version + 1 AS version, attempt + 1 AS attempt, max_attempts,
           payload, checksum, created_at, run_at, crashes, releases, options, metadata
    FROM headrace_jobs WHERE state = 'pending' AND queue = :queue AND lane = ''
    ORDER BY priority DESC, rank, seq LIMIT :limit OFFSET :skip);

-- name: claim
UPDATE headrace_jobs SET state = 'running', {next_version :now}, attempt = attempt + 1, worker = :worker,
                         started_at = :now, lease_until = :until, progress = NULL
WHERE seq IN (SELECT value FROM json_each(:refs));
