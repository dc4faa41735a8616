-- Maintenance of the store: orphans, lost jobs, and histories that are too long.
-- Slow searches are reads, and the rows are then deleted by number: no writer waits for a search.

-- name: orphan_history
SELECT coalesce(json_agg(job), '[]')::text FROM (
    SELECT entry.job FROM headrace_history AS entry
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit) AS orphans;

-- name: drop_orphan_history
DELETE FROM headrace_history WHERE ctid = ANY (ARRAY(
    SELECT entry.ctid FROM headrace_history AS entry
    WHERE entry.job IN (SELECT value::bigint FROM jsonb_array_elements_text(:seqs::jsonb))
      AND NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit));

-- name: orphan_logs
SELECT coalesce(json_agg(job), '[]')::text FROM (
    SELECT entry.job FROM headrace_logs AS entry
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit) AS orphans;

-- name: drop_orphan_logs
DELETE FROM headrace_logs WHERE ctid = ANY (ARRAY(
    SELECT entry.ctid FROM headrace_logs AS entry
    WHERE entry.job IN (SELECT value::bigint FROM jsonb_array_elements_text(:seqs::jsonb))
      AND NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit));

-- name: orphan_steps
SELECT coalesce(json_agg(job), '[]')::text FROM (
    SELECT entry.job FROM headrace_steps AS entry
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit) AS orphans;

-- name: drop_orphan_steps
DELETE FROM headrace_steps WHERE ctid = ANY (ARRAY(
    SELECT entry.ctid FROM headrace_steps AS entry
    WHERE entry.job IN (SELECT value::bigint FROM jsonb_array_elements_text(:seqs::jsonb))
      AND NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit));

-- name: orphan_tags
SELECT coalesce(json_agg(job), '[]')::text FROM (
    SELECT entry.job FROM headrace_tags AS entry
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit) AS orphans;

-- name: drop_orphan_tags
DELETE FROM headrace_tags AS entry WHERE entry.job IN (SELECT value::bigint FROM jsonb_array_elements_text(:seqs::jsonb))
  AND NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job);

-- name: orphan_dependencies
SELECT coalesce(json_agg(child), '[]')::text FROM (
    SELECT edge.child FROM headrace_dependencies AS edge
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = edge.child)
       OR NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = edge.parent) LIMIT :limit) AS orphans;

-- name: drop_orphan_dependencies
DELETE FROM headrace_dependencies AS edge WHERE edge.child IN (SELECT value::bigint FROM jsonb_array_elements_text(:seqs::jsonb))
  AND (NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = edge.child)
       OR NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = edge.parent));

-- name: orphan_flows
SELECT coalesce(json_agg(id), '[]')::text FROM (
    SELECT flow.id FROM headrace_flows AS flow
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.flow = flow.id) LIMIT :limit) AS orphans;

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

-- name: too_long_history
SELECT coalesce(json_agg(given.value::bigint), '[]')::text FROM jsonb_array_elements_text(:seqs::jsonb) AS given (value)
WHERE (SELECT count(*) FROM headrace_history AS entry WHERE entry.job = given.value::bigint) > :most;

-- name: surplus_history
SELECT coalesce(json_agg(seq), '[]')::text FROM (
    SELECT seq FROM (
        SELECT entry.seq, entry.error_type IS NOT NULL AS is_error, row_number() OVER (ORDER BY entry.seq) AS place,
               count(*) OVER () AS entries
        FROM headrace_history AS entry WHERE entry.job = :job) AS placed
    WHERE place > :first AND place <= entries - :newest
    ORDER BY is_error, seq LIMIT :limit) AS surplus;

-- name: drop_history
DELETE FROM headrace_history WHERE seq IN (SELECT value::bigint FROM jsonb_array_elements_text(:seqs::jsonb));

-- name: newly_filed_logs
SELECT json_build_array(coalesce(max(seq), :after), count(*), coalesce(json_agg(DISTINCT job), '[]'))::text FROM (
    SELECT seq, job FROM headrace_logs WHERE seq > :after ORDER BY seq LIMIT :limit) AS entry;

-- name: too_long_logs
SELECT coalesce(json_agg(given.value::bigint), '[]')::text FROM jsonb_array_elements_text(:seqs::jsonb) AS given (value)
WHERE (SELECT count(*) FROM headrace_logs AS entry WHERE entry.job = given.value::bigint) > :most;

-- name: surplus_logs
SELECT coalesce(json_agg(seq), '[]')::text FROM (
    SELECT seq FROM (
        SELECT entry.seq, entry.level IN ('error', 'critical') AS is_error, row_number() OVER (ORDER BY entry.seq) AS place,
               count(*) OVER () AS entries
        FROM headrace_logs AS entry WHERE entry.job = :job) AS placed
    WHERE place > :first AND place <= entries - :newest
    ORDER BY is_error, seq LIMIT :limit) AS surplus;

-- name: drop_logs
DELETE FROM headrace_logs WHERE seq IN (SELECT value::bigint FROM jsonb_array_elements_text(:seqs::jsonb));

-- name: length_history
SELECT count(*) FROM headrace_history WHERE job = :job;

-- name: length_logs
SELECT count(*) FROM headrace_logs WHERE job = :job;
