-- name: import_jobs (each r: ImportedJob)
WITH batch AS MATERIALIZED (
    SELECT value, key FROM jsonb_array_elements(:r::jsonb) WITH ORDINALITY AS given(value, key)
), named AS (
    INSERT INTO headrace_ids (id) SELECT r.id FROM batch AS r ORDER BY r.key RETURNING id, seq
), numbers AS MATERIALIZED (
    SELECT array_agg(seq ORDER BY seq) AS seqs FROM named
)
INSERT INTO headrace_jobs (seq, {ImportedJob})
SELECT numbers.seqs[r.key], {r.ImportedJob} FROM numbers CROSS JOIN batch AS r;

-- name: export_history
SELECT coalesce(json_agg(json_build_array(job, json_build_array({HistoryRow})) ORDER BY seq), '[]')::text
FROM jsonb_array_elements(:seqs::jsonb) AS exported CROSS JOIN LATERAL (
    SELECT * FROM headrace_history WHERE job = exported::bigint OFFSET 0) AS entry;

-- The stream of a job follows its log.
-- name: export_logs
SELECT coalesce(json_agg(json_build_array(job, json_build_array({LogLine})) ORDER BY level = 'stream', seq), '[]')::text
FROM jsonb_array_elements(:seqs::jsonb) AS exported CROSS JOIN LATERAL (
    SELECT * FROM headrace_logs WHERE job = exported::bigint OFFSET 0) AS logged;

-- name: import_tags (each r: JobRow)
INSERT INTO headrace_tags (tag, job)
SELECT tag, job.seq
FROM jsonb_array_elements(:r::jsonb) AS r(value)
JOIN headrace_jobs AS job ON job.{has_id r.id}
CROSS JOIN jsonb_array_elements_text(job.tags::jsonb) AS tag
WHERE jsonb_typeof(r.value) = 'array'
ON CONFLICT DO NOTHING;
