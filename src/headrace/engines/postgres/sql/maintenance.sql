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

-- The table of ids against the table of jobs. No pair of number and id occurs twice in either, so equal sums of bits are
-- equal tables: that is cheap enough for each check, and the search for differences is not.

-- name: ids_differ
SELECT (SELECT bit_xor(hashtextextended(id, seq)) FROM headrace_ids)
       IS DISTINCT FROM (SELECT bit_xor(hashtextextended(id, seq)) FROM headrace_jobs);

-- name: orphan_ids
SELECT {list id} FROM (
    SELECT named.id FROM headrace_ids AS named
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = named.seq AND job.id = named.id)
    LIMIT :limit) AS orphans;

-- name: drop_orphan_ids
DELETE FROM headrace_ids AS named WHERE named.id {in_texts :ids}
  AND NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = named.seq AND job.id = named.id);

-- name: unindexed_jobs
SELECT {list seq} FROM (
    SELECT job.seq FROM headrace_jobs AS job
    WHERE NOT EXISTS (SELECT 1 FROM headrace_ids AS named WHERE named.id = job.id AND named.seq = job.seq)
    LIMIT :limit) AS unindexed;

-- Not over the entry of another job with the same id.
-- name: index_jobs
WITH job AS MATERIALIZED (
    SELECT seq, id FROM headrace_jobs WHERE seq {in_numbers :seqs} ORDER BY seq FOR UPDATE
)
INSERT INTO headrace_ids AS named (seq, id)
SELECT DISTINCT ON (job.id) job.seq, job.id FROM job
WHERE NOT EXISTS (SELECT 1 FROM headrace_ids AS own WHERE own.id = job.id AND own.seq = job.seq)
ORDER BY job.id, job.seq
ON CONFLICT (id) DO UPDATE SET seq = excluded.seq
WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS owner WHERE owner.seq = named.seq AND owner.id = named.id);

-- The outcome of a running job must find it under its id.
-- name: rename_twins
UPDATE headrace_jobs AS job SET id = job.id || '-' || job.seq
WHERE job.seq {in_numbers :seqs} AND job.state <> 'running'
  AND NOT EXISTS (SELECT 1 FROM headrace_ids AS named WHERE named.id = job.id AND named.seq = job.seq);
