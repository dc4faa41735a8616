-- The read before it was a transaction of its own, and may have seen no store status yet.
-- name: claim_chosen
UPDATE headrace_jobs SET state = 'running', {next_version :now}, attempt = attempt + 1, worker = :worker,
                         started_at = :now, lease_until = :until, progress = NULL
WHERE seq = ANY (ARRAY(SELECT seq FROM headrace_jobs
                       WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
                         AND state || '' = 'pending' AND coalesce(expires_at, :until) > :now
                         AND NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'status')
                       FOR UPDATE SKIP LOCKED));

-- A store status may have been set since the claim that saw them: dependents of these jobs may not have arrived yet.
-- name: lock_expired
SELECT coalesce(json_agg(seq), '[]')::text FROM (
    SELECT seq FROM headrace_jobs
    WHERE expires_at <= :now AND expires_at IS NOT NULL AND state IN ('scheduled', 'waiting', 'pending', 'retrying')
      AND NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'status')
    LIMIT :limit FOR UPDATE SKIP LOCKED) AS expired;

-- name: promote
WITH due AS (
    UPDATE headrace_jobs SET state = 'pending', {next_version :now}
    WHERE seq = ANY (ARRAY(SELECT seq FROM headrace_jobs WHERE state IN ('scheduled', 'retrying') AND run_at <= :now
                             AND coalesce(expires_at, :now + 1) > :now
                           ORDER BY run_at LIMIT :limit FOR UPDATE SKIP LOCKED))
    RETURNING id, queue, task
), recorded AS (
    INSERT INTO headrace_events (at, size, page)
    SELECT :now, sum(jobs), json_agg(json_build_array('job.promoted', :now::bigint, queue, task, NULL, ids))::text
    FROM (SELECT queue, task, count(*) AS jobs, json_agg(id) AS ids FROM due GROUP BY queue, task) AS promoted
    HAVING count(*) > 0
    RETURNING pg_notify(:channel, 'events')
)
SELECT 1 FROM due;

