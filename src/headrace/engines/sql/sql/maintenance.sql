-- Maintenance of the store: orphans, lost jobs, and histories that are too long.
-- Slow searches are reads, and the rows are then deleted by number: no writer waits for a search.

-- name: orphan_history
SELECT {list job} FROM (
    SELECT entry.job FROM headrace_history AS entry
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit) AS orphans;

-- name: drop_orphan_history
DELETE FROM headrace_history WHERE seq {in
    SELECT entry.seq FROM headrace_history AS entry WHERE entry.job {in_numbers :seqs}
      AND NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit};

-- name: orphan_logs
SELECT {list job} FROM (
    SELECT entry.job FROM headrace_logs AS entry
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit) AS orphans;

-- name: drop_orphan_logs
DELETE FROM headrace_logs WHERE seq {in
    SELECT entry.seq FROM headrace_logs AS entry WHERE entry.job {in_numbers :seqs}
      AND NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit};

-- name: orphan_steps
SELECT {list job} FROM (
    SELECT entry.job FROM headrace_steps AS entry
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit) AS orphans;

-- name: orphan_tags
SELECT {list job} FROM (
    SELECT entry.job FROM headrace_tags AS entry
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job) LIMIT :limit) AS orphans;

-- name: drop_orphan_tags
DELETE FROM headrace_tags AS entry WHERE entry.job {in_numbers :seqs}
  AND NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = entry.job);

-- name: orphan_dependencies
SELECT {list child} FROM (
    SELECT edge.child FROM headrace_dependencies AS edge
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = edge.child)
       OR NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = edge.parent) LIMIT :limit) AS orphans;

-- name: drop_orphan_dependencies
DELETE FROM headrace_dependencies AS edge WHERE edge.child {in_numbers :seqs}
  AND (NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = edge.child)
       OR NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.seq = edge.parent));

-- name: orphan_flows
SELECT {list id} FROM (
    SELECT flow.id FROM headrace_flows AS flow
    WHERE NOT EXISTS (SELECT 1 FROM headrace_jobs AS job WHERE job.flow = flow.id) LIMIT :limit) AS orphans;

-- name: too_long_history
SELECT {list CAST(seqs.value AS bigint)} FROM {each seqs}
WHERE (SELECT count(*) FROM headrace_history AS entry WHERE entry.job = CAST(seqs.value AS bigint)) > :most;

-- name: surplus_history
SELECT {list seq} FROM (
    SELECT seq FROM (
        SELECT entry.seq, entry.error_type IS NOT NULL AS is_error, row_number() OVER (ORDER BY entry.seq) AS place,
               count(*) OVER () AS entries
        FROM headrace_history AS entry WHERE entry.job = :job) AS placed
    WHERE place > :first AND place <= entries - :newest
    ORDER BY is_error, seq LIMIT :limit) AS surplus;

-- name: drop_history
DELETE FROM headrace_history WHERE seq {in_numbers :seqs};

-- name: too_long_logs
SELECT {list CAST(seqs.value AS bigint)} FROM {each seqs}
WHERE (SELECT count(*) FROM headrace_logs AS entry
       WHERE entry.job = CAST(seqs.value AS bigint) AND entry.level <> 'stream') > :most;

-- name: surplus_logs
SELECT {list seq} FROM (
    SELECT seq FROM (
        SELECT entry.seq, entry.level IN ('error', 'critical') AS is_error, row_number() OVER (ORDER BY entry.seq) AS place,
               count(*) OVER () AS entries
        FROM headrace_logs AS entry WHERE entry.job = :job AND entry.level <> 'stream') AS placed
    WHERE place > :first AND place <= entries - :newest
    ORDER BY is_error, seq LIMIT :limit) AS surplus;

-- name: drop_logs
DELETE FROM headrace_logs WHERE seq {in_numbers :seqs};

-- name: length_history
SELECT count(*) FROM headrace_history WHERE job = :job;

-- name: length_logs
SELECT count(*) FROM headrace_logs WHERE job = :job AND level <> 'stream';
