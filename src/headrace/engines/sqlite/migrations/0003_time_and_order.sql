-- By what a job is told from another one of the same kind, for those that ask for it.
ALTER TABLE headrace_jobs ADD COLUMN unique_key TEXT;
CREATE INDEX headrace_jobs_unique ON headrace_jobs (unique_key, seq) WHERE unique_key IS NOT NULL;

-- What a job's start depends on beside its queue, '' for nothing: see core/queues/limits.py. Jobs wait lane by lane.
ALTER TABLE headrace_jobs ADD COLUMN lane TEXT NOT NULL DEFAULT '';
DROP INDEX headrace_jobs_pending;
CREATE INDEX headrace_jobs_pending ON headrace_jobs (queue, lane, priority DESC, rank, seq) WHERE state = 'pending';

-- When each limited rate will be unspent again, in microseconds. One that is not here is unspent.
CREATE TABLE headrace_buckets (
    name    TEXT    PRIMARY KEY,
    full_at INTEGER NOT NULL
) WITHOUT ROWID;

-- What an operator asks of all jobs of a task, in JSON.
CREATE TABLE headrace_tasks (
    name  TEXT PRIMARY KEY,
    rules TEXT NOT NULL
) WITHOUT ROWID;

-- What a worker has of what jobs may need, in JSON.
ALTER TABLE headrace_workers ADD COLUMN capabilities TEXT NOT NULL DEFAULT '[]';

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
