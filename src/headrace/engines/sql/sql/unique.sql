-- name: record_changes
{count
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, finished_at,
                              detail)
SELECT seq, :now, :event, state, :target, version + 1, attempt, worker, started_at, finished_at, :detail
FROM headrace_jobs WHERE seq {in_numbers :seqs}};

-- name: drop_tags
{count DELETE FROM headrace_tags WHERE job {in_numbers :seqs}};

-- `seq + 0`: in the order of all jobs it would read all of them.
-- name: lock_open_of_keys
SELECT {rows unique_key, seq, id, state, reason} FROM (
    SELECT job.unique_key, job.seq, job.id, job.state, job.reason FROM headrace_jobs AS job
    WHERE job.unique_key {in_texts :keys}
      AND job.state IN ('scheduled', 'waiting', 'pending', 'running', 'retrying')
    ORDER BY job.seq + 0 {lock FOR UPDATE}) AS open_jobs;

-- name: request_cancel
{count UPDATE headrace_jobs SET {next_version :now}, reason = :reason WHERE seq {in_numbers :seqs}};

-- name: record_superseded
{count
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, detail)
SELECT seq, :now, 'supersede', state, state, version, attempt, :detail
FROM headrace_jobs WHERE {has_id :id}};
