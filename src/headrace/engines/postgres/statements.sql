-- One named statement for each thing the engine does. A batch is one JSON parameter (see engines/shared/sql_files.py): arrays of
-- the driver cost its side fifteen times as much for each job. Statements that others' writes could overtake lock
-- the rows first (`lock_…`, FOR UPDATE): from then on nobody else moves these jobs.
--
-- A prepared statement keeps its plan, which may be from before the first job, so none may depend on how large the
-- planner takes a table or a batch to be. Where a batch is joined it has to come first, and its jobs be looked up one
-- by one. In LATERAL, `OFFSET 0` sees to that; elsewhere `= ANY (ARRAY[…])`, a condition that no hash, no merge and no
-- order of a whole index can serve, and `jsonb_typeof`, which is always true and makes the planner expect one element
-- where it would expect a hundred. Jobs by number are found by `= ANY (ARRAY(…))`, which is not a join at all. On our
-- own connections Address rules out what is left to choose.

-- name: clock
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- name: ring
SELECT count(pg_notify(:channel, message)) FROM jsonb_array_elements_text(:messages::jsonb) AS message;

-- name: insert (each j: NewJob)
WITH fresh AS (
    INSERT INTO headrace_jobs (id, task, queue, state, priority, rank, payload, checksum, created_at, run_at,
                               max_attempts, expires_at, options, tags, metadata, version, unique_key,
                               lane, flow, kin)
    SELECT j.id, j.task, j.queue, j.state, j.priority, j.rank, j.payload, j.checksum, j.created_at, j.run_at,
           j.max_attempts, j.expires_at, j.options, j.tags, j.metadata, j.version, j.unique_key,
           j.lane, j.flow, j.kin
    FROM jsonb_array_elements(:j::jsonb) WITH ORDINALITY AS j(value, key)
    WHERE NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'door')
    ORDER BY j.key
    ON CONFLICT (id) DO NOTHING
    RETURNING seq, id, queue, tags
), tagged AS (
    INSERT INTO headrace_tags (tag, job)
    SELECT DISTINCT tag, seq FROM fresh, jsonb_array_elements_text(fresh.tags::jsonb) AS tag
), rung AS (
    SELECT pg_notify(:channel, CASE WHEN length(queue) < 1000 THEN 'work:' || queue ELSE 'work' END)
    FROM (SELECT DISTINCT queue FROM fresh) AS queues
), told AS (
    INSERT INTO headrace_events (at, size, page, true_of)
    SELECT :at, :size, :page::text, CASE WHEN count(*) < :expected THEN json_agg(id)::text END
    FROM fresh HAVING count(*) > 0 AND :page::text IS NOT NULL
)
SELECT CASE WHEN count(*) <> :expected THEN (SELECT coalesce(json_agg(id), '[]')::text FROM fresh) END,
       (SELECT count(*) FROM rung)
FROM fresh;

-- A single job without tags, as most are. Nobody is busy then, and a server that has just been woken feels every step:
-- this has half as many. Numbers come as text, lest each size of them had a prepared statement of its own.
-- name: insert_one
WITH fresh AS (
    INSERT INTO headrace_jobs (id, task, queue, state, priority, rank, payload, checksum, created_at, run_at,
                               max_attempts, expires_at, options, metadata, version, unique_key, lane, flow, kin)
    SELECT :id, :task, :queue, :state, :priority::integer, :rank::bigint, :payload, :checksum::bigint,
           :created_at::bigint, :run_at::bigint, :max_attempts::bigint, :expires_at::bigint, :options, :metadata,
           :version::bigint, :unique_key, :lane, :flow, :kin::smallint
    WHERE NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'door')
    ON CONFLICT (id) DO NOTHING
    RETURNING queue
), told AS (
    INSERT INTO headrace_events (at, size, page)
    SELECT :created_at::bigint, 1, :page::text FROM fresh WHERE :page::text IS NOT NULL
)
SELECT pg_notify(:channel, CASE WHEN length(queue) < 1000 THEN 'work:' || queue ELSE 'work' END) FROM fresh;

-- name: mine (each j: NewJob)
SELECT coalesce(json_agg(job.id), '[]')::text
FROM jsonb_array_elements(:j::jsonb) AS j(value)
JOIN headrace_jobs AS job ON job.id = ANY (ARRAY[j.id]) AND job.created_at = j.created_at AND job.checksum = j.checksum
                         AND job.task = j.task
WHERE jsonb_typeof(j.value) = 'array';

-- name: taken
SELECT coalesce(json_agg(id), '[]')::text
FROM (SELECT DISTINCT jsonb_array_elements_text(:ids::jsonb) AS name) AS given
CROSS JOIN LATERAL (SELECT id FROM headrace_jobs WHERE id = given.name OFFSET 0) AS job;

