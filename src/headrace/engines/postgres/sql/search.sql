-- The fragments of searches. `OFFSET 0` keeps a walk on its index: further conditions on each job are outside, where
-- they cannot lead the planner to another index.

-- Walks: from :before (excluded) back to :floor.

-- name: by_number
(SELECT * FROM headrace_jobs AS job WHERE job.seq < :before AND job.seq >= :floor
 ORDER BY job.seq DESC OFFSET 0) AS job WHERE true

-- Only its own index has the order by tag, or by flow, as well.
-- name: by_tag
(SELECT tagged.tag, tagged.job FROM headrace_tags AS tagged
 WHERE tagged.tag BETWEEN :tag AND :tag AND tagged.job < :before AND tagged.job >= :floor
 ORDER BY tagged.tag DESC, tagged.job DESC OFFSET 0) AS tags
CROSS JOIN LATERAL (SELECT * FROM headrace_jobs WHERE seq = tags.job OFFSET 0) AS job WHERE true

-- name: by_flow
(SELECT * FROM headrace_jobs AS job
 WHERE job.flow BETWEEN :flow AND :flow AND job.seq < :before AND job.seq >= :floor
 ORDER BY job.flow DESC, job.seq DESC OFFSET 0) AS job WHERE true

-- name: by_failed
(SELECT * FROM headrace_jobs AS job WHERE job.state = 'failed' AND job.seq < :before AND job.seq >= :floor
 ORDER BY job.seq DESC OFFSET 0) AS job WHERE true

-- name: by_cancelled
(SELECT * FROM headrace_jobs AS job WHERE job.state = 'cancelled' AND job.seq < :before AND job.seq >= :floor
 ORDER BY job.seq DESC OFFSET 0) AS job WHERE true

-- name: by_id
(SELECT * FROM headrace_jobs AS job WHERE job.{named :ids} OFFSET 0)
AS job WHERE job.seq < :before AND job.seq >= :floor

-- name: by_numbers
(SELECT * FROM headrace_jobs AS job WHERE job.seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
 ORDER BY job.seq DESC OFFSET 0) AS job WHERE true

-- The contents of indexes.

-- name: in_number
SELECT job.seq FROM headrace_jobs AS job WHERE true

-- name: in_flow
SELECT job.seq FROM headrace_jobs AS job WHERE job.flow = :flow

-- name: in_failed
SELECT job.seq FROM headrace_jobs AS job WHERE job.state = 'failed'

-- name: in_cancelled
SELECT job.seq FROM headrace_jobs AS job WHERE job.state = 'cancelled'

-- name: in_pending
SELECT job.seq FROM headrace_jobs AS job WHERE job.state = 'pending'

-- name: in_pending_of_queue
SELECT job.seq FROM headrace_jobs AS job WHERE job.state = 'pending' AND job.queue = :queue

-- name: in_waiting
SELECT job.seq FROM headrace_jobs AS job WHERE job.state = 'waiting'

-- name: in_waiting_of_queue
SELECT job.seq FROM headrace_jobs AS job WHERE job.state = 'waiting' AND job.queue = :queue

-- name: in_running
SELECT job.seq FROM headrace_jobs AS job WHERE job.state = 'running'

-- name: in_due
SELECT job.seq FROM headrace_jobs AS job WHERE job.state IN ('scheduled', 'retrying')

-- For each queue: the state is the second column of the index.
-- name: in_finished
SELECT job.seq FROM headrace_queues AS queue CROSS JOIN LATERAL (
    SELECT * FROM headrace_jobs WHERE headrace_jobs.queue = queue.name AND state BETWEEN :state AND :state
    AND finished_at IS NOT NULL OFFSET 0) AS job WHERE true

-- With `=` for the state, the planner might read all queues in the state's own index.
-- name: in_finished_of_queue
SELECT job.seq FROM headrace_jobs AS job
WHERE job.queue = :queue AND job.state BETWEEN :state AND :state AND job.finished_at IS NOT NULL

-- Conditions on each job, besides the `where_` fragments.

-- name: where_tagged
EXISTS (SELECT 1 FROM headrace_tags AS tags WHERE tags.tag = :tag AND tags.job = job.seq OFFSET 0)
