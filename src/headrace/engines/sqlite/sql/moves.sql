-- name: move_delete
DELETE FROM headrace_jobs WHERE seq IN (SELECT value FROM json_each(:seqs));

-- A call that is encrypted or in the payload store is skipped: a match would be chance.
-- name: where_text
(instr(job.id, :text) OR instr(job.task, :text)
 OR (instr(job.payload, :text) AND substr(job.payload, 1, 10) NOT IN ('{"$sealed"', '{"$stored"'))
 OR instr(coalesce(job.reason, ''), :text) OR instr(coalesce(job.metadata, ''), :text))
