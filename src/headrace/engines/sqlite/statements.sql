-- One named statement for each thing the engine does. A batch is one JSON parameter (see engines/shared/sql_files.py), so that
-- a statement runs in a single step: it holds the write lock shortly, and never waits for the interpreter inside.

-- name: insert
INSERT INTO headrace_jobs (id, task, queue, state, priority, rank, payload, checksum, created_at, run_at,
                           max_attempts, expires_at, options, tags, metadata, version, unique_key,
                           lane, flow, kin)
VALUES {rows}
ON CONFLICT (id) DO NOTHING;

-- name: insert_tags (each j: NewJob)
INSERT OR IGNORE INTO headrace_tags (tag, job)
SELECT tag.value, job.seq
FROM json_each(:j) AS j
JOIN headrace_jobs AS job ON job.id = j.id
JOIN json_each(j.tags) AS tag;

-- name: taken
SELECT json_group_array(id) FROM headrace_jobs WHERE id IN (SELECT value FROM json_each(:ids));

-- name: mine (each j: NewJob)
SELECT json_group_array(job.id)
FROM json_each(:j) AS j
JOIN headrace_jobs AS job ON job.id = j.id AND job.created_at = j.created_at AND job.checksum = j.checksum
                         AND job.task = j.task;

-- name: add_queues
INSERT OR IGNORE INTO headrace_queues (name, created_at) SELECT value, :now FROM json_each(:names);

-- Settling. By id and version alone; no other predicate decides. Jobs that have kin are left for a second look.

-- name: file_outcomes (each o: Outcome)
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, detail,
                              error_type, error_message, error_traceback, run_at)
SELECT job.seq, o.at, o.event, job.state, o.state, job.version + 1, job.attempt, job.worker, job.started_at,
       o.reason, o.error_type, o.error_message, o.error_traceback, o.run_at
FROM json_each(:o) AS o
JOIN headrace_jobs AS job ON job.id = o.id AND job.version = o.version;

-- name: settle (each o: Outcome)
UPDATE headrace_jobs SET
    state = o.state,
    version = headrace_jobs.version + 1,
    attempt = attempt - o.refund,
    releases = releases + o.refund,
    crashes = CASE WHEN o.event IN ('retry', 'snooze') THEN 0 ELSE crashes END,
    run_at = coalesce(o.run_at, headrace_jobs.run_at),
    rank = CASE WHEN o.run_at IS NULL THEN rank WHEN rank < 0 THEN -o.run_at ELSE o.run_at END,
    max_attempts = coalesce(o.max_attempts, headrace_jobs.max_attempts),
    result = o.result,
    result_checksum = o.result_checksum,
    reason = CASE WHEN o.state = 'waiting' THEN NULL ELSE o.reason END,
    finished_at = o.finished_at,
    expires_at = CASE WHEN o.state = 'waiting' THEN NULL ELSE expires_at END,
    worker = CASE WHEN o.finished_at IS NULL THEN NULL ELSE worker END,
    lease_until = NULL
FROM json_each(:o) AS o
WHERE headrace_jobs.id = o.id AND headrace_jobs.version = o.version AND (headrace_jobs.kin = 0 OR :kin);

-- name: complete (each o: Completion)
UPDATE headrace_jobs SET state = 'completed', version = headrace_jobs.version + 1, result = o.result,
                         result_checksum = o.result_checksum, finished_at = o.finished_at, reason = NULL,
                         lease_until = NULL
FROM json_each(:o) AS o
WHERE headrace_jobs.id = o.id AND headrace_jobs.version = o.version AND (headrace_jobs.kin = 0 OR :kin);

-- name: stale_outcomes (each o: Outcome)
SELECT json_group_array(o.key) FROM json_each(:o) AS o
WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.id = o.id AND job.version = o.version);

-- name: file_stale (each o: Outcome)
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, detail,
                              error_type, error_message, error_traceback)
SELECT job.seq, :now, 'lease lost', job.state, job.state, o.version, job.attempt, :worker,
       'late ' || o.event || ' refused: it held version ' || o.version || ', the job is at ' || job.version,
       o.error_type, o.error_message, o.error_traceback
FROM json_each(:o) AS o
JOIN headrace_jobs AS job ON job.id = o.id;

-- name: note_progress (each n: JobNote)
UPDATE headrace_jobs SET progress = n.progress
FROM json_each(:n) AS n
WHERE headrace_jobs.id = n.id AND headrace_jobs.version = n.version;

-- name: note_logs (each n: JobNote)
INSERT INTO headrace_logs (job, at, attempt, level, message, fields)
SELECT job.seq, n.at, job.attempt, n.level, n.message, n.fields
FROM json_each(:n) AS n
JOIN headrace_jobs AS job ON job.id = n.id AND job.version = n.version
ORDER BY n.key;

