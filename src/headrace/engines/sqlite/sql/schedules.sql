-- Schedules.

-- name: schedules
SELECT json_group_array(json_array(id, version, due_at, body)) FROM (SELECT * FROM headrace_schedules ORDER BY id);

-- name: count_schedules
SELECT count(*) FROM headrace_schedules;

-- name: schedule
SELECT json_group_array(json_array(id, version, due_at, body)) FROM headrace_schedules WHERE id = :id;

-- name: add_schedule
INSERT OR IGNORE INTO headrace_schedules (id, version, due_at, body) VALUES (:id, :version, :due_at, :body);

-- name: put_schedule
UPDATE headrace_schedules SET version = version + 1, due_at = :due_at, body = :body
WHERE id = :id AND version = :version;

-- name: lock_schedules
SELECT json_group_array(known.id) FROM json_each(:s) AS s
JOIN headrace_schedules AS known
  ON known.id = json_extract(s.value, '$[0]') AND known.version = json_extract(s.value, '$[1]');

-- name: fire_schedules
UPDATE headrace_schedules
SET version = version + 1, due_at = json_extract(s.value, '$[2]'), body = json_extract(s.value, '$[3]')
FROM json_each(:s) AS s
WHERE headrace_schedules.id = json_extract(s.value, '$[0]') AND version = json_extract(s.value, '$[1]');

-- name: delete_schedule
DELETE FROM headrace_schedules WHERE id = :id AND version = coalesce(:version, version);

-- name: delete_occurrences
DELETE FROM headrace_occurrences WHERE schedule = :id;

-- name: due_schedules
SELECT json_group_array(json_array(id, version, due_at, body)) FROM (
    SELECT * FROM headrace_schedules
    WHERE due_at <= :now AND due_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'status')
    ORDER BY due_at, id LIMIT :limit);

-- name: next_due
SELECT min(due_at) FROM headrace_schedules WHERE due_at IS NOT NULL;

-- name: add_occurrences (each c: Occurrence)
INSERT INTO headrace_occurrences (schedule, at, recorded_at, status, job_id, detail, skipped)
SELECT c.schedule, c.at, c.recorded_at, c.status, c.job_id, c.detail, c.skipped FROM json_each(:c) AS c
ORDER BY c.key;

-- name: trim_occurrences
DELETE FROM headrace_occurrences
WHERE schedule = :id AND seq <= (SELECT seq FROM headrace_occurrences WHERE schedule = :id
                                 ORDER BY seq DESC LIMIT 1 OFFSET :keep);

-- name: occurrences
SELECT json_group_array(json_array({Occurrence})) FROM (
    SELECT * FROM headrace_occurrences WHERE schedule = :id ORDER BY seq DESC LIMIT :limit);