-- name: add_queues
INSERT INTO headrace_queues (name, created_at) SELECT jsonb_array_elements_text(:names::jsonb), :now
ON CONFLICT DO NOTHING;

-- Settling. By id and version alone; no other predicate decides. Jobs that have kin are left for a second look.

-- What held a place in a lane, or in a queue or a task with rules, may let somebody else's job begin.
-- name: complete (each o: Completion)
WITH done AS (
    UPDATE headrace_jobs AS job SET state = 'completed', version = job.version + 1, result = o.result,
                                    result_checksum = o.result_checksum, finished_at = o.finished_at,
                                    reason = NULL, lease_until = NULL
    FROM jsonb_array_elements(:o::jsonb) AS o(value)
    WHERE job.id = ANY (ARRAY[o.id]) AND job.version = o.version AND (job.kin = 0 OR :kin > 0) AND jsonb_typeof(o.value) = 'array'
    RETURNING job.id, job.version - 1 AS version, CASE WHEN job.kin <> 0 THEN job.seq END AS kin,
              job.lane > '' OR EXISTS (SELECT FROM headrace_tasks)
                  OR job.queue = ANY (ARRAY(SELECT name FROM headrace_queues
                                            WHERE strpos(rules, '"concurrency":') > 0)) AS frees
), called AS (
    SELECT pg_notify(:channel, 'done') FROM (SELECT FROM done LIMIT 1) AS any_done
    UNION ALL
    SELECT pg_notify(:channel, 'work') FROM (SELECT FROM done WHERE frees LIMIT 1) AS any_free
), told AS (
    INSERT INTO headrace_events (at, size, page, true_of)
    SELECT :at, :size, :page::text, CASE WHEN count(*) < :completions THEN coalesce(json_agg(id), '[]')::text END
    FROM done HAVING :page::text IS NOT NULL
)
SELECT json_build_array(
           CASE WHEN count(*) <> :expected THEN
               (SELECT coalesce(json_agg(json_build_array(id, version)), '[]') FROM done) END,
           CASE WHEN count(kin) > 0 THEN (SELECT json_agg(kin) FROM done WHERE kin > 0) END,
           coalesce(bool_or(frees), false))::text,
       (SELECT count(*) FROM called)
FROM done;

