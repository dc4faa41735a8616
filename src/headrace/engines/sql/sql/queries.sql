-- name: history
SELECT {rows {HistoryRow}} FROM (
    SELECT * FROM headrace_history WHERE job = (SELECT job.seq FROM headrace_jobs AS job WHERE job.{has_id :id})
    ORDER BY seq) AS entry;
