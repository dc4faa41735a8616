-- name: insert
INSERT INTO headrace_jobs ({NewJob})
VALUES {rows}
ON CONFLICT (id) DO NOTHING;

-- name: insert_tags (each j: NewJob)
INSERT OR IGNORE INTO headrace_tags (tag, job)
SELECT tag.value, job.seq
FROM json_each(:j) AS j
JOIN headrace_jobs AS job ON job.id = j.id
JOIN json_each(j.tags) AS tag;

-- name: existing_ids
SELECT json_group_array(id) FROM headrace_jobs WHERE id IN (SELECT value FROM json_each(:ids));

-- name: stored_as_given (each j: NewJob)
SELECT json_group_array(job.id)
FROM json_each(:j) AS j
JOIN headrace_jobs AS job ON job.id = j.id AND job.created_at = j.created_at AND job.checksum = j.checksum
                         AND job.task = j.task;