-- name: settle (each o: Outcome)
WITH o AS MATERIALIZED (
    SELECT job, o.value
    FROM jsonb_array_elements(:o::jsonb) WITH ORDINALITY AS o(value, key)
    JOIN headrace_jobs AS job ON job.id = ANY (ARRAY[o.id]) AND job.version = o.version
    WHERE (job.kin = 0 OR :kin > 0) AND jsonb_typeof(o.value) = 'array'
    ORDER BY o.key
    FOR UPDATE OF job
), filed AS (
    INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, detail,
                                  error_type, error_message, error_traceback)
    SELECT (o.job).seq, o.at, o.event, (o.job).state, o.state, (o.job).version + 1, (o.job).attempt, (o.job).worker,
           (o.job).started_at, o.reason, o.error_type, o.error_message, o.error_traceback
    FROM o WHERE NOT o.quiet
    RETURNING job
), buried AS (
    INSERT INTO headrace_dead (id, job_id, task, queue, reason, entered_at, snapshot, fingerprint, requeues)
    SELECT lpad(to_hex(o.at), 12, '0') || substr(replace(gen_random_uuid()::text, '-', ''), 1, 20),
           (o.job).id, (o.job).task, (o.job).queue, coalesce(o.reason, 'failed'), o.at,
           json_build_object('state', (o.job).state, 'payload', (o.job).payload, 'checksum', (o.job).checksum,
                             'options', (o.job).options, 'tags', (o.job).tags, 'metadata', (o.job).metadata,
                             'priority', (o.job).priority, 'attempt', (o.job).attempt,
                             'max_attempts', coalesce(o.max_attempts, (o.job).max_attempts),
                             'created_at', (o.job).created_at, 'started_at', (o.job).started_at,
                             'worker', (o.job).worker, 'error_type', o.error_type,
                             'error_message', o.error_message, 'error_traceback', o.error_traceback,
                             'lifo', ((o.job).rank < 0)::integer, 'lane', (o.job).lane,
                             'unique_key', (o.job).unique_key,
                             'flow', (o.job).flow, 'parents', (
                                 SELECT coalesce(json_agg(parent.id), '[]') FROM headrace_bonds AS bond
                                 CROSS JOIN LATERAL (
                                     SELECT id FROM headrace_jobs WHERE seq = bond.parent OFFSET 0) AS parent
                                 WHERE bond.child = (o.job).seq),
                             'history', (
                                 SELECT coalesce(json_agg(json_build_array({HistoryRow}) ORDER BY seq DESC), '[]') FROM (
                                     SELECT *, row_number() OVER (ORDER BY filed.seq + 0 DESC) AS place,
                                            min(filed.seq) FILTER (WHERE filed.error_type IS NOT NULL) OVER () AS first_failure
                                     FROM headrace_history AS filed
                                     WHERE filed.job = (o.job).seq AND filed.version <= (o.job).version) AS kept
                                 WHERE place <= 10 OR seq = first_failure),
                             'version', (o.job).version, 'progress', (o.job).progress, 'steps', (
                                 SELECT coalesce(json_agg(name ORDER BY seq), '[]') FROM (
                                     SELECT name, seq FROM headrace_steps AS step
                                     WHERE step.job = (o.job).seq AND step.kind = 'step'
                                     ORDER BY step.seq + 0 LIMIT 100) AS remembered),
                             'logs', (
                                 SELECT coalesce(json_agg(json_build_array({LogLine})), '[]') FROM (
                                     SELECT * FROM headrace_logs AS line WHERE line.job = (o.job).seq
                                     ORDER BY line.seq + 0 DESC LIMIT 10) AS newest))::text,
           coalesce(o.fingerprint, ''),
           coalesce((SELECT before.requeues FROM headrace_dead AS before WHERE before.job_id = (o.job).id
                     ORDER BY before.id DESC LIMIT 1), 0)
    FROM o WHERE o.event = 'fail' AND o.letter AND (SELECT count(*) FROM filed) >= 0 -- told after what was filed
    ON CONFLICT (job_id) WHERE status = 'pending' DO UPDATE
    SET id = excluded.id, task = excluded.task, queue = excluded.queue, reason = excluded.reason,
        entered_at = excluded.entered_at, snapshot = excluded.snapshot, fingerprint = excluded.fingerprint
), done AS (
    UPDATE headrace_jobs AS job SET
        state = o.state,
        version = job.version + 1,
        attempt = job.attempt - o.refund,
        releases = job.releases + o.refund,
        crashes = CASE WHEN o.event IN ('retry', 'snooze') THEN 0 ELSE job.crashes END,
        run_at = coalesce(o.run_at, job.run_at),
        rank = CASE WHEN o.run_at IS NULL THEN job.rank WHEN job.rank < 0 THEN -o.run_at ELSE o.run_at END,
        max_attempts = coalesce(o.max_attempts, job.max_attempts),
        result = o.result,
        result_checksum = o.result_checksum,
        reason = CASE WHEN o.state = 'waiting' THEN NULL ELSE o.reason END,
        finished_at = o.finished_at,
        expires_at = CASE WHEN o.state = 'waiting' THEN NULL ELSE job.expires_at END,
        worker = CASE WHEN o.finished_at IS NULL THEN NULL ELSE job.worker END,
        lease_until = NULL
    FROM o WHERE job.seq = ANY (ARRAY[(o.job).seq])
    RETURNING job.id, (o.job).version
)
SELECT coalesce(json_agg(json_build_array(id, version)), '[]')::text FROM done;

-- name: file_stale (each o: Outcome)
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, detail,
                              error_type, error_message, error_traceback)
SELECT job.seq, :now, 'lease lost', job.state, job.state, o.version, job.attempt, :worker,
       'late ' || o.event || ' refused: it held version ' || o.version || ', the job is at ' || job.version,
       o.error_type, o.error_message, o.error_traceback
FROM jsonb_array_elements(:o::jsonb) WITH ORDINALITY AS o(value, key)
JOIN headrace_jobs AS job ON job.id = ANY (ARRAY[o.id])
WHERE jsonb_typeof(o.value) = 'array'
ORDER BY o.key
RETURNING pg_notify(:channel, 'events');

-- name: note_progress (each n: JobNote)
UPDATE headrace_jobs AS job SET progress = n.progress
FROM jsonb_array_elements(:n::jsonb) AS n(value)
WHERE job.id = ANY (ARRAY[n.id]) AND job.version = n.version AND jsonb_typeof(n.value) = 'array';

-- name: note_logs (each n: JobNote)
INSERT INTO headrace_logs (job, at, attempt, level, message, fields)
SELECT job.seq, n.at, job.attempt, n.level, n.message, n.fields
FROM jsonb_array_elements(:n::jsonb) WITH ORDINALITY AS n(value, key)
JOIN headrace_jobs AS job ON job.id = ANY (ARRAY[n.id]) AND job.version = n.version
WHERE jsonb_typeof(n.value) = 'array'
ORDER BY n.key;

-- Claiming.

