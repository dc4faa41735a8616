-- name: drop_orphan_steps
DELETE FROM headrace_steps WHERE ctid = ANY (ARRAY(
    SELECT entry.ctid FROM headrace_steps AS entry
    WHERE entry.job IN (SELECT value::bigint FROM jsonb_array_elements_text(:seqs::jsonb))
      AND NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit));

-- The numbers of jobs that run under unknown workers, were not reaped, not promoted, or wait for no parent.

-- name: integrity_counts
SELECT json_build_array(
    (SELECT count(*) FROM headrace_jobs
     WHERE state = 'running' AND worker NOT IN (SELECT id FROM headrace_workers)),
    (SELECT count(*) FROM headrace_jobs WHERE state = 'running' AND lease_until <= :late),
    (SELECT count(*) FROM (SELECT 1 FROM headrace_jobs
                           WHERE state IN ('scheduled', 'retrying') AND run_at <= :late LIMIT :limit) AS overdue),
    (SELECT count(*) FROM (SELECT 1 FROM headrace_jobs AS job
                           WHERE job.state = 'waiting' AND coalesce(job.reason, '') <> 'held'
                             AND NOT EXISTS (SELECT 1 FROM headrace_dependencies AS edge
                                             WHERE edge.child = job.seq AND edge.blocks)
                           LIMIT :limit) AS forlorn))::text;

-- The lanes with pending jobs, as bytes, each with its lowest job number.
-- name: pending_lanes
SELECT coalesce(json_agg(json_build_array(first, encode(convert_to(lane, 'UTF8'), 'hex'))), '[]')::text FROM (
    SELECT min(seq) AS first, lane FROM headrace_jobs WHERE state = 'pending' AND lane > '' GROUP BY queue, lane) AS lanes;

-- name: newly_filed_history
SELECT json_build_array(coalesce(max(seq), :after), count(*), coalesce(json_agg(DISTINCT job), '[]'))::text FROM (
    SELECT seq, job FROM headrace_history WHERE seq > :after ORDER BY seq LIMIT :limit) AS entry;

-- name: newly_filed_logs
SELECT json_build_array(coalesce(max(seq), :after), count(*), coalesce(json_agg(DISTINCT job), '[]'))::text FROM (
    SELECT seq, job FROM headrace_logs WHERE seq > :after ORDER BY seq LIMIT :limit) AS entry;
