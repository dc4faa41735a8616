-- name: record_changes
{count
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, finished_at,
                              detail)
SELECT seq, :now, :event, state, :target, version + 1, attempt, worker, started_at, finished_at, :detail
FROM headrace_jobs WHERE seq {in_numbers :seqs}};

-- name: drop_tags
{count DELETE FROM headrace_tags WHERE job {in_numbers :seqs}};
