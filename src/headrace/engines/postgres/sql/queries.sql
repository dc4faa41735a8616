-- name: get
SELECT coalesce(json_agg(json_build_array({JobRow:most})), '[]')::text
FROM (SELECT DISTINCT jsonb_array_elements_text(:ids::jsonb) AS name) AS given
CROSS JOIN LATERAL (SELECT * FROM headrace_jobs WHERE {has_id given.name} OFFSET 0) AS job;

-- name: unfinished
SELECT coalesce(json_agg(id), '[]')::text
FROM (SELECT DISTINCT jsonb_array_elements_text(:ids::jsonb) AS name) AS given
CROSS JOIN LATERAL (
    SELECT id FROM headrace_jobs
    WHERE {has_id given.name} AND state NOT IN ('completed', 'failed', 'cancelled') OFFSET 0) AS job;

-- name: queue_counts
SELECT coalesce(json_agg(json_build_array(queue, state, jobs, oldest)), '[]')::text FROM (
    SELECT queue, 'pending' AS state, count(*) AS jobs, min(abs(rank)) AS oldest
    FROM headrace_jobs WHERE state = 'pending' GROUP BY queue
    UNION ALL
    SELECT queue, state, count(*), min(run_at)
    FROM headrace_jobs WHERE state IN ('scheduled', 'retrying') GROUP BY queue, state
    UNION ALL
    SELECT queue, 'waiting', count(*), NULL FROM headrace_jobs WHERE state = 'waiting' GROUP BY queue
    UNION ALL
    SELECT queue, 'running', count(*), min(started_at) FROM headrace_jobs WHERE state = 'running' GROUP BY queue
    UNION ALL
    SELECT queue, state, count(*), min(finished_at)
    FROM headrace_jobs WHERE :finished AND finished_at IS NOT NULL AND state <> 'waiting' GROUP BY queue, state) AS depths;

-- name: logs
SELECT coalesce(json_agg(json_build_array({LogLine}) ORDER BY seq), '[]')::text FROM (
    SELECT logged.* FROM headrace_jobs AS known CROSS JOIN LATERAL (
        SELECT * FROM headrace_logs AS l WHERE l.job BETWEEN known.seq AND known.seq
          AND l.level <> 'stream'
        ORDER BY l.job DESC, l.seq DESC LIMIT :limit) AS logged
    WHERE known.{has_id :id}) AS newest;

-- name: newest_of_stream
SELECT coalesce(json_agg(json_build_array({LogLine}) ORDER BY seq), '[]')::text FROM (
    SELECT streamed.* FROM headrace_jobs AS known CROSS JOIN LATERAL (
        SELECT * FROM headrace_logs AS l WHERE l.job BETWEEN known.seq AND known.seq AND l.level = 'stream'
        ORDER BY l.job DESC, l.seq DESC LIMIT :limit) AS streamed
    WHERE known.{has_id :id}) AS newest;

-- name: stream
SELECT coalesce(json_agg(json_build_array({LogLine}) ORDER BY seq), '[]')::text FROM (
    SELECT streamed.* FROM headrace_jobs AS known CROSS JOIN LATERAL (
        SELECT * FROM headrace_logs AS l WHERE l.job BETWEEN known.seq AND known.seq AND l.level = 'stream'
        ORDER BY l.job, l.seq LIMIT :limit OFFSET :first) AS streamed
    WHERE known.{has_id :id}) AS wanted;
