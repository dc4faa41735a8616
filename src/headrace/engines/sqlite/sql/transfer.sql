-- name: import_jobs (each r: ImportedJob)
INSERT INTO headrace_jobs ({ImportedJob}) SELECT {r.ImportedJob}
FROM json_each(:r) AS r
ORDER BY r.key;

-- name: export_history
SELECT json_group_array(json_array(job, json_array({HistoryRow}))) FROM (
    SELECT * FROM headrace_history WHERE job IN (SELECT value FROM json_each(:seqs)) ORDER BY seq);

-- The stream of a job follows its log.
-- name: export_logs
SELECT json_group_array(json_array(job, json_array({LogLine}))) FROM (
    SELECT * FROM headrace_logs WHERE job IN (SELECT value FROM json_each(:seqs)) ORDER BY level = 'stream', seq);

-- name: import_tags (each r: JobRow)
INSERT OR IGNORE INTO headrace_tags (tag, job)
SELECT tag.value, job.seq
FROM json_each(:r) AS r
JOIN headrace_jobs AS job ON job.id = r.id
JOIN json_each(r.tags) AS tag;
