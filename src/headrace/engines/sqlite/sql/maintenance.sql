-- Maintenance of the store: orphans, lost jobs, and histories that are too long.
-- Slow searches are reads, and the rows are then deleted by number: no writer waits for a search.

-- name: orphan_history
SELECT json_group_array(job) FROM (
    SELECT entry.job FROM headrace_history AS entry
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit);

-- name: drop_orphan_history
DELETE FROM headrace_history WHERE seq IN (
    SELECT entry.seq FROM headrace_history AS entry WHERE entry.job IN (SELECT value FROM json_each(:seqs))
      AND NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit);

-- name: orphan_logs
SELECT json_group_array(job) FROM (
    SELECT entry.job FROM headrace_logs AS entry
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit);

-- name: drop_orphan_logs
DELETE FROM headrace_logs WHERE seq IN (
    SELECT entry.seq FROM headrace_logs AS entry WHERE entry.job IN (SELECT value FROM json_each(:seqs))
      AND NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit);

-- name: orphan_steps
SELECT json_group_array(job) FROM (
    SELECT entry.job FROM headrace_steps AS entry
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit);

-- name: drop_orphan_steps
DELETE FROM headrace_steps WHERE seq IN (
    SELECT entry.seq FROM headrace_steps AS entry WHERE entry.job IN (SELECT value FROM json_each(:seqs))
      AND NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit);

-- name: orphan_tags
SELECT json_group_array(job) FROM (
    SELECT entry.job FROM headrace_tags AS entry
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit);

-- name: drop_orphan_tags
DELETE FROM headrace_tags AS entry WHERE entry.job IN (SELECT value FROM json_each(:seqs))
  AND NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job);

-- name: orphan_dependencies
SELECT json_group_array(child) FROM (
    SELECT edge.child FROM headrace_dependencies AS edge
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = edge.child)
       OR NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = edge.parent) LIMIT :limit);

-- name: drop_orphan_dependencies
DELETE FROM headrace_dependencies AS edge WHERE edge.child IN (SELECT value FROM json_each(:seqs))
  AND (NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = edge.child)
       OR NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = edge.parent));

-- name: orphan_flows
SELECT json_group_array(id) FROM (
    SELECT flow.id FROM headrace_flows AS flow
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.flow = flow.id) LIMIT :limit);

-- The numbers of jobs that run under unknown workers, were not reaped, not promoted, or wait for no parent.

-- name: integrity_counts
SELECT json_array(
    (SELECT count(*) FROM headrace_jobs
     WHERE state = 'running' AND worker NOT IN (SELECT id FROM headrace_workers)),
    (SELECT count(*) FROM headrace_jobs WHERE state = 'running' AND lease_until <= :late),
    (SELECT count(*) FROM (SELECT 1 FROM headrace_jobs
                           WHERE state IN ('scheduled', 'retrying') AND run_at <= :late LIMIT :limit)),
    (SELECT count(*) FROM (SELECT 1 FROM headrace_jobs AS job
                           WHERE job.state = 'waiting' AND coalesce(job.reason, '') <> 'held'
                             AND NOT EXISTS (SELECT 1 FROM headrace_dependencies AS edge
                                             WHERE edge.child = job.seq AND edge.blocks)
                           LIMIT :limit)));

-- The lanes with pending jobs, as bytes, each with its lowest job number.
-- name: pending_lanes
SELECT json_group_array(json_array(first, hex(lane))) FROM (
    SELECT min(seq) AS first, lane FROM headrace_jobs WHERE state = 'pending' AND lane > '' GROUP BY queue, lane);

-- name: newly_filed_history
SELECT json_array(coalesce(max(seq), :after), count(*), json_group_array(DISTINCT job)) FROM (
    SELECT seq, job FROM headrace_history WHERE seq > :after ORDER BY seq LIMIT :limit);

-- name: too_long_history
SELECT json_group_array(given.value) FROM json_each(:seqs) AS given
WHERE (SELECT count(*) FROM headrace_history AS entry WHERE entry.job = given.value) > :most;

-- name: surplus_history
SELECT json_group_array(seq) FROM (
    SELECT seq FROM (
        SELECT entry.seq, entry.error_type IS NOT NULL AS is_error, row_number() OVER (ORDER BY entry.seq) AS place,
               count(*) OVER () AS entries
        FROM headrace_history AS entry WHERE entry.job = :job)
    WHERE place > :first AND place <= entries - :newest
    ORDER BY is_error, seq LIMIT :limit);

-- name: drop_history
DELETE FROM headrace_history WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: newly_filed_logs
SELECT json_array(coalesce(max(seq), :after), count(*), json_group_array(DISTINCT job)) FROM (
    SELECT seq, job FROM headrace_logs WHERE seq > :after ORDER BY seq LIMIT :limit);

-- name: too_long_logs
SELECT json_group_array(given.value) FROM json_each(:seqs) AS given
WHERE (SELECT count(*) FROM headrace_logs AS entry WHERE entry.job = given.value) > :most;

-- name: surplus_logs
SELECT json_group_array(seq) FROM (
    SELECT seq FROM (
        SELECT entry.seq, entry.level IN ('error', 'critical') AS is_error, row_number() OVER (ORDER BY entry.seq) AS place,
               count(*) OVER () AS entries
        FROM headrace_logs AS entry WHERE entry.job = :job)
    WHERE place > :first AND place <= entries - :newest
    ORDER BY is_error, seq LIMIT :limit);

-- name: drop_logs
DELETE FROM headrace_logs WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: length_history
SELECT count(*) FROM headrace_history WHERE job = :job;

-- name: length_logs
SELECT count(*) FROM headrace_logs WHERE job = :job;

-- A backup has the archive in the file itself; a store does not.
-- name: drop_archive
DROP TABLE IF EXISTS headrace_archive;

-- Ids that are not ASCII, as bytes: invalid UTF-8 can be read, but not queried.

-- name: unusual_ids_of_jobs
SELECT json_group_array(hex(id)) FROM headrace_jobs WHERE id GLOB '*[^ -~]*';

-- name: rename_jobs
UPDATE headrace_jobs SET id = :new WHERE id = CAST(:old AS TEXT);

-- name: unusual_ids_of_dead_letters
SELECT json_group_array(hex(id)) FROM headrace_dead_letters WHERE id GLOB '*[^ -~]*';

-- name: rename_dead_letters
UPDATE headrace_dead_letters SET id = :new WHERE id = CAST(:old AS TEXT);

-- name: unusual_ids_of_schedules
SELECT json_group_array(hex(id)) FROM headrace_schedules WHERE id GLOB '*[^ -~]*';

-- name: rename_schedules
UPDATE headrace_schedules SET id = :new WHERE id = CAST(:old AS TEXT);