-- Claiming.

-- Rules are told as they are stored, also elsewhere: to read what is damaged is left to who can tell it.
-- Behind a notice there are no queues, not even an empty list of them, and time stands still.
-- name: horizon
SELECT (SELECT min(run_at) FROM headrace_jobs WHERE state IN ('scheduled', 'retrying')),
       (SELECT min(expires_at) FROM headrace_jobs
        WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'waiting', 'pending', 'retrying')),
       CASE WHEN NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'notice')
            THEN (SELECT json_group_array(name) FROM headrace_queues WHERE NOT paused) END,
       (SELECT json_array(
            (SELECT json_group_array(json_array(name, rules)) FROM headrace_queues WHERE rules IS NOT NULL),
            (SELECT json_group_array(name) FROM headrace_queues AS queue
             WHERE EXISTS (SELECT 1 FROM headrace_jobs
                           WHERE state = 'pending' AND headrace_jobs.queue = queue.name AND lane > '')),
            (SELECT json_group_array(json_array(name, rules)) FROM headrace_tasks)));

-- name: lock_lapsed
SELECT json_group_array(seq) FROM (
    SELECT seq FROM headrace_jobs
    WHERE expires_at <= :now AND expires_at IS NOT NULL AND state IN ('scheduled', 'waiting', 'pending', 'retrying')
    LIMIT :limit);

-- name: due
SELECT json_group_array(seq) FROM (
    SELECT seq FROM headrace_jobs WHERE state IN ('scheduled', 'retrying') AND run_at <= :now
    ORDER BY run_at LIMIT :limit);

-- name: promote
UPDATE headrace_jobs SET state = 'pending', version = version + 1
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: claimable
SELECT json_group_array(json_array({Claim})) FROM (
    SELECT id, seq AS ref, task, queue, priority, version + 1 AS version, attempt + 1 AS attempt, max_attempts,
           payload, checksum, created_at, run_at, crashes, releases, options, metadata
    FROM headrace_jobs WHERE state = 'pending' AND queue = :queue AND lane = ''
    ORDER BY priority DESC, rank, seq LIMIT :limit OFFSET :skip);

-- name: claim
UPDATE headrace_jobs SET state = 'running', version = version + 1, attempt = attempt + 1, worker = :worker,
                         started_at = :now, lease_until = :until, progress = NULL
WHERE seq IN (SELECT value FROM json_each(:refs));

-- Leases.

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

-- name: lock_disowned (each lease: Lease)
SELECT json_group_array(seq) FROM headrace_jobs AS job
WHERE job.state = 'running' AND job.worker = :worker
  AND (job.id, job.version) NOT IN (SELECT lease.id, lease.version FROM json_each(:lease) AS lease);

-- name: file_lost
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, detail,
                              error_type, error_message, error_traceback)
SELECT seq, :now, 'expire', state, :target, version + 1, attempt, worker, started_at, :detail,
       'WorkerLost', 'worker ' || worker || ' died or let its lease run out', ''
FROM headrace_jobs WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: expire
UPDATE headrace_jobs SET state = :target, version = version + 1, crashes = crashes + 1, lease_until = NULL,
                         worker = CASE WHEN :target = 'failed' THEN worker END,
                         finished_at = CASE WHEN :target = 'failed' THEN :now END,
                         reason = :reason
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: release
UPDATE headrace_jobs SET state = 'pending', version = version + 1, attempt = attempt - 1, releases = releases + 1,
                         lease_until = NULL, worker = NULL, started_at = NULL
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: reaped
SELECT json_group_array(json_array(id, queue, state, :worker)) FROM headrace_jobs
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- Moves by hand and by time. `file_moves` runs first, while the row still tells where the job came from.

-- name: file_moves
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, finished_at,
                              detail)
SELECT seq, :now, :event, state, :target, version + 1, attempt, worker, started_at, finished_at, :detail
FROM headrace_jobs WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: move_cancel
UPDATE headrace_jobs SET state = 'cancelled', version = version + 1, finished_at = :now, lease_until = NULL,
                         reason = :reason
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: move_revive
UPDATE headrace_jobs SET state = :state, version = version + 1, attempt = 0, crashes = 0, finished_at = NULL,
                         started_at = NULL, worker = NULL, result = NULL, result_checksum = NULL, progress = NULL,
                         reason = NULL, expires_at = NULL, run_at = :now,
                         rank = CASE WHEN rank < 0 THEN -:now ELSE :now END
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: move_hurry
UPDATE headrace_jobs SET state = 'pending', version = version + 1, run_at = :now, reason = nullif(reason, 'held'),
                         rank = CASE WHEN rank < 0 THEN -:now ELSE :now END
WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: move_delete
DELETE FROM headrace_jobs WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: ids_of
SELECT json_group_array(id) FROM headrace_jobs WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: state_of
SELECT state FROM headrace_jobs WHERE seq = :seq;

-- name: amend
UPDATE headrace_jobs SET
    version = version + 1,
    priority = coalesce(:priority, priority),
    queue = coalesce(:queue, queue),
    run_at = coalesce(:run_at, run_at),
    rank = CASE WHEN :run_at IS NULL THEN rank WHEN rank < 0 THEN -:run_at ELSE :run_at END,
    state = :state
WHERE seq IN (SELECT value FROM json_each(:seqs));

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
job.id IN (SELECT value FROM json_each(:ids))

-- name: where_tag
job.seq IN (SELECT tags.job FROM headrace_tags AS tags WHERE tags.tag = :tag)

-- A sealed call says nothing: what looks like the text there would be chance.
-- name: where_text
(instr(job.id, :text) OR instr(job.task, :text)
 OR (instr(job.payload, :text) AND substr(job.payload, 1, 10) <> '{"$sealed"')
 OR instr(coalesce(job.reason, ''), :text) OR instr(coalesce(job.metadata, ''), :text))

-- name: lock_matching
SELECT json_group_array(seq) FROM (
    SELECT job.seq FROM headrace_jobs AS job WHERE {where} ORDER BY job.seq LIMIT :limit);

-- name: get
SELECT json_group_array(json_array({JobRow:most})) FROM headrace_jobs WHERE id IN (SELECT value FROM json_each(:ids));

-- name: endings
SELECT json_group_array(json_array({ParentResult})) FROM headrace_jobs WHERE id IN (SELECT value FROM json_each(:ids));

-- name: unfinished
SELECT json_group_array(id) FROM headrace_jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND state NOT IN ('completed', 'failed', 'cancelled');

-- Most jobs of an old store are over. To count them place by place is thrice as fast as to group them.
-- name: depths
WITH ended (queue, state, jobs, oldest) AS MATERIALIZED (
    SELECT queue.name, final.value,
           (SELECT count(*) FROM headrace_jobs AS job
            WHERE job.queue = queue.name AND job.state = final.value AND job.finished_at IS NOT NULL),
           (SELECT min(job.finished_at) FROM headrace_jobs AS job
            WHERE job.queue = queue.name AND job.state = final.value AND job.finished_at IS NOT NULL)
    FROM headrace_queues AS queue CROSS JOIN json_each('["completed","failed","cancelled"]') AS final
    WHERE :finished)
SELECT json_group_array(json_array(queue, state, jobs, oldest)) FROM (
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
    SELECT queue, state, jobs, oldest FROM ended WHERE jobs > 0);

-- name: history
SELECT json_group_array(json_array({HistoryRow})) FROM (
    SELECT h.* FROM headrace_history AS h JOIN headrace_jobs AS job ON job.seq = h.job
    WHERE job.id = :id ORDER BY h.seq);

-- name: logs
SELECT json_group_array(json_array({LogLine})) FROM (
    SELECT * FROM (SELECT l.* FROM headrace_logs AS l JOIN headrace_jobs AS job ON job.seq = l.job
                   WHERE job.id = :id ORDER BY l.seq DESC LIMIT :limit) ORDER BY seq);

-- name: queues
SELECT json_group_array(json_array(name, json(iif(paused, 'true', 'false')), created_at, rules)) FROM (
    SELECT * FROM headrace_queues ORDER BY name);

-- name: pause_queue
INSERT INTO headrace_queues (name, paused, created_at) VALUES (:name, :paused, :now)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused;

-- Who has no heartbeat only shows up, and reports nothing else: what is known of it stays.
-- name: attend
INSERT INTO headrace_workers (id, host, pid, started_at, seen_at, state, wish, queues, concurrency, running,
                              completed, failed, tasks, heartbeat, capabilities)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
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
    capabilities = CASE excluded.heartbeat WHEN 0 THEN headrace_workers.capabilities ELSE excluded.capabilities END;

-- name: wish_of
SELECT wish, (SELECT lease_until FROM headrace_jobs WHERE state = 'running' ORDER BY lease_until LIMIT 1)
FROM headrace_workers WHERE id = :id;

-- name: wish
UPDATE headrace_workers SET wish = :wish WHERE id = :id;

-- name: sign_off
DELETE FROM headrace_workers WHERE id IN (SELECT value FROM json_each(:ids));

