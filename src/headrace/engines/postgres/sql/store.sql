-- name: clock
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- name: ring
SELECT count(pg_notify(:channel, message)) FROM jsonb_array_elements_text(:messages::jsonb) AS message;

-- name: identity
SELECT value FROM headrace_store WHERE name = 'identity';

-- The lock waits for every transaction that has begun to insert; later ones see that inserts are closed.
-- name: close_inserts
LOCK TABLE headrace_jobs IN SHARE MODE;
INSERT INTO headrace_store (name, value) VALUES ('inserts', 'closed') ON CONFLICT DO NOTHING;

-- Closing inserts waits from now on until this transaction has ended; if they are closed already, the following
-- statements see it. Without this lock it would wait only for a write to the table, and earlier reads could be
-- outdated.
-- name: hold_inserts
LOCK TABLE headrace_jobs IN ROW EXCLUSIVE MODE;

-- name: open_inserts
DELETE FROM headrace_store WHERE name = 'inserts';
