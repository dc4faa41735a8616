-- Until its transaction ends, no other transaction stores a job of such a key. Keys are locked in one order to prevent
-- deadlocks.
-- name: lock_keys
SELECT count(pg_advisory_xact_lock(hashtextextended('headrace_jobs' || key, 0)))
FROM (SELECT DISTINCT jsonb_array_elements_text(:keys::jsonb) AS key ORDER BY 1) AS keys;

-- `seq + 0`: in the order of all jobs it would read all of them. For amendments a job that has begun counts as running,
-- also between two of its runs: its steps belong to its own arguments. The inner query returns the state that each job
-- counts as; it has a limit, so that the planner does not read all steps instead of those of the job.
-- name: existing_jobs (each c: UniqueLookup)
SELECT coalesce(json_agg(json_build_array(c.key - 1, (
    SELECT json_build_array(job.seq, job.id, job.state, job.created_at, job.finished_at, job.queue)
    FROM (SELECT known.seq, known.id, known.created_at, known.finished_at, known.queue,
                 CASE WHEN c.updates AND known.state IN ('scheduled', 'waiting', 'pending', 'retrying')
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
      AND NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'inserts')
    ORDER BY seq FOR UPDATE OF job) AS unstarted;

-- name: reschedule_jobs (each p: Replacement)
WITH changed AS (
    UPDATE headrace_jobs AS job SET {next_version :now}, run_at = p.run_at,
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
        {next_version :now}, task = p.task, queue = p.queue, priority = p.priority, rank = p.rank,
        payload = p.payload, checksum = p.checksum, run_at = p.run_at, max_attempts = p.max_attempts,
        expires_at = p.expires_at, options = p.options, tags = p.tags, metadata = p.metadata, lane = p.lane,
        state = CASE WHEN job.state = 'waiting' THEN 'waiting' ELSE p.state END
    FROM jsonb_array_elements(:p::jsonb) AS p(value)
    WHERE job.seq = ANY (ARRAY[p.seq]) AND jsonb_typeof(p.value) = 'array'
    RETURNING 1
)
SELECT count(*) FROM changed;

-- name: add_tags (each p: Replacement)
WITH added AS (
    INSERT INTO headrace_tags (tag, job)
    SELECT DISTINCT tag, p.seq
    FROM jsonb_array_elements(:p::jsonb) AS p(value), jsonb_array_elements_text((p.tags)::jsonb) AS tag
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT count(*) FROM added;
