-- needs: 2
-- By what a job is told from another one of the same kind, for those that ask for it.
ALTER TABLE headrace_jobs ADD COLUMN unique_key TEXT;
CREATE INDEX headrace_jobs_unique ON headrace_jobs (unique_key, seq) WHERE unique_key IS NOT NULL;

-- What an operator asks of a queue, in JSON.
ALTER TABLE headrace_queues ADD COLUMN rules TEXT;

-- Schedules. `body` is the whole row in JSON; beside it stands what it is found and fenced by.
CREATE TABLE headrace_schedules (
    id      TEXT    PRIMARY KEY,
    version INTEGER NOT NULL,
    due_at  INTEGER,
    body    TEXT    NOT NULL
) WITHOUT ROWID;
CREATE INDEX headrace_schedules_due ON headrace_schedules (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE headrace_occurrences (
    seq         INTEGER PRIMARY KEY,
    schedule    TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,
    status      TEXT    NOT NULL,
    job_id      TEXT,
    detail      TEXT,
    skipped     INTEGER NOT NULL
);
CREATE INDEX headrace_occurrences_schedule ON headrace_occurrences (schedule, seq);
