-- Schedules.

-- name: schedules
SELECT json_group_array(json_array(id, version, due_at, body)) FROM (SELECT * FROM headrace_schedules ORDER BY id);

-- name: count_schedules
SELECT count(*) FROM headrace_schedules;

-- name: schedule
SELECT json_group_array(json_array(id, version, due_at, body)) FROM headrace_schedules WHERE id = :id;

-- name: add_schedule
INSERT OR IGNORE INTO headrace_schedules (id, version, due_at, body) VALUES (:id, :version, :due_at, :body);

-- name: put_schedule
UPDATE headrace_schedules SET version = version + 1, due_at = :due_at, body = :body
WHERE id = :id AND version = :version;

-- name: lock_schedules
SELECT json_group_array(known.id) FROM json_each(:s) AS s
JOIN headrace_schedules AS known
  ON known.id = json_extract(s.value, '$[0]') AND known.version = json_extract(s.value, '$[1]');

-- name: fire_schedules
UPDATE headrace_schedules
SET version = version + 1, due_at = json_extract(s.value, '$[2]'), body = json_extract(s.value, '$[3]')
FROM json_each(:s) AS s
WHERE headrace_schedules.id = json_extract(s.value, '$[0]') AND version = json_extract(s.value, '$[1]');

-- name: delete_schedule
DELETE FROM headrace_schedules WHERE id = :id AND version = coalesce(:version, version);

-- name: delete_occurrences
DELETE FROM headrace_occurrences WHERE schedule = :id;

-- name: due_schedules
SELECT json_group_array(json_array(id, version, due_at, body)) FROM (
    SELECT * FROM headrace_schedules
    WHERE due_at <= :now AND due_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'notice')
    ORDER BY due_at, id LIMIT :limit);

-- name: next_due
SELECT min(due_at) FROM headrace_schedules WHERE due_at IS NOT NULL;

-- name: add_occurrences (each c: Occurrence)
INSERT INTO headrace_occurrences (schedule, at, recorded_at, status, job_id, detail, skipped)
SELECT c.schedule, c.at, c.recorded_at, c.status, c.job_id, c.detail, c.skipped FROM json_each(:c) AS c
ORDER BY c.key;

-- name: trim_occurrences
DELETE FROM headrace_occurrences
WHERE schedule = :id AND seq <= (SELECT seq FROM headrace_occurrences WHERE schedule = :id
                                 ORDER BY seq DESC LIMIT 1 OFFSET :keep);

-- name: occurrences
SELECT json_group_array(json_array({Occurrence})) FROM (
    SELECT * FROM headrace_occurrences WHERE schedule = :id ORDER BY seq DESC LIMIT :limit);

-- Jobs under a rule. The file has one writer at a time: nobody comes between these, and there is nothing to lock.

-- name: lock_keys
SELECT json_array_length(:keys);

-- To those who would amend it, a job that has begun runs, also between two of its runs: what it remembers is of its own
-- arguments. So the inner one tells as what each job counts.
-- name: standing (each c: UniqueLookup)
SELECT json_group_array(json_array(c.key, json((
    SELECT json_array(job.seq, job.id, job.state, job.created_at, job.finished_at, job.queue)
    FROM (SELECT known.seq, known.id, known.created_at, known.finished_at, known.queue,
                 iif(c.amends AND known.state IN ('scheduled', 'waiting', 'pending', 'retrying')
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
SELECT json_group_array(seq) FROM headrace_jobs
WHERE seq IN (SELECT value FROM json_each(:seqs)) AND state IN ('scheduled', 'waiting', 'pending', 'retrying')
  AND finished_at IS NULL;

-- name: reschedule_jobs (each p: Replacement)
UPDATE headrace_jobs SET version = headrace_jobs.version + 1, run_at = p.run_at,
                         rank = CASE WHEN headrace_jobs.rank < 0 THEN -p.run_at ELSE p.run_at END,
                         state = CASE WHEN headrace_jobs.state = 'waiting' THEN 'waiting'
                                      WHEN p.run_at <= :now THEN 'pending'
                                      WHEN headrace_jobs.state = 'retrying' THEN 'retrying' ELSE 'scheduled' END
FROM json_each(:p) AS p
WHERE headrace_jobs.seq = p.seq;

-- name: replace_jobs (each p: Replacement)
UPDATE headrace_jobs SET
    version = headrace_jobs.version + 1, task = p.task, queue = p.queue, priority = p.priority, rank = p.rank,
    payload = p.payload, checksum = p.checksum, run_at = p.run_at, max_attempts = p.max_attempts,
    expires_at = p.expires_at, options = p.options, tags = p.tags, metadata = p.metadata, lane = p.lane,
    state = CASE WHEN headrace_jobs.state = 'waiting' THEN 'waiting' ELSE p.state END
FROM json_each(:p) AS p
WHERE headrace_jobs.seq = p.seq;

-- name: drop_tags
DELETE FROM headrace_tags WHERE job IN (SELECT value FROM json_each(:seqs));

-- name: add_tags (each p: Replacement)
INSERT OR IGNORE INTO headrace_tags (tag, job)
SELECT tag.value, p.seq FROM json_each(:p) AS p JOIN json_each(p.tags) AS tag;

-- name: add_queues_of (each p: Replacement)
INSERT OR IGNORE INTO headrace_queues (name, created_at) SELECT p.queue, :now FROM json_each(:p) AS p;

-- Rules of queues.

-- name: rule_queue
INSERT INTO headrace_queues (name, rules, created_at) VALUES (:name, :rules, :now)
ON CONFLICT (name) DO UPDATE SET rules = excluded.rules;

-- name: rules_for_inserts
SELECT json_array(
    (SELECT json_group_array(json_array(name, rules)) FROM headrace_queues WHERE rules IS NOT NULL),
    (SELECT json_group_array(name) FROM headrace_tasks WHERE instr(rules, '"strategy":') > 0));

-- name: lock_queues
SELECT json_array_length(:names);

-- name: queue_lengths
SELECT json_group_array(json_array(value,
    (SELECT count(*) FROM headrace_jobs WHERE state = 'pending' AND queue = value)
    + (SELECT count(*) FROM headrace_jobs WHERE state IN ('scheduled', 'retrying') AND queue = value)
    + (SELECT count(*) FROM headrace_jobs WHERE state = 'waiting' AND queue = value))) FROM json_each(:names);
