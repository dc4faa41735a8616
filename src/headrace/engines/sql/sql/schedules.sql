-- Schedules.

-- name: all_schedules
SELECT {rows id, version, due_at, body} FROM (SELECT * FROM headrace_schedules ORDER BY id) AS known;

-- name: schedules
SELECT {rows id, version, due_at, body} FROM (
    SELECT * FROM headrace_schedules WHERE id {in_texts :ids} ORDER BY id) AS known;

-- name: count_schedules
SELECT count(*) FROM headrace_schedules;

-- name: add_schedule
INSERT INTO headrace_schedules (id, version, due_at, body) VALUES (:id, :version, :due_at, :body)
ON CONFLICT DO NOTHING;

-- name: put_schedule
UPDATE headrace_schedules SET version = version + 1, due_at = :due_at, body = :body
WHERE id = :id AND version = :version;

-- In one order for all transactions, so that they cannot deadlock.
-- name: lock_schedules
SELECT {list id} FROM (
    SELECT known.id FROM {each s}
    JOIN headrace_schedules AS known ON known.id = s.value ->> 0 AND known.version = CAST(s.value ->> 1 AS bigint)
    ORDER BY known.id
    {lock FOR UPDATE OF known}) AS locked;

-- name: fire_schedules
UPDATE headrace_schedules AS known
SET version = known.version + 1, due_at = CAST(s.value ->> 2 AS bigint), body = s.value ->> 3
FROM {each s}
WHERE known.id = s.value ->> 0 AND known.version = CAST(s.value ->> 1 AS bigint);

-- name: delete_schedule
DELETE FROM headrace_schedules WHERE id = :id AND version = coalesce(:version, version);

-- name: delete_occurrences
DELETE FROM headrace_occurrences WHERE schedule = :id;

-- name: due_schedules
SELECT {rows id, version, due_at, body} FROM (
    SELECT * FROM headrace_schedules
    WHERE due_at <= :now AND due_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'status')
    ORDER BY due_at, id LIMIT :limit) AS due;

-- name: next_due
SELECT (SELECT due_at FROM headrace_schedules WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1);

-- name: add_occurrences (each c: Occurrence)
INSERT INTO headrace_occurrences (schedule, at, recorded_at, status, job_id, detail, skipped)
SELECT c.schedule, c.at, c.recorded_at, c.status, c.job_id, c.detail, c.skipped FROM {each c}
ORDER BY c.key;

-- name: trim_occurrences
DELETE FROM headrace_occurrences
WHERE schedule = :id AND seq <= (SELECT seq FROM headrace_occurrences WHERE schedule = :id
                                 ORDER BY seq DESC LIMIT 1 OFFSET :keep);

-- name: occurrences
SELECT {rows {Occurrence}} FROM (
    SELECT * FROM headrace_occurrences WHERE schedule = :id ORDER BY seq DESC LIMIT :limit) AS newest;
