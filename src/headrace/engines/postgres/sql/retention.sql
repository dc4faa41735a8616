-- A lookup for each flow, whatever the planner estimates: a join would read every job.
-- name: open_flows
SELECT coalesce(json_agg(given.name), '[]')::text FROM jsonb_array_elements_text(:ids::jsonb) AS given(name)
CROSS JOIN LATERAL (
    SELECT 1 FROM headrace_jobs AS job
    WHERE job.flow = given.name
      AND (job.state NOT IN ('completed', 'failed', 'cancelled')
           OR (job.state = 'failed' AND EXISTS (
                   SELECT 1 FROM headrace_dead_letters AS dead_letter
                   WHERE dead_letter.job_id = job.id AND dead_letter.status = 'pending')))
    LIMIT 1) AS busy;

-- Jobs that others have locked are left for the next retention run.
-- name: lock_jobs_to_delete (each lease: Lease)
SELECT coalesce(json_agg(json_build_array(seq, id, has_dependencies, flow, state)), '[]')::text FROM (
    SELECT job.seq, job.id, job.has_dependencies, job.flow, job.state
    FROM jsonb_array_elements(:lease::jsonb) AS lease(value), headrace_jobs AS job
    WHERE job.{has_id lease.id} AND job.version = lease.version AND jsonb_typeof(lease.value) = 'array'
      AND job.state IN ('completed', 'failed', 'cancelled')
      AND NOT EXISTS (SELECT 1 FROM headrace_dead_letters AS dead_letter WHERE dead_letter.job_id = job.id AND dead_letter.status = 'pending')
    FOR UPDATE OF job SKIP LOCKED) AS to_delete;
