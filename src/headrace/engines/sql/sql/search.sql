-- Finding, counting and listing jobs, as search_plan.py decides. `{where}` is built from fragments: most are the
-- engine's own, as they decide which index it reads.

-- name: find
SELECT {rows {JobRow:most}} FROM (SELECT job.* FROM {where} LIMIT :limit) AS found;

-- name: count
SELECT count(*) FROM (SELECT 1 FROM {where} LIMIT :limit) AS found;

-- name: count_all
SELECT count(*) FROM headrace_jobs;

-- name: is_queue
SELECT EXISTS (SELECT 1 FROM headrace_queues WHERE name = :queue);

-- The numbers of jobs in an index, unordered.
-- name: seqs_of
SELECT {list seq} FROM (SELECT seq FROM ({where}) AS held LIMIT :limit) AS found;

-- The job after this many of the index, from the newest or from :before on.
-- name: lowest_seq
SELECT (SELECT seq FROM ({where}) AS held WHERE seq < :before ORDER BY seq DESC LIMIT 1 OFFSET :reach);

-- name: newest_by_number
ORDER BY job.seq DESC

-- name: newest_by_tag
ORDER BY tags.tag DESC, tags.job DESC

-- name: newest_by_flow
ORDER BY job.flow DESC, job.seq DESC

-- name: in_tag
SELECT tags.job AS seq FROM headrace_tags AS tags WHERE tags.tag = :tag