-- A notice may have been put up since the claim that saw them: whoever waits for these jobs may not have arrived yet.
-- name: lock_lapsed
SELECT coalesce(json_agg(seq), '[]')::text FROM (
    SELECT seq FROM headrace_jobs
    WHERE expires_at <= :now AND expires_at IS NOT NULL AND state IN ('scheduled', 'waiting', 'pending', 'retrying')
      AND NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'notice')
    LIMIT :limit FOR UPDATE SKIP LOCKED) AS lapsed;

-- name: promote
WITH due AS (
    UPDATE headrace_jobs SET state = 'pending', version = version + 1
    WHERE seq = ANY (ARRAY(SELECT seq FROM headrace_jobs WHERE state IN ('scheduled', 'retrying') AND run_at <= :now
                             AND coalesce(expires_at, :now + 1) > :now
                           ORDER BY run_at LIMIT :limit FOR UPDATE SKIP LOCKED))
    RETURNING id, queue, task
), told AS (
    INSERT INTO headrace_events (at, size, page)
    SELECT :now, sum(jobs), json_agg(json_build_array('job.promoted', :now::bigint, queue, task, NULL, ids))::text
    FROM (SELECT queue, task, count(*) AS jobs, json_agg(id) AS ids FROM due GROUP BY queue, task) AS promoted
    HAVING count(*) > 0
    RETURNING pg_notify(:channel, 'events')
)
SELECT 1 FROM due;

-- Nothing is claimed while something is due: that comes first, and may be more urgent. Jobs are updated by place, not
-- by a join: a planner that expects many rows would read the whole table for it. The horizon is not told by min(), for
-- which a plan from before the first job would look at every entry. An idle server that is woken for one job feels
-- every step: so the queues are gone through once, for what is told of them and for which of them ask no care. Whether
-- something waits is looked up from the end, where no claim has left dead entries. What an idle queue can't use of its
-- share, the first that can has at once: to ask again would cost as much as the claim.
-- Rules are told as they are stored, and looked at as text: one that is damaged must not stop the claims of all.
-- If a job is among them whose task is not `familiar` to the worker, none is claimed, and such tasks are told. The names
-- are one text, which costs nothing to take apart.
-- name: claim
WITH horizon AS MATERIALIZED (
    SELECT (SELECT run_at FROM headrace_jobs WHERE state IN ('scheduled', 'retrying') ORDER BY run_at LIMIT 1) AS due,
           (SELECT expires_at FROM headrace_jobs
            WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'waiting', 'pending', 'retrying')
            ORDER BY expires_at LIMIT 1) AS lapses,
           (SELECT 1 FROM headrace_store WHERE name = 'notice') AS notice,
           ruled.tasks, ruled.limited, known.told, known.plain, known.idle
    FROM (SELECT json_agg(json_build_array(name, rules)) AS tasks,
                 bool_or(rules ~ '"(paused|rate|concurrency)":') AS limited
          FROM headrace_tasks) AS ruled
    CROSS JOIN (
          SELECT json_agg(json_build_array(name, paused, laned, idle, rules)) AS told,
                 array_agg(name) FILTER (
                     WHERE NOT paused AND NOT laned
                       AND (rules IS NULL OR rules !~ '"(strategy|ageing|rate|concurrency|key_rate|key_concurrency)":')) AS plain,
                 array_agg(name) FILTER (WHERE idle) AS idle
          FROM (SELECT name, paused, rules,
                       EXISTS (SELECT 1 FROM headrace_jobs AS laned
                               WHERE laned.state = 'pending' AND laned.queue = queue.name AND laned.lane > '') AS laned,
                       (SELECT 1 FROM headrace_jobs AS waiting
                        WHERE waiting.state = 'pending' AND waiting.queue = queue.name
                        ORDER BY waiting.lane DESC, waiting.priority, waiting.rank DESC LIMIT 1) IS NULL AS idle
                FROM headrace_queues AS queue OFFSET 0) AS queues) AS known
), shares AS MATERIALIZED (
    SELECT queue, plain, CASE WHEN place = min(place) FILTER (WHERE plain AND idle IS NOT true) OVER ()
                              THEN quota + coalesce(sum(quota) FILTER (WHERE idle) OVER (), 0)::bigint
                              ELSE quota END AS quota
    FROM (SELECT share ->> 0 AS queue, (share ->> 1)::bigint AS quota, place,
                 share ->> 0 = ANY (horizon.plain) AS plain, share ->> 0 = ANY (horizon.idle) AS idle
          FROM horizon CROSS JOIN jsonb_array_elements(:shares::jsonb) WITH ORDINALITY AS share(share, place)
          WHERE jsonb_typeof(share) = 'array') AS given
), picked AS MATERIALIZED (
    SELECT pick.place, pick.task, shares.queue
    FROM horizon CROSS JOIN shares
    CROSS JOIN LATERAL (
        SELECT waiting.ctid AS place, waiting.task FROM headrace_jobs AS waiting
        WHERE waiting.state = 'pending' AND waiting.queue = shares.queue AND waiting.lane = ''
          AND coalesce(waiting.expires_at, :until) > :now
        ORDER BY waiting.priority DESC, waiting.rank, waiting.seq
        LIMIT shares.quota
        FOR UPDATE SKIP LOCKED) AS pick
    WHERE shares.plain AND horizon.notice IS NULL AND horizon.limited IS NOT true
      AND (horizon.due <= :unless_due) IS NOT true AND (horizon.lapses <= :unless_lapsed) IS NOT true
), strange AS MATERIALIZED (
    SELECT json_agg(json_build_array(queue, task))::text AS told
    FROM (SELECT DISTINCT queue, task FROM picked OFFSET 0) AS met
    WHERE strpos(:familiar::text, chr(10) || task || chr(10)) = 0
), claimed AS (
    UPDATE headrace_jobs AS job SET state = 'running', version = job.version + 1, attempt = job.attempt + 1,
                                    worker = :worker, started_at = :now, lease_until = :until, progress = NULL
    WHERE job.ctid = ANY (ARRAY(SELECT picked.place FROM picked CROSS JOIN strange WHERE strange.told IS NULL))
    RETURNING job.id, job.seq, job.task, job.queue, job.priority, job.version, job.attempt, job.max_attempts,
              job.payload, job.checksum, job.created_at, job.run_at, job.crashes, job.releases, job.options,
              job.metadata, job.rank
)
SELECT CASE WHEN row_number() OVER () = 1 THEN json_build_array(notice IS NULL, horizon.told, tasks)::text END, due, lapses,
       strange.told, claimed.*
