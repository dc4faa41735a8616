-- Jobs. `seq` is the short inner name, `id` the public one. A partial index for each waiting state keeps a claim
-- as fast after years of history as on the first day.
CREATE TABLE headrace_jobs (
    seq             INTEGER PRIMARY KEY,
    id              TEXT    NOT NULL UNIQUE,
    task            TEXT    NOT NULL,
    queue           TEXT    NOT NULL,
    -- The three states of nearly every write are compared first: a plain IN of all eight costs a tenth of a settle.
    state           TEXT    NOT NULL CHECK (state = 'pending' OR state = 'running' OR state = 'completed'
                                            OR state IN ('scheduled', 'waiting', 'retrying', 'failed', 'cancelled')),
    priority        INTEGER NOT NULL CHECK (priority BETWEEN -100 AND 100),
    rank            INTEGER NOT NULL,
    version         INTEGER NOT NULL,
    attempt         INTEGER NOT NULL DEFAULT 0,
    max_attempts    INTEGER NOT NULL,
    crashes         INTEGER NOT NULL DEFAULT 0,
    releases        INTEGER NOT NULL DEFAULT 0,
    payload         TEXT    NOT NULL,
    checksum        INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    run_at          INTEGER NOT NULL,
    expires_at      INTEGER,
    started_at      INTEGER,
    finished_at     INTEGER,
    worker          TEXT,
    lease_until     INTEGER,
    result          TEXT,
    result_checksum INTEGER,
    progress        TEXT,
    reason          TEXT,
    options         TEXT,
    tags            TEXT,
    metadata        TEXT,
    CHECK ((state = 'running') = (lease_until IS NOT NULL))
);
CREATE INDEX headrace_jobs_pending ON headrace_jobs (queue, priority DESC, rank, seq) WHERE state = 'pending';
CREATE INDEX headrace_jobs_due ON headrace_jobs (run_at, queue, state) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX headrace_jobs_waiting ON headrace_jobs (queue) WHERE state = 'waiting';
CREATE INDEX headrace_jobs_leased ON headrace_jobs (lease_until) WHERE state = 'running';
CREATE INDEX headrace_jobs_finished ON headrace_jobs (queue, state, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX headrace_jobs_failed ON headrace_jobs (seq) WHERE state = 'failed';
CREATE INDEX headrace_jobs_cancelled ON headrace_jobs (seq) WHERE state = 'cancelled';
CREATE INDEX headrace_jobs_lapsing ON headrace_jobs (expires_at)
    WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'waiting', 'pending', 'retrying');

CREATE TABLE headrace_tags (
    tag TEXT    NOT NULL,
    job INTEGER NOT NULL REFERENCES headrace_jobs (seq) ON DELETE CASCADE,
    PRIMARY KEY (tag, job)
) WITHOUT ROWID;
CREATE INDEX headrace_tags_job ON headrace_tags (job);

-- What a job's own row can't tell: attempts that did not succeed, an operator's acts, recoveries, late settles.
CREATE TABLE headrace_history (
    seq             INTEGER PRIMARY KEY,
    job             INTEGER NOT NULL REFERENCES headrace_jobs (seq) ON DELETE CASCADE,
    at              INTEGER NOT NULL,
    event           TEXT    NOT NULL,
    source          TEXT    NOT NULL,
    target          TEXT    NOT NULL,
    version         INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    worker          TEXT,
    started_at      INTEGER,
    finished_at     INTEGER,
    detail          TEXT,
    error_type      TEXT,
    error_message   TEXT,
    error_traceback TEXT
);
CREATE INDEX headrace_history_job ON headrace_history (job);

CREATE TABLE headrace_logs (
    seq     INTEGER PRIMARY KEY,
    job     INTEGER NOT NULL REFERENCES headrace_jobs (seq) ON DELETE CASCADE,
    at      INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    level   TEXT    NOT NULL,
    message TEXT    NOT NULL,
    fields  TEXT
);
CREATE INDEX headrace_logs_job ON headrace_logs (job);

-- Investigation records. They outlive the job's row, hence no foreign key; one may be pending for a job.
CREATE TABLE headrace_dead (
    id          TEXT    PRIMARY KEY,
    job_id      TEXT    NOT NULL,
    task        TEXT    NOT NULL,
    queue       TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    entered_at  INTEGER NOT NULL,
    status      TEXT    NOT NULL DEFAULT 'pending',
    resolved_at INTEGER,
    resolved_by TEXT,
    snapshot    TEXT    NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX headrace_dead_pending ON headrace_dead (job_id) WHERE status = 'pending';

CREATE TABLE headrace_queues (
    name       TEXT    PRIMARY KEY,
    paused     INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE headrace_workers (
    id          TEXT    PRIMARY KEY,
    host        TEXT    NOT NULL,
    pid         INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL,
    state       TEXT    NOT NULL,
    wish        TEXT    NOT NULL DEFAULT 'run',
    queues      TEXT    NOT NULL,
    concurrency INTEGER NOT NULL,
    running     INTEGER NOT NULL,
    completed   INTEGER NOT NULL,
    failed      INTEGER NOT NULL,
    tasks       TEXT    NOT NULL,
    heartbeat   INTEGER NOT NULL
) WITHOUT ROWID;
