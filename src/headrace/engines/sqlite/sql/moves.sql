-- name: move_delete
DELETE FROM headrace_jobs WHERE seq IN (SELECT value FROM json_each(:seqs));

-- An encrypted call is skipped: a match in it would be chance.
-- name: where_text
(instr(job.id, :text) OR instr(job.task, :text)
 OR (instr(job.payload, :text) AND substr(job.payload, 1, 10) <> '{"$sealed"')
 OR instr(coalesce(job.reason, ''), :text) OR instr(coalesce(job.metadata, ''), :text))
