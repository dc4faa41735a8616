-- What a job remembers for its next attempt: the results of its steps, when its sleeps end, the events that came.
CREATE TABLE headrace_steps (
    seq      INTEGER PRIMARY KEY,
    job      INTEGER NOT NULL REFERENCES headrace_jobs (seq) ON DELETE CASCADE,
    kind     TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    number   INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    value    TEXT,
    checksum INTEGER
);
CREATE UNIQUE INDEX headrace_steps_key ON headrace_steps (job, kind, name, number);
