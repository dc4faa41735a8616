-- Schedules.

-- name: schedules
SELECT coalesce(json_agg(json_build_array(id, version, due_at, body) ORDER BY id), '[]')::text FROM headrace_schedules;

-- name: count_schedules
SELECT count(*) FROM headrace_schedules;

-- name: schedule
SELECT coalesce(json_agg(json_build_array(id, version, due_at, body)), '[]')::text FROM headrace_schedules WHERE id = :id;

-- name: add_schedule
INSERT INTO headrace_schedules (id, version, due_at, body) VALUES (:id, :version, :due_at, :body)
ON CONFLICT DO NOTHING;

-- name: put_schedule
UPDATE headrace_schedules SET version = version + 1, due_at = :due_at, body = :body
WHERE id = :id AND version = :version;

-- In one order for all transactions, so that they cannot deadlock.
-- name: lock_schedules
SELECT coalesce(json_agg(id), '[]')::text FROM (
    SELECT known.id FROM jsonb_array_elements(:s::jsonb) AS s(value)
    JOIN headrace_schedules AS known ON known.id = s.value ->> 0 AND known.version = (s.value ->> 1)::bigint
    ORDER BY known.id
    FOR UPDATE OF known) AS locked;

-- name: fire_schedules
UPDATE headrace_schedules AS known
SET version = known.version + 1, due_at = (s.value ->> 2)::bigint, body = s.value ->> 3
FROM jsonb_array_elements(:s::jsonb) AS s(value)
WHERE known.id = s.value ->> 0 AND known.version = (s.value ->> 1)::bigint;

-- name: delete_schedule
DELETE FROM headrace_schedules WHERE id = :id AND version = coalesce(:version, version);

-- name: delete_occurrences
DELETE FROM headrace_occurrences WHERE schedule = :id;

-- name: due_schedules
SELECT coalesce(json_agg(json_build_array(id, version, due_at, body) ORDER BY due_at, id), '[]')::text FROM (
    SELECT id, version, due_at, body FROM headrace_schedules
    WHERE due_at <= :now AND due_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'status')
    ORDER BY due_at, id LIMIT :limit) AS due;

-- name: next_due
SELECT (SELECT due_at FROM headrace_schedules WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1);

-- name: add_occurrences (each c: Occurrence)
INSERT INTO headrace_occurrences (schedule, at, recorded_at, status, job_id, detail, skipped)
SELECT c.schedule, c.at, c.recorded_at, c.status, c.job_id, c.detail, c.skipped
FROM jsonb_array_elements(:c::jsonb) WITH ORDINALITY AS c(value, key)
ORDER BY c.key;

-- name: trim_occurrences
DELETE FROM headrace_occurrences
WHERE schedule = :id AND seq <= (SELECT seq FROM headrace_occurrences WHERE schedule = :id
                                 ORDER BY seq DESC LIMIT 1 OFFSET :keep);

-- name: occurrences
SELECT coalesce(json_agg(json_build_array({Occurrence})), '[]')::text FROM (
    SELECT * FROM headrace_occurrences WHERE schedule = :id ORDER BY seq DESC LIMIT :limit) AS newest;