-- Nothing is claimed while a job is due: it is promoted first, and may be more urgent. Jobs are updated by ctid, not by
-- a join: a planner that expects many rows would read the whole table for it. The preamble does not use min(), for which
-- a plan from before the first job would read every entry. An idle server that is woken for one job feels every step:
-- so the queues are read once, for their settings and for which of them have no limits. Whether a job is pending is
-- looked up from the end of the index, where no claim has left dead entries. The first queue that can use the unused
-- share of an idle queue gets it at once: a second claim would cost as much as the first. Rules are returned as stored,
-- and compared as text: a damaged one must not stop the claims of all. If the task of one of the jobs is not among
-- `known_tasks`, none is claimed, and such tasks are returned. The names are one text, which costs nothing to parse.
-- Claims under limits are in limits.sql.
-- name: claim
WITH preamble AS MATERIALIZED (
    SELECT (SELECT run_at FROM headrace_jobs WHERE state IN ('scheduled', 'retrying') ORDER BY run_at LIMIT 1) AS due,
           (SELECT expires_at FROM headrace_jobs
            WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'waiting', 'pending', 'retrying')
            ORDER BY expires_at LIMIT 1) AS next_expiry,
           (SELECT 1 FROM headrace_store WHERE name = 'status') AS status,
           ruled.tasks, ruled.limited, known.queue_rows, known.plain, known.idle
    FROM (SELECT json_agg(json_build_array(name, rules)) AS tasks,
                 bool_or(rules ~ '"(paused|rate|concurrency)":') AS limited
          FROM headrace_tasks) AS ruled
    CROSS JOIN (
          SELECT json_agg(json_build_array(name, paused, laned, idle, rules)) AS queue_rows,
                 array_agg(name) FILTER (
                     WHERE NOT paused AND NOT laned
                       AND (rules IS NULL OR rules !~ '"(strategy|ageing|rate|concurrency|key_rate|key_concurrency)":')) AS plain,
                 array_agg(name) FILTER (WHERE idle) AS idle
          FROM (SELECT name, paused, rules,
                       EXISTS (SELECT 1 FROM headrace_jobs AS laned
                               WHERE laned.state = 'pending' AND laned.queue = queue.name AND laned.lane > '') AS laned,
                       (SELECT 1 FROM headrace_jobs AS pending
                        WHERE pending.state = 'pending' AND pending.queue = queue.name
                        ORDER BY pending.lane DESC, pending.priority, pending.rank DESC LIMIT 1) IS NULL AS idle
                FROM headrace_queues AS queue OFFSET 0) AS queues) AS known
), shares AS MATERIALIZED (
    SELECT queue, plain, CASE WHEN place = min(place) FILTER (WHERE plain AND idle IS NOT true) OVER ()
                              THEN quota + coalesce(sum(quota) FILTER (WHERE idle) OVER (), 0)::bigint
                              ELSE quota END AS quota
    FROM (SELECT share ->> 0 AS queue, (share ->> 1)::bigint AS quota, place,
                 share ->> 0 = ANY (preamble.plain) AS plain, share ->> 0 = ANY (preamble.idle) AS idle
          FROM preamble CROSS JOIN jsonb_array_elements(:shares::jsonb) WITH ORDINALITY AS share(share, place)
          WHERE jsonb_typeof(share) = 'array') AS given
), picked AS MATERIALIZED (
    SELECT pick.place, pick.task, shares.queue
    FROM preamble CROSS JOIN shares
    CROSS JOIN LATERAL (
        SELECT pending.ctid AS place, pending.task FROM headrace_jobs AS pending
        WHERE pending.state = 'pending' AND pending.queue = shares.queue AND pending.lane = ''
          AND coalesce(pending.expires_at, :until) > :now
        ORDER BY pending.priority DESC, pending.rank, pending.seq
        LIMIT shares.quota
        FOR UPDATE SKIP LOCKED) AS pick
    WHERE shares.plain AND preamble.status IS NULL AND preamble.limited IS NOT true
      AND (preamble.due <= :unless_due) IS NOT true AND (preamble.next_expiry <= :unless_expired) IS NOT true
    LIMIT :limit
), unknown_tasks AS MATERIALIZED (
    SELECT json_agg(json_build_array(queue, task))::text AS pairs
    FROM (SELECT DISTINCT queue, task FROM picked OFFSET 0) AS met
    WHERE strpos(:known_tasks::text, chr(10) || task || chr(10)) = 0
), claimed AS (
    UPDATE headrace_jobs AS job SET state = 'running', {next_version :now}, attempt = job.attempt + 1,
                                    worker = :worker, started_at = :now, lease_until = :until, progress = NULL
    WHERE job.ctid = ANY (ARRAY(SELECT picked.place FROM picked CROSS JOIN unknown_tasks WHERE unknown_tasks.pairs IS NULL))
    RETURNING job.id, job.seq, job.task, job.queue, job.priority, job.version, job.attempt, job.max_attempts,
              job.payload, job.checksum, job.created_at, job.run_at, job.crashes, job.releases, job.options,
              job.metadata, job.rank
)
SELECT json_build_array(status IS NULL, preamble.queue_rows, tasks)::text, due, next_expiry, unknown_tasks.pairs,
       NULL AS id, NULL AS seq, NULL AS task, NULL AS queue, NULL AS priority, NULL AS version, NULL AS attempt,
       NULL AS max_attempts, NULL AS payload, NULL AS checksum, NULL AS created_at, NULL AS run_at, NULL AS crashes,
       NULL AS releases, NULL AS options, NULL AS metadata, NULL AS rank
FROM preamble CROSS JOIN unknown_tasks
UNION ALL
SELECT NULL, NULL, NULL, NULL, claimed.* FROM claimed;
