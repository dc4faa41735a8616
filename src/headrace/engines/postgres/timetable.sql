-- Schedules.

-- name: schedules
SELECT coalesce(json_agg(json_build_array(id, version, due_at, body) ORDER BY id), '[]')::text FROM headrace_schedules;

-- name: count_schedules
SELECT count(*) FROM headrace_schedules;

-- name: schedule
SELECT coalesce(json_agg(json_build_array(id, version, due_at, body)), '[]')::text FROM headrace_schedules WHERE id = :id;

-- name: add_schedule
INSERT INTO headrace_schedules (id, version, due_at, body) VALUES (:id, :version, :due_at, :body)
ON CONFLICT DO NOTHING;

-- name: put_schedule
UPDATE headrace_schedules SET version = version + 1, due_at = :due_at, body = :body
WHERE id = :id AND version = :version;

-- In one order for everybody, so that nobody waits for somebody who waits for him.
-- name: lock_schedules
SELECT coalesce(json_agg(id), '[]')::text FROM (
    SELECT known.id FROM jsonb_array_elements(:s::jsonb) AS s(value)
    JOIN headrace_schedules AS known ON known.id = s.value ->> 0 AND known.version = (s.value ->> 1)::bigint
    ORDER BY known.id
    FOR UPDATE OF known) AS locked;

-- name: fire_schedules
UPDATE headrace_schedules AS known
SET version = known.version + 1, due_at = (s.value ->> 2)::bigint, body = s.value ->> 3
FROM jsonb_array_elements(:s::jsonb) AS s(value)
WHERE known.id = s.value ->> 0 AND known.version = (s.value ->> 1)::bigint;

-- name: delete_schedule
DELETE FROM headrace_schedules WHERE id = :id AND version = coalesce(:version, version);

-- name: delete_occurrences
DELETE FROM headrace_occurrences WHERE schedule = :id;

-- name: due_schedules
SELECT coalesce(json_agg(json_build_array(id, version, due_at, body) ORDER BY due_at, id), '[]')::text FROM (
    SELECT id, version, due_at, body FROM headrace_schedules
    WHERE due_at <= :now AND due_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'notice')
    ORDER BY due_at, id LIMIT :limit) AS due;

-- name: next_due
SELECT (SELECT due_at FROM headrace_schedules WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1);

-- name: add_occurrences (each c: Occurrence)
INSERT INTO headrace_occurrences (schedule, at, recorded_at, status, job_id, detail, skipped)
SELECT c.schedule, c.at, c.recorded_at, c.status, c.job_id, c.detail, c.skipped
FROM jsonb_array_elements(:c::jsonb) WITH ORDINALITY AS c(value, key)
ORDER BY c.key;

-- name: trim_occurrences
DELETE FROM headrace_occurrences
WHERE schedule = :id AND seq <= (SELECT seq FROM headrace_occurrences WHERE schedule = :id
                                 ORDER BY seq DESC LIMIT 1 OFFSET :keep);

-- name: occurrences
SELECT coalesce(json_agg(json_build_array({Occurrence})), '[]')::text FROM (
    SELECT * FROM headrace_occurrences WHERE schedule = :id ORDER BY seq DESC LIMIT :limit) AS newest;

-- Jobs under a rule. Each of these answers with a row, so that any caller's library can be asked it.

-- Until its transaction ends, nobody else stores a job of such a key. In one order, so that nobody waits in a circle.
-- name: lock_keys
SELECT count(pg_advisory_xact_lock(hashtextextended('headrace_jobs' || key, 0)))
FROM (SELECT DISTINCT jsonb_array_elements_text(:keys::jsonb) AS key ORDER BY 1) AS keys;

-- `seq + 0`: in the order of all jobs it would read through all of them. To those who would amend it, a job that has
-- begun runs, also between two of its runs: what it remembers is of its own arguments. So the inner one tells as what
-- each job counts; with a limit, so that no planner reads all steps there are rather than those of the job.
-- name: standing (each c: UniqueLookup)
SELECT coalesce(json_agg(json_build_array(c.key - 1, (
    SELECT json_build_array(job.seq, job.id, job.state, job.created_at, job.finished_at, job.queue)
    FROM (SELECT known.seq, known.id, known.created_at, known.finished_at, known.queue,
                 CASE WHEN c.amends AND known.state IN ('scheduled', 'waiting', 'pending', 'retrying')
                           AND (starts_with(known.reason, 'waits for event ')
                                OR (SELECT 1 FROM headrace_steps AS step WHERE step.job = known.seq LIMIT 1) = 1)
                      THEN 'running' ELSE known.state END AS state
          FROM headrace_jobs AS known WHERE known.unique_key = c.unique_key) AS job
    WHERE EXISTS (SELECT 1 FROM jsonb_array_elements((c.conditions)::jsonb) AS w(value)
                  WHERE (w.value -> 0) ? job.state
                    AND job.created_at >= coalesce((w.value ->> 1)::bigint, job.created_at)
                    AND ((w.value ->> 2) IS NULL OR job.finished_at >= (w.value ->> 2)::bigint))
    ORDER BY job.seq + 0 DESC LIMIT 1))), '[]')::text
