-- name: open_flows
SELECT json_group_array(flow.value) FROM json_each(:ids) AS flow
WHERE EXISTS (SELECT 1 FROM headrace_jobs AS job
              WHERE job.flow = flow.value
                AND (job.state NOT IN ('completed', 'failed', 'cancelled')
                     OR (job.state = 'failed' AND EXISTS (
                             SELECT 1 FROM headrace_dead_letters AS dead_letter
                             WHERE dead_letter.job_id = job.id AND dead_letter.status = 'pending'))));

-- name: lock_jobs_to_delete (each lease: Lease)
SELECT json_group_array(json_array(job.seq, job.id, job.has_dependencies, job.flow, job.state)) FROM json_each(:lease) AS lease
JOIN headrace_jobs AS job ON job.id = lease.id AND job.version = lease.version
WHERE job.state IN ('completed', 'failed', 'cancelled')
  AND NOT EXISTS (SELECT 1 FROM headrace_dead_letters AS dead_letter WHERE dead_letter.job_id = job.id AND dead_letter.status = 'pending');
