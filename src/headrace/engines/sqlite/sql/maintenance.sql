-- name: drop_orphan_steps
DELETE FROM headrace_steps WHERE seq IN (
    SELECT entry.seq FROM headrace_steps AS entry WHERE entry.job IN (SELECT value FROM json_each(:seqs))
      AND NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit);

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

-- name: newly_filed_logs
SELECT json_array(coalesce(max(seq), :after), count(*), json_group_array(DISTINCT job)) FROM (
    SELECT seq, job FROM headrace_logs WHERE seq > :after ORDER BY seq LIMIT :limit);

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
