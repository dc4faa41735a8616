-- The fragments of searches. Each names its index: the planner would choose by its estimate of the number of jobs.

-- Walks: from :before (excluded) back to :floor.

-- name: by_number
headrace_jobs AS job NOT INDEXED WHERE job.seq < :before AND job.seq >= :floor

-- name: by_tag
headrace_tags AS tags CROSS JOIN headrace_jobs AS job NOT INDEXED
WHERE tags.tag = :tag AND tags.job < :before AND tags.job >= :floor AND job.seq = tags.job

-- name: by_flow
headrace_jobs AS job INDEXED BY headrace_jobs_flow
WHERE job.flow = :flow AND job.seq < :before AND job.seq >= :floor

-- name: by_failed
headrace_jobs AS job INDEXED BY headrace_jobs_failed
WHERE job.state = 'failed' AND job.seq < :before AND job.seq >= :floor

-- name: by_cancelled
headrace_jobs AS job INDEXED BY headrace_jobs_cancelled
WHERE job.state = 'cancelled' AND job.seq < :before AND job.seq >= :floor

-- name: by_id
headrace_jobs AS job WHERE job.id IN (SELECT value FROM json_each(:ids)) AND job.seq < :before AND job.seq >= :floor

-- name: by_numbers
headrace_jobs AS job NOT INDEXED WHERE job.seq IN (SELECT value FROM json_each(:seqs))

-- The contents of indexes.

-- name: in_number
SELECT job.seq FROM headrace_jobs AS job NOT INDEXED WHERE true

-- name: in_flow
SELECT job.seq FROM headrace_jobs AS job INDEXED BY headrace_jobs_flow WHERE job.flow = :flow

-- name: in_failed
SELECT job.seq FROM headrace_jobs AS job INDEXED BY headrace_jobs_failed WHERE job.state = 'failed'

-- name: in_cancelled
SELECT job.seq FROM headrace_jobs AS job INDEXED BY headrace_jobs_cancelled WHERE job.state = 'cancelled'

-- name: in_pending
SELECT job.seq FROM headrace_jobs AS job INDEXED BY headrace_jobs_pending WHERE job.state = 'pending'

-- name: in_pending_of_queue
SELECT job.seq FROM headrace_jobs AS job INDEXED BY headrace_jobs_pending
WHERE job.state = 'pending' AND job.queue = :queue

-- name: in_waiting
SELECT job.seq FROM headrace_jobs AS job INDEXED BY headrace_jobs_waiting WHERE job.state = 'waiting'

-- name: in_waiting_of_queue
SELECT job.seq FROM headrace_jobs AS job INDEXED BY headrace_jobs_waiting
WHERE job.state = 'waiting' AND job.queue = :queue

-- name: in_running
SELECT job.seq FROM headrace_jobs AS job INDEXED BY headrace_jobs_leased WHERE job.state = 'running'

-- name: in_due
SELECT job.seq FROM headrace_jobs AS job INDEXED BY headrace_jobs_due WHERE job.state IN ('scheduled', 'retrying')

-- For each queue: the state is the second column of the index.
-- name: in_finished
SELECT job.seq FROM headrace_queues AS queue CROSS JOIN headrace_jobs AS job INDEXED BY headrace_jobs_finished
WHERE job.queue = queue.name AND job.state = :state AND job.finished_at IS NOT NULL

-- name: in_finished_of_queue
SELECT job.seq FROM headrace_jobs AS job INDEXED BY headrace_jobs_finished
WHERE job.queue = :queue AND job.state = :state AND job.finished_at IS NOT NULL

-- Conditions on each job, besides the `where_` fragments.

-- name: where_tagged
EXISTS (SELECT 1 FROM headrace_tags AS tags WHERE tags.tag = :tag AND tags.job = job.seq)