FROM horizon CROSS JOIN strange LEFT JOIN claimed ON true;

-- Leases. `coalesce` keeps the planner from the thought that few jobs have one, and that it might begin with those.

-- It waits for nobody. A job that is locked is most likely just being settled; if not, it is renewed with the next beat.
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

-- Every worker asks this every second, and hardly ever has anybody died: in two parts, it reads no more of what runs
-- than is overdue, and the rest only for the sake of the dead.
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

-- name: lock_disowned (each lease: Lease)
SELECT coalesce(json_agg(seq), '[]')::text FROM (
    SELECT job.seq FROM headrace_jobs AS job
    WHERE job.state = 'running' AND job.worker = :worker
      AND (job.id, job.version) NOT IN (SELECT lease.id, lease.version
                                        FROM jsonb_array_elements(:lease::jsonb) AS lease(value))
    FOR UPDATE OF job) AS disowned;

-- name: file_lost
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, detail,
                              error_type, error_message, error_traceback)
SELECT seq, :now, 'expire', state, :target, version + 1, attempt, worker, started_at, :detail,
       'WorkerLost', 'worker ' || worker || ' died or let its lease run out', ''
FROM headrace_jobs WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- name: expire
UPDATE headrace_jobs SET state = :target, version = version + 1, crashes = crashes + 1, lease_until = NULL,
                         worker = CASE WHEN :target = 'failed' THEN worker END,
                         finished_at = CASE WHEN :target = 'failed' THEN :now::bigint END,
                         reason = :reason
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- name: release
UPDATE headrace_jobs SET state = 'pending', version = version + 1, attempt = attempt - 1, releases = releases + 1,
                         lease_until = NULL, worker = NULL, started_at = NULL
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- name: reaped
SELECT coalesce(json_agg(json_build_array(id, queue, state, :worker::text)), '[]')::text FROM headrace_jobs
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- Moves by hand and by time. `file_moves` runs first, while the row still tells where the job came from.

-- name: file_moves
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, finished_at,
                              detail)
