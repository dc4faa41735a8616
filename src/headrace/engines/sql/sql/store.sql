-- name: store_status
SELECT (SELECT value FROM headrace_store WHERE name = 'status');

-- name: put_store_status
INSERT INTO headrace_store (name, value) VALUES ('status', :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: drop_store_status
DELETE FROM headrace_store WHERE name = 'status';

-- name: first_store_status
INSERT INTO headrace_store (name, value) VALUES ('status', :value) ON CONFLICT DO NOTHING;

-- name: change_store_status
UPDATE headrace_store SET value = :value WHERE name = 'status' AND value = :expected;

-- name: drop_this_store_status
DELETE FROM headrace_store WHERE name = 'status' AND value = :expected;

-- name: hold_store_status
SELECT (SELECT value FROM headrace_store WHERE name = 'status' {lock FOR SHARE});
