-- name: export_history
SELECT coalesce(json_agg(json_build_array(job, json_build_array({HistoryRow})) ORDER BY seq), '[]')::text
FROM jsonb_array_elements(:seqs::jsonb) AS exported CROSS JOIN LATERAL (
    SELECT * FROM headrace_history WHERE job = exported::bigint OFFSET 0) AS entry;

-- name: export_logs
SELECT coalesce(json_agg(json_build_array(job, json_build_array({LogLine})) ORDER BY seq), '[]')::text
FROM jsonb_array_elements(:seqs::jsonb) AS exported CROSS JOIN LATERAL (
    SELECT * FROM headrace_logs WHERE job = exported::bigint OFFSET 0) AS logged;

-- name: import_tags (each r: JobRow)
INSERT INTO headrace_tags (tag, job)
SELECT tag, job.seq
FROM jsonb_array_elements(:r::jsonb) AS r(value)
JOIN headrace_jobs AS job ON job.id = ANY (ARRAY[r.id])
CROSS JOIN jsonb_array_elements_text(job.tags::jsonb) AS tag
WHERE jsonb_typeof(r.value) = 'array'
ON CONFLICT DO NOTHING;