SELECT seq, :now, :event, state, :target, version + 1, attempt, worker, started_at, finished_at, :detail
FROM headrace_jobs WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- name: move_cancel
UPDATE headrace_jobs SET state = 'cancelled', version = version + 1, finished_at = :now, lease_until = NULL,
                         reason = :reason
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- name: move_revive
UPDATE headrace_jobs SET state = :state, version = version + 1, attempt = 0, crashes = 0, finished_at = NULL,
                         started_at = NULL, worker = NULL, result = NULL, result_checksum = NULL, progress = NULL,
                         reason = NULL, expires_at = NULL, run_at = :now,
                         rank = CASE WHEN rank < 0 THEN -:now::bigint ELSE :now::bigint END
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- name: move_hurry
UPDATE headrace_jobs SET state = 'pending', version = version + 1, run_at = :now, reason = nullif(reason, 'held'),
                         rank = CASE WHEN rank < 0 THEN -:now::bigint ELSE :now::bigint END
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- What belongs to a job is found job by job (OFFSET 0 keeps it so) and deleted by place: in one join, a planner that
-- does not know how few lines a job has reads all there are.
-- name: move_delete
WITH gone AS (
    DELETE FROM headrace_jobs WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint)) RETURNING seq
), tags AS (
    DELETE FROM headrace_tags WHERE ctid = ANY (ARRAY(
        SELECT of_one.place FROM gone CROSS JOIN LATERAL (
            SELECT t.ctid AS place FROM headrace_tags AS t WHERE t.job = gone.seq OFFSET 0) AS of_one))
), history AS (
    DELETE FROM headrace_history WHERE ctid = ANY (ARRAY(
        SELECT of_one.place FROM gone CROSS JOIN LATERAL (
            SELECT h.ctid AS place FROM headrace_history AS h WHERE h.job = gone.seq OFFSET 0) AS of_one))
), bonds AS (
    DELETE FROM headrace_bonds WHERE ctid = ANY (ARRAY(
        SELECT of_one.place FROM gone CROSS JOIN LATERAL (
            SELECT b.ctid AS place FROM headrace_bonds AS b WHERE b.child = gone.seq OFFSET 0) AS of_one
        UNION
        SELECT of_one.place FROM gone CROSS JOIN LATERAL (
            SELECT b.ctid AS place FROM headrace_bonds AS b WHERE b.parent = gone.seq OFFSET 0) AS of_one))
)
DELETE FROM headrace_logs WHERE ctid = ANY (ARRAY(
    SELECT of_one.place FROM gone CROSS JOIN LATERAL (
        SELECT l.ctid AS place FROM headrace_logs AS l WHERE l.job = gone.seq OFFSET 0) AS of_one));

-- name: ids_of
SELECT coalesce(json_agg(id ORDER BY seq), '[]')::text FROM headrace_jobs
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- name: state_of
SELECT state FROM headrace_jobs WHERE seq = :seq;

-- name: amend
UPDATE headrace_jobs SET
    version = version + 1,
    priority = coalesce(:priority, priority),
    queue = coalesce(:queue, queue),
    run_at = coalesce(:run_at, run_at),
    rank = CASE WHEN :run_at::bigint IS NULL THEN rank WHEN rank < 0 THEN -:run_at::bigint ELSE :run_at::bigint END,
    state = :state
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));

-- Reading. The `where_` ones are the parts that `{where}` is made of.

-- name: where_queue
job.queue = :queue

-- name: where_task
job.task = :task

-- name: where_worker
job.worker = :worker

-- name: where_since
job.created_at >= :since

-- name: where_until
job.created_at < :until

-- name: where_flow
job.flow = :flow

-- name: where_startable
job.finished_at IS NULL

-- name: where_ids
job.id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))

-- name: where_tag
job.seq IN (SELECT tags.job FROM headrace_tags AS tags WHERE tags.tag = :tag)

-- A sealed call says nothing: what looks like the text there would be chance.
-- name: where_text
(strpos(job.id, :text) > 0 OR strpos(job.task, :text) > 0
 OR (strpos(job.payload, :text) > 0 AND left(job.payload, 10) <> '{"$sealed"')
 OR strpos(coalesce(job.reason, ''), :text) > 0 OR strpos(coalesce(job.metadata, ''), :text) > 0)

-- name: lock_matching
SELECT coalesce(json_agg(seq), '[]')::text FROM (
    SELECT job.seq FROM headrace_jobs AS job WHERE {where} ORDER BY job.seq LIMIT :limit FOR UPDATE) AS matching;

-- name: get
SELECT coalesce(json_agg(json_build_array({JobRow:most})), '[]')::text
FROM (SELECT DISTINCT jsonb_array_elements_text(:ids::jsonb) AS name) AS given
CROSS JOIN LATERAL (SELECT * FROM headrace_jobs WHERE id = given.name OFFSET 0) AS job;

-- name: endings
SELECT coalesce(json_agg(json_build_array({ParentResult})), '[]')::text FROM headrace_jobs
WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)));

-- name: unfinished
SELECT coalesce(json_agg(id), '[]')::text
FROM (SELECT DISTINCT jsonb_array_elements_text(:ids::jsonb) AS name) AS given
CROSS JOIN LATERAL (
    SELECT id FROM headrace_jobs
    WHERE id = given.name AND state NOT IN ('completed', 'failed', 'cancelled') OFFSET 0) AS job;

