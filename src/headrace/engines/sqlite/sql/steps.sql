-- name: wake_if_come (each o: Outcome)
UPDATE headrace_jobs SET state = 'pending', run_at = :now, reason = NULL,
                         rank = CASE WHEN rank < 0 THEN -:now ELSE :now END
FROM json_each(:o) AS o
WHERE headrace_jobs.id = o.id AND headrace_jobs.version = o.version + 1 AND headrace_jobs.state = 'scheduled'
  AND EXISTS (SELECT 1 FROM headrace_steps AS step
              JOIN json_each(o.awaits) AS event
                ON step.name = event.value ->> 0 AND step.number = event.value ->> 1
              WHERE step.job = headrace_jobs.seq AND step.kind = 'event');

-- name: delete_steps
DELETE FROM headrace_steps WHERE job IN (SELECT value FROM json_each(:seqs));

-- name: delete_steps_of_completed
DELETE FROM headrace_steps
WHERE job IN (SELECT seq FROM headrace_jobs WHERE seq IN (SELECT value FROM json_each(:seqs)) AND state = 'completed');

-- name: export_steps
SELECT json_group_array(json_array(job, json_array({Step}))) FROM (
    SELECT * FROM headrace_steps WHERE job IN (SELECT value FROM json_each(:seqs)) ORDER BY seq);
