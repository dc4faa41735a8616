-- name: lock_keys
SELECT json_array_length(:keys);

-- For amendments a job that has begun counts as running, also between two of its runs: its steps belong to its own
-- arguments. The inner query returns the state that each job counts as.
-- name: existing_jobs (each c: UniqueLookup)
SELECT json_group_array(json_array(c.key, json((
    SELECT json_array(job.seq, job.id, job.state, job.created_at, job.finished_at, job.queue)
    FROM (SELECT known.seq, known.id, known.created_at, known.finished_at, known.queue,
                 iif(c.updates AND known.state IN ('scheduled', 'waiting', 'pending', 'retrying')
                     AND (known.reason LIKE 'waits for event %'
                          OR EXISTS (SELECT 1 FROM headrace_steps AS step WHERE step.job = known.seq)),
                     'running', known.state) AS state
          FROM headrace_jobs AS known WHERE known.unique_key = c.unique_key) AS job
    WHERE EXISTS (SELECT 1 FROM json_each(c.conditions) AS w
                  WHERE job.state IN (SELECT value FROM json_each(json_extract(w.value, '$[0]')))
                    AND job.created_at >= coalesce(json_extract(w.value, '$[1]'), job.created_at)
                    AND (json_extract(w.value, '$[2]') IS NULL OR job.finished_at >= json_extract(w.value, '$[2]')))
    ORDER BY job.seq DESC LIMIT 1)))) FROM json_each(:c) AS c;

-- name: lock_unstarted
SELECT json_group_array(seq) FROM headrace_jobs AS job
WHERE seq IN (SELECT value FROM json_each(:seqs)) AND state IN ('scheduled', 'waiting', 'pending', 'retrying')
  AND finished_at IS NULL AND coalesce(reason, '') NOT LIKE 'waits for event %'
  AND NOT EXISTS (SELECT 1 FROM headrace_steps AS step WHERE step.job = job.seq);

-- name: reschedule_jobs (each p: Replacement)
UPDATE headrace_jobs SET {next_version :now}, run_at = p.run_at,
                         rank = CASE WHEN headrace_jobs.rank < 0 THEN -p.run_at ELSE p.run_at END,
                         state = CASE WHEN headrace_jobs.state = 'waiting' THEN 'waiting'
                                      WHEN p.run_at <= :now THEN 'pending'
                                      WHEN headrace_jobs.state = 'retrying' THEN 'retrying' ELSE 'scheduled' END
FROM json_each(:p) AS p
WHERE headrace_jobs.seq = p.seq;

-- name: replace_jobs (each p: Replacement)
UPDATE headrace_jobs SET
    {next_version :now}, task = p.task, queue = p.queue, priority = p.priority, rank = p.rank,
    payload = p.payload, checksum = p.checksum, run_at = p.run_at, max_attempts = p.max_attempts,
    expires_at = p.expires_at, options = p.options, tags = p.tags, metadata = p.metadata, lane = p.lane,
    state = CASE WHEN headrace_jobs.state = 'waiting' THEN 'waiting' ELSE p.state END
FROM json_each(:p) AS p
WHERE headrace_jobs.seq = p.seq;

-- name: add_tags (each p: Replacement)
INSERT OR IGNORE INTO headrace_tags (tag, job)
SELECT tag.value, p.seq FROM json_each(:p) AS p JOIN json_each(p.tags) AS tag;