-- name: depths
SELECT coalesce(json_agg(json_build_array(queue, state, jobs, oldest)), '[]')::text FROM (
    SELECT queue, 'pending' AS state, count(*) AS jobs, min(abs(rank)) AS oldest
    FROM headrace_jobs WHERE state = 'pending' GROUP BY queue
    UNION ALL
    SELECT queue, state, count(*), min(run_at)
    FROM headrace_jobs WHERE state IN ('scheduled', 'retrying') GROUP BY queue, state
    UNION ALL
    SELECT queue, 'waiting', count(*), NULL FROM headrace_jobs WHERE state = 'waiting' GROUP BY queue
    UNION ALL
    SELECT queue, 'running', count(*), min(started_at) FROM headrace_jobs WHERE state = 'running' GROUP BY queue
    UNION ALL
    SELECT queue, state, count(*), min(finished_at)
    FROM headrace_jobs WHERE :finished AND finished_at IS NOT NULL AND state <> 'waiting' GROUP BY queue, state) AS depths;

-- name: history
SELECT coalesce(json_agg(json_build_array({HistoryRow})), '[]')::text FROM (
    SELECT * FROM headrace_history WHERE job = (SELECT seq FROM headrace_jobs WHERE id = :id) ORDER BY seq) AS filed;

-- name: logs
SELECT coalesce(json_agg(json_build_array({LogLine}) ORDER BY seq), '[]')::text FROM (
    SELECT logged.* FROM headrace_jobs AS known CROSS JOIN LATERAL (
        SELECT * FROM headrace_logs AS l WHERE l.job BETWEEN known.seq AND known.seq
        ORDER BY l.job DESC, l.seq DESC LIMIT :limit) AS logged
    WHERE known.id = :id) AS newest;

-- name: queues
SELECT coalesce(json_agg(json_build_array(name, paused, created_at, rules) ORDER BY name), '[]')::text FROM headrace_queues;

-- name: pause_queue
INSERT INTO headrace_queues (name, paused, created_at) VALUES (:name, :paused, :now)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused;

-- Who has no heartbeat only shows up, and reports nothing else: what is known of it stays.
-- name: attend (each w: WorkerRow)
INSERT INTO headrace_workers (id, host, pid, started_at, seen_at, state, wish, queues, concurrency, running,
                              completed, failed, tasks, heartbeat, capabilities)
SELECT w.id, w.host, w.pid, w.started_at, w.seen_at, w.state, w.wish, w.queues, w.concurrency, w.running,
       w.completed, w.failed, w.tasks, w.heartbeat, w.capabilities
FROM jsonb_array_elements(:w::jsonb) AS w(value)
ON CONFLICT (id) DO UPDATE SET
    seen_at = excluded.seen_at, state = excluded.state, running = excluded.running,
    host = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.host ELSE excluded.host END,
    pid = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.pid ELSE excluded.pid END,
    queues = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.queues ELSE excluded.queues END,
    concurrency = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.concurrency ELSE excluded.concurrency END,
    completed = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.completed ELSE excluded.completed END,
    failed = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.failed ELSE excluded.failed END,
    tasks = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.tasks ELSE excluded.tasks END,
    heartbeat = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.heartbeat ELSE excluded.heartbeat END,
    capabilities = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.capabilities ELSE excluded.capabilities END
RETURNING wish;

-- name: next_expiry
SELECT (SELECT lease_until FROM headrace_jobs WHERE state = 'running' ORDER BY lease_until LIMIT 1);

-- name: wish
UPDATE headrace_workers SET wish = :wish WHERE id = :id;

-- name: sign_off
DELETE FROM headrace_workers WHERE id IN (SELECT jsonb_array_elements_text(:ids::jsonb));

-- name: workers
SELECT coalesce(json_agg(json_build_array({WorkerRow}) ORDER BY started_at, id), '[]')::text FROM (
    -- What runs is told by the leases, not by the worker's last report; what it only fetched ahead does not count.
    SELECT id, host, pid, started_at, seen_at, state, wish, queues, concurrency, completed, failed, tasks, heartbeat,
           capabilities,
           least(concurrency, coalesce(held.jobs, 0)) AS running
    FROM headrace_workers AS known
    LEFT JOIN (SELECT worker, count(*) AS jobs FROM headrace_jobs WHERE state = 'running' GROUP BY worker) AS held
           ON held.worker = known.id) AS worker;

-- Carrying the contents over.

-- name: identity
SELECT value FROM headrace_store WHERE name = 'identity';

-- name: notice
SELECT (SELECT value FROM headrace_store WHERE name = 'notice');

