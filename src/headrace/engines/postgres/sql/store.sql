-- name: clock
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- name: ring
SELECT count(pg_notify(:channel, message)) FROM jsonb_array_elements_text(:messages::jsonb) AS message;

-- name: identity
SELECT value FROM headrace_store WHERE name = 'identity';

-- name: store_status
SELECT (SELECT value FROM headrace_store WHERE name = 'notice');

-- name: put_store_status
INSERT INTO headrace_store (name, value) VALUES ('notice', :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: drop_store_status
DELETE FROM headrace_store WHERE name = 'notice';

-- name: first_store_status
INSERT INTO headrace_store (name, value) VALUES ('notice', :value) ON CONFLICT DO NOTHING;

-- name: change_store_status
UPDATE headrace_store SET value = :value WHERE name = 'notice' AND value = :told;

-- name: drop_this_store_status
DELETE FROM headrace_store WHERE name = 'notice' AND value = :told;

-- name: hold_store_status
SELECT (SELECT value FROM headrace_store WHERE name = 'notice' FOR SHARE);

-- The lock waits for every transaction that has begun to insert; who comes later sees the closed door.
-- name: close_inserts
LOCK TABLE headrace_jobs IN SHARE MODE;
INSERT INTO headrace_store (name, value) VALUES ('door', 'closed') ON CONFLICT DO NOTHING;

-- Whoever closes the door waits from now on until this transaction has ended; if it is closed already, the statements
-- that follow see it. By itself, only a write to the table is waited for, and what was read before it may be past.
-- name: hold_inserts
LOCK TABLE headrace_jobs IN ROW EXCLUSIVE MODE;

-- name: open_inserts
DELETE FROM headrace_store WHERE name = 'door';
