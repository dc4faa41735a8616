-- The rows of a job are found job by job (OFFSET 0 forces that) and deleted by ctid: in one join, a planner that does
-- not know how few rows a job has would read all rows.
-- name: move_delete
WITH gone AS (
    DELETE FROM headrace_jobs WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint)) RETURNING seq
), tags AS (
    DELETE FROM headrace_tags WHERE ctid = ANY (ARRAY(
        SELECT of_one.place FROM gone CROSS JOIN LATERAL (
            SELECT t.ctid AS place FROM headrace_tags AS t WHERE t.job = gone.seq OFFSET 0) AS of_one))
), history AS (
    DELETE FROM headrace_history WHERE ctid = ANY (ARRAY(
        SELECT of_one.place FROM gone CROSS JOIN LATERAL (
            SELECT h.ctid AS place FROM headrace_history AS h WHERE h.job = gone.seq OFFSET 0) AS of_one))
), edges AS (
    DELETE FROM headrace_dependencies WHERE ctid = ANY (ARRAY(
        SELECT of_one.place FROM gone CROSS JOIN LATERAL (
            SELECT b.ctid AS place FROM headrace_dependencies AS b WHERE b.child = gone.seq OFFSET 0) AS of_one
        UNION
        SELECT of_one.place FROM gone CROSS JOIN LATERAL (
            SELECT b.ctid AS place FROM headrace_dependencies AS b WHERE b.parent = gone.seq OFFSET 0) AS of_one))
)
DELETE FROM headrace_logs WHERE ctid = ANY (ARRAY(
    SELECT of_one.place FROM gone CROSS JOIN LATERAL (
        SELECT l.ctid AS place FROM headrace_logs AS l WHERE l.job = gone.seq OFFSET 0) AS of_one));

-- A call that is encrypted or in the payload store is skipped: a match would be chance.
-- name: where_text
(strpos(job.id, :text) > 0 OR strpos(job.task, :text) > 0
 OR (strpos(job.payload, :text) > 0 AND left(job.payload, 10) NOT IN ('{"$sealed"', '{"$stored"'))
 OR strpos(coalesce(job.reason, ''), :text) > 0 OR strpos(coalesce(job.metadata, ''), :text) > 0)