-- name: put_notice
INSERT INTO headrace_store (name, value) VALUES ('notice', :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: drop_notice
DELETE FROM headrace_store WHERE name = 'notice';

-- name: first_notice
INSERT INTO headrace_store (name, value) VALUES ('notice', :value) ON CONFLICT DO NOTHING;

-- name: change_notice
UPDATE headrace_store SET value = :value WHERE name = 'notice' AND value = :told;

-- name: drop_this_notice
DELETE FROM headrace_store WHERE name = 'notice' AND value = :told;

-- name: hold_notice
SELECT (SELECT value FROM headrace_store WHERE name = 'notice' FOR SHARE);

-- The lock waits for every transaction that has begun to insert; who comes later sees the closed door.
-- name: close_door
LOCK TABLE headrace_jobs IN SHARE MODE;
INSERT INTO headrace_store (name, value) VALUES ('door', 'closed') ON CONFLICT DO NOTHING;

-- Whoever closes the door waits from now on until this transaction has ended; if it is closed already, the statements
-- that follow see it. By itself, only a write to the table is waited for, and what was read before it may be past.
-- name: hold_door
LOCK TABLE headrace_jobs IN ROW EXCLUSIVE MODE;

-- name: open_door
DELETE FROM headrace_store WHERE name = 'door';

-- name: pack_jobs
SELECT coalesce(json_agg(json_build_array({JobRow})), '[]')::text FROM (
    SELECT * FROM headrace_jobs WHERE seq > :after ORDER BY seq LIMIT :limit) AS packed;

-- name: pack_history
SELECT coalesce(json_agg(json_build_array(job, json_build_array({HistoryRow})) ORDER BY seq), '[]')::text
FROM jsonb_array_elements(:seqs::jsonb) AS packed CROSS JOIN LATERAL (
    SELECT * FROM headrace_history WHERE job = packed::bigint OFFSET 0) AS filed;

-- name: pack_logs
SELECT coalesce(json_agg(json_build_array(job, json_build_array({LogLine})) ORDER BY seq), '[]')::text
FROM jsonb_array_elements(:seqs::jsonb) AS packed CROSS JOIN LATERAL (
    SELECT * FROM headrace_logs WHERE job = packed::bigint OFFSET 0) AS logged;

-- name: unpack_jobs (each r: JobRow)
INSERT INTO headrace_jobs (id, task, queue, state, priority, rank, version, attempt, max_attempts, crashes, releases,
                           payload, checksum, created_at, run_at, expires_at, started_at, finished_at, worker,
                           lease_until, result, result_checksum, progress, reason, options, tags, metadata,
                           unique_key, lane, flow, kin)
SELECT r.id, r.task, r.queue, r.state, r.priority, r.rank, r.version, r.attempt, r.max_attempts,
       r.crashes, r.releases, r.payload, r.checksum, r.created_at, r.run_at, r.expires_at,
       r.started_at, r.finished_at, r.worker, r.lease_until, r.result, r.result_checksum, r.progress,
       r.reason, r.options, r.tags, r.metadata, r.unique_key, r.lane, r.flow, r.kin
FROM jsonb_array_elements(:r::jsonb) WITH ORDINALITY AS r(value, key)
ORDER BY r.key;

-- name: unpack_tags (each r: JobRow)
INSERT INTO headrace_tags (tag, job)
SELECT tag, job.seq
FROM jsonb_array_elements(:r::jsonb) AS r(value)
JOIN headrace_jobs AS job ON job.id = ANY (ARRAY[r.id])
CROSS JOIN jsonb_array_elements_text(job.tags::jsonb) AS tag
WHERE jsonb_typeof(r.value) = 'array'
ON CONFLICT DO NOTHING;

-- name: unpack_history (each r: CarriedFiling)
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, finished_at,
                              detail, error_type, error_message, error_traceback)
SELECT job.seq, r.at, r.event, r.source, r.target, r.version, r.attempt, r.worker, r.started_at,
       r.finished_at, r.detail, r.error_type, r.error_message, r.error_traceback
FROM jsonb_array_elements(:r::jsonb) WITH ORDINALITY AS r(value, key)
JOIN headrace_jobs AS job ON job.id = ANY (ARRAY[r.job_id])
WHERE jsonb_typeof(r.value) = 'array'
ORDER BY r.key;

-- name: unpack_logs (each r: CarriedLine)
INSERT INTO headrace_logs (job, at, attempt, level, message, fields)
SELECT job.seq, r.at, r.attempt, r.level, r.message, r.fields
FROM jsonb_array_elements(:r::jsonb) WITH ORDINALITY AS r(value, key)
JOIN headrace_jobs AS job ON job.id = ANY (ARRAY[r.job_id])
WHERE jsonb_typeof(r.value) = 'array'
ORDER BY r.key;

-- name: unpack_queues (each r: QueueRow)
INSERT INTO headrace_queues (name, paused, created_at, rules)
SELECT r.name, r.paused, r.created_at, r.rules FROM jsonb_array_elements(:r::jsonb) AS r(value)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, created_at = excluded.created_at, rules = excluded.rules;