-- name: workers
SELECT json_group_array(json_array({WorkerRow})) FROM (
    -- What runs is told by the leases, not by the worker's last report; what it only fetched ahead does not count.
    SELECT id, host, pid, started_at, seen_at, state, wish, queues, concurrency, completed, failed, tasks, heartbeat,
           capabilities,
           min(concurrency, (SELECT count(*) FROM headrace_jobs AS job
                             WHERE job.state = 'running' AND job.worker = headrace_workers.id)) AS running
    FROM headrace_workers ORDER BY started_at, id);

-- Carrying the contents over.

-- name: notice
SELECT (SELECT value FROM headrace_store WHERE name = 'notice');

-- name: put_notice
REPLACE INTO headrace_store (name, value) VALUES ('notice', :value);

-- name: drop_notice
DELETE FROM headrace_store WHERE name = 'notice';

-- name: first_notice
INSERT INTO headrace_store (name, value) VALUES ('notice', :value) ON CONFLICT DO NOTHING;

-- name: change_notice
UPDATE headrace_store SET value = :value WHERE name = 'notice' AND value = :told;

-- name: drop_this_notice
DELETE FROM headrace_store WHERE name = 'notice' AND value = :told;

-- name: hold_notice
SELECT (SELECT value FROM headrace_store WHERE name = 'notice');

-- name: close_door
CREATE TRIGGER IF NOT EXISTS headrace_moved BEFORE INSERT ON headrace_jobs
BEGIN SELECT RAISE(ABORT, 'headrace: this store has moved'); END;

-- There is one writer at a time.
-- name: hold_door
SELECT 1;

-- name: open_door
DROP TRIGGER IF EXISTS headrace_moved;

-- name: pack_jobs
SELECT json_group_array(json_array({JobRow})) FROM (
    SELECT * FROM headrace_jobs WHERE seq > :after ORDER BY seq LIMIT :limit);

-- name: pack_history
SELECT json_group_array(json_array(job, json_array({HistoryRow}))) FROM (
    SELECT * FROM headrace_history WHERE job IN (SELECT value FROM json_each(:seqs)) ORDER BY seq);

-- name: pack_logs
SELECT json_group_array(json_array(job, json_array({LogLine}))) FROM (
    SELECT * FROM headrace_logs WHERE job IN (SELECT value FROM json_each(:seqs)) ORDER BY seq);

-- name: unpack_jobs (each r: JobRow)
INSERT INTO headrace_jobs (id, task, queue, state, priority, rank, version, attempt, max_attempts, crashes, releases,
                           payload, checksum, created_at, run_at, expires_at, started_at, finished_at, worker,
                           lease_until, result, result_checksum, progress, reason, options, tags, metadata,
                           unique_key, lane, flow, kin)
SELECT r.id, r.task, r.queue, r.state, r.priority, r.rank, r.version, r.attempt, r.max_attempts,
       r.crashes, r.releases, r.payload, r.checksum, r.created_at, r.run_at, r.expires_at,
       r.started_at, r.finished_at, r.worker, r.lease_until, r.result, r.result_checksum, r.progress,
       r.reason, r.options, r.tags, r.metadata, r.unique_key, r.lane, r.flow, r.kin
FROM json_each(:r) AS r
WHERE true
ORDER BY r.key;

-- name: unpack_tags (each r: JobRow)
INSERT OR IGNORE INTO headrace_tags (tag, job)
SELECT tag.value, job.seq
FROM json_each(:r) AS r
JOIN headrace_jobs AS job ON job.id = r.id
JOIN json_each(r.tags) AS tag;

-- name: unpack_history (each r: CarriedFiling)
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, finished_at,
                              detail, error_type, error_message, error_traceback)
SELECT job.seq, r.at, r.event, r.source, r.target, r.version, r.attempt, r.worker, r.started_at,
       r.finished_at, r.detail, r.error_type, r.error_message, r.error_traceback
FROM json_each(:r) AS r
JOIN headrace_jobs AS job ON job.id = r.job_id
ORDER BY r.key;

-- name: unpack_logs (each r: CarriedLine)
INSERT INTO headrace_logs (job, at, attempt, level, message, fields)
SELECT job.seq, r.at, r.attempt, r.level, r.message, r.fields
FROM json_each(:r) AS r
JOIN headrace_jobs AS job ON job.id = r.job_id
ORDER BY r.key;

-- name: unpack_queues (each r: QueueRow)
INSERT INTO headrace_queues (name, paused, created_at, rules)
SELECT r.name, r.paused, r.created_at, r.rules FROM json_each(:r) AS r
WHERE true
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, created_at = excluded.created_at, rules = excluded.rules;
