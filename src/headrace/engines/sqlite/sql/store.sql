-- name: write_contention
SELECT (SELECT value FROM headrace_store WHERE name = 'write_contention');

-- name: put_write_contention
REPLACE INTO headrace_store (name, value) VALUES ('write_contention', :value);

-- A restored file starts without the write contention of its original.

-- name: drop_write_contention
DELETE FROM headrace_store WHERE name = 'write_contention';

-- name: close_inserts
CREATE TRIGGER IF NOT EXISTS headrace_moved BEFORE INSERT ON headrace_jobs
BEGIN SELECT RAISE(ABORT, 'headrace: this store has moved'); END;

-- There is one writer at a time, so nothing needs a lock.
-- name: hold_inserts
SELECT 1;

-- name: open_inserts
DROP TRIGGER IF EXISTS headrace_moved;