FROM jsonb_array_elements(:c::jsonb) WITH ORDINALITY AS c(value, key);

-- name: lock_unstarted
SELECT coalesce(json_agg(seq), '[]')::text FROM (
    SELECT seq FROM headrace_jobs AS job
    WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
      AND state || '' IN ('scheduled', 'waiting', 'pending', 'retrying') AND finished_at IS NULL
      AND starts_with(reason, 'waits for event ') IS NOT true
      AND (SELECT 1 FROM headrace_steps AS step WHERE step.job = job.seq LIMIT 1) IS NULL
      AND NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'door')
    ORDER BY seq FOR UPDATE OF job) AS unstarted;

-- name: file_changes
WITH filed AS (
    INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, finished_at,
                                  detail)
    SELECT seq, :now, :event, state, :target, version + 1, attempt, worker, started_at, finished_at, :detail
    FROM headrace_jobs WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
    RETURNING 1
)
SELECT count(*) FROM filed;

-- name: reschedule_jobs (each p: Replacement)
WITH changed AS (
    UPDATE headrace_jobs AS job SET version = job.version + 1, run_at = p.run_at,
                                    rank = CASE WHEN job.rank < 0 THEN -p.run_at ELSE p.run_at END,
                                    state = CASE WHEN job.state = 'waiting' THEN 'waiting'
                                                 WHEN p.run_at <= :now THEN 'pending'
                                                 WHEN job.state = 'retrying' THEN 'retrying' ELSE 'scheduled' END
    FROM jsonb_array_elements(:p::jsonb) AS p(value)
    WHERE job.seq = ANY (ARRAY[p.seq]) AND jsonb_typeof(p.value) = 'array'
    RETURNING 1
)
SELECT count(*) FROM changed;

-- name: replace_jobs (each p: Replacement)
WITH changed AS (
    UPDATE headrace_jobs AS job SET
        version = job.version + 1, task = p.task, queue = p.queue, priority = p.priority, rank = p.rank,
        payload = p.payload, checksum = p.checksum, run_at = p.run_at, max_attempts = p.max_attempts,
        expires_at = p.expires_at, options = p.options, tags = p.tags, metadata = p.metadata, lane = p.lane,
        state = CASE WHEN job.state = 'waiting' THEN 'waiting' ELSE p.state END
    FROM jsonb_array_elements(:p::jsonb) AS p(value)
    WHERE job.seq = ANY (ARRAY[p.seq]) AND jsonb_typeof(p.value) = 'array'
    RETURNING 1
)
SELECT count(*) FROM changed;

-- name: drop_tags
WITH dropped AS (
    DELETE FROM headrace_tags WHERE job = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint)) RETURNING 1
)
SELECT count(*) FROM dropped;

-- name: add_tags (each p: Replacement)
WITH added AS (
    INSERT INTO headrace_tags (tag, job)
    SELECT DISTINCT tag, p.seq
    FROM jsonb_array_elements(:p::jsonb) AS p(value), jsonb_array_elements_text((p.tags)::jsonb) AS tag
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT count(*) FROM added;

-- name: add_queues_of (each p: Replacement)
WITH added AS (
    INSERT INTO headrace_queues (name, created_at)
    SELECT DISTINCT p.queue, :now::bigint FROM jsonb_array_elements(:p::jsonb) AS p(value)
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT count(*) FROM added;

-- Rules of queues.

-- name: rule_queue
INSERT INTO headrace_queues (name, rules, created_at) VALUES (:name, :rules, :now)
ON CONFLICT (name) DO UPDATE SET rules = excluded.rules;

-- name: rules_for_inserts
SELECT json_build_array(
    (SELECT coalesce(json_agg(json_build_array(name, rules)), '[]') FROM headrace_queues WHERE rules IS NOT NULL),
    (SELECT coalesce(json_agg(name), '[]') FROM headrace_tasks WHERE strpos(rules, '"strategy":') > 0))::text;

-- name: lock_queues
SELECT count(*) FROM (
    SELECT 1 FROM headrace_queues WHERE name = ANY (ARRAY(SELECT jsonb_array_elements_text(:names::jsonb)))
    ORDER BY name FOR NO KEY UPDATE) AS locked;

-- name: queue_lengths
SELECT coalesce(json_agg(json_build_array(name,
    (SELECT count(*) FROM headrace_jobs WHERE state = 'pending' AND queue = name)
    + (SELECT count(*) FROM headrace_jobs WHERE state IN ('scheduled', 'retrying') AND queue = name)
    + (SELECT count(*) FROM headrace_jobs WHERE state = 'waiting' AND queue = name))), '[]')::text
FROM jsonb_array_elements_text(:names::jsonb) AS name;
