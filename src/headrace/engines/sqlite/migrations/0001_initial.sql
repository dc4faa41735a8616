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
    unique_key      TEXT,
    -- The lane of its limits, '' for none; see core/queues/limits.py.
    lane            TEXT    NOT NULL DEFAULT '',
    flow            TEXT,
    -- Whether the end of the job must consult headrace_dependencies.
    has_dependencies INTEGER NOT NULL DEFAULT 0,
    updated_at      INTEGER,
    CHECK ((state = 'running') = (lease_until IS NOT NULL))
);
CREATE INDEX headrace_jobs_pending ON headrace_jobs (queue, lane, priority DESC, rank, seq) WHERE state = 'pending';
CREATE INDEX headrace_jobs_due ON headrace_jobs (run_at, queue, state) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX headrace_jobs_waiting ON headrace_jobs (queue) WHERE state = 'waiting';
CREATE INDEX headrace_jobs_leased ON headrace_jobs (lease_until) WHERE state = 'running';
CREATE INDEX headrace_jobs_finished ON headrace_jobs (queue, state, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX headrace_jobs_failed ON headrace_jobs (seq) WHERE state = 'failed';
CREATE INDEX headrace_jobs_cancelled ON headrace_jobs (seq) WHERE state = 'cancelled';
CREATE INDEX headrace_jobs_expiring ON headrace_jobs (expires_at)
    WHERE expires_at IS NOT NULL AND state IN ('scheduled', 'waiting', 'pending', 'retrying');
CREATE INDEX headrace_jobs_unique ON headrace_jobs (unique_key, seq) WHERE unique_key IS NOT NULL;
CREATE INDEX headrace_jobs_flow ON headrace_jobs (flow, seq) WHERE flow IS NOT NULL;

-- Flows: jobs that were enqueued together.
CREATE TABLE headrace_flows (
    id         TEXT    PRIMARY KEY,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Which job waits for which; see core/jobs/dependencies.py.
CREATE TABLE headrace_dependencies (
    child  INTEGER NOT NULL REFERENCES headrace_jobs (seq) ON DELETE CASCADE,
    parent INTEGER NOT NULL REFERENCES headrace_jobs (seq) ON DELETE CASCADE,
    policy TEXT    NOT NULL,
    blocks INTEGER NOT NULL,
    PRIMARY KEY (child, parent)
) WITHOUT ROWID;
CREATE INDEX headrace_dependencies_parent ON headrace_dependencies (parent, child);
CREATE INDEX headrace_dependencies_blocking ON headrace_dependencies (child) WHERE blocks;

CREATE TABLE headrace_tags (
    tag TEXT    NOT NULL,
    job INTEGER NOT NULL REFERENCES headrace_jobs (seq) ON DELETE CASCADE,
    PRIMARY KEY (tag, job)
) WITHOUT ROWID;
CREATE INDEX headrace_tags_job ON headrace_tags (job);

-- Events of a job that its own row does not show: failed attempts, changes by an operator, recoveries, late settles.
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
    error_traceback TEXT,
    -- When the job runs next, for an entry that changes this.
    run_at          INTEGER
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

-- Stored for the next attempt of a job: results of steps, ends of sleeps, received events.
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

-- Dead letters. They outlive the job's row, hence no foreign key; a job has at most one that is pending. Ids begin with
-- the time of entry, so that they sort by it. `notes` is JSON.
CREATE TABLE headrace_dead_letters (
    id          TEXT    PRIMARY KEY,
    job_id      TEXT    NOT NULL,
    task        TEXT    NOT NULL,
    queue       TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    entered_at  INTEGER NOT NULL,
    status      TEXT    NOT NULL DEFAULT 'pending',
    resolved_at INTEGER,
    resolved_by TEXT,
    snapshot    TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL DEFAULT '',
    requeues    INTEGER NOT NULL DEFAULT 0,
    notes       TEXT
) WITHOUT ROWID;
CREATE UNIQUE INDEX headrace_dead_letters_pending ON headrace_dead_letters (job_id) WHERE status = 'pending';
-- A row is wide: searches, counts and groups read these indexes alone.
CREATE INDEX headrace_dead_letters_job ON headrace_dead_letters (job_id, id, requeues);
CREATE INDEX headrace_dead_letters_status ON headrace_dead_letters (status, id);
CREATE INDEX headrace_dead_letters_reason ON headrace_dead_letters (status, reason, id, requeues);
CREATE INDEX headrace_dead_letters_task ON headrace_dead_letters (status, task, id);
CREATE INDEX headrace_dead_letters_queue ON headrace_dead_letters (status, queue, id);
CREATE INDEX headrace_dead_letters_fingerprint ON headrace_dead_letters (status, fingerprint, id);
CREATE INDEX headrace_dead_letters_requeues ON headrace_dead_letters (status, requeues, id);

-- Queues, with an operator's rules in JSON.
CREATE TABLE headrace_queues (
    name       TEXT    PRIMARY KEY,
    paused     INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    rules      TEXT
) WITHOUT ROWID;

-- An operator's rules of a task, in JSON.
CREATE TABLE headrace_tasks (
    name  TEXT PRIMARY KEY,
    rules TEXT NOT NULL
) WITHOUT ROWID;

-- When the full burst of each limited rate is available again, in microseconds. A rate without a row has it now.
CREATE TABLE headrace_rate_buckets (
    name    TEXT    PRIMARY KEY,
    full_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Schedules. `body` is the whole record in JSON; the other columns find and fence it.
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

-- Workers. `command` is set by an operator; `capabilities` is JSON.
CREATE TABLE headrace_workers (
    id           TEXT    PRIMARY KEY,
    host         TEXT    NOT NULL,
    pid          INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    seen_at      INTEGER NOT NULL,
    state        TEXT    NOT NULL,
    command      TEXT    NOT NULL DEFAULT 'run',
    queues       TEXT    NOT NULL,
    concurrency  INTEGER NOT NULL,
    running      INTEGER NOT NULL,
    completed    INTEGER NOT NULL,
    failed       INTEGER NOT NULL,
    tasks        TEXT    NOT NULL,
    heartbeat    INTEGER NOT NULL,
    capabilities TEXT    NOT NULL DEFAULT '[]'
) WITHOUT ROWID;

-- Small versioned documents.
CREATE TABLE headrace_documents (
    kind    TEXT NOT NULL,
    key     TEXT NOT NULL,
    version INTEGER NOT NULL,
    value   TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;

-- Values of the store as a whole: the store status during and after a transfer, the last retention run.
CREATE TABLE headrace_store (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- The event log, a batch for each commit; see core/events/log.py. `total` counts the events up to this batch.
CREATE TABLE headrace_events (
    seq   INTEGER PRIMARY KEY,
    at    INTEGER NOT NULL,
    total INTEGER NOT NULL,
    page  TEXT    NOT NULL
);

-- Every history row becomes an event, except while a transfer imports the history of another store.
CREATE TRIGGER headrace_history_event AFTER INSERT ON headrace_history
WHEN NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'events_off')
BEGIN
    INSERT INTO headrace_events (at, total, page)
    SELECT NEW.at, 1 + coalesce((SELECT total FROM headrace_events ORDER BY seq DESC LIMIT 1), 0),
           json_array(json_array('history', NEW.at, job.queue, job.task, NEW.worker, json_array(job.id),
                                 json_array(NEW.attempt), json('[]'), json('[]'), json('[]'), json_array(json_object(
               'event', NEW.event, 'source', NEW.source, 'target', NEW.target, 'started_at', NEW.started_at,
               'finished_at', NEW.finished_at, 'run_at', coalesce(NEW.run_at, job.run_at), 'detail', NEW.detail,
               'error_type', NEW.error_type, 'error_message', substr(NEW.error_message, 1, 500)))))
    FROM headrace_jobs AS job WHERE job.seq = NEW.job;
END;

CREATE TRIGGER headrace_dead_letter_event AFTER INSERT ON headrace_dead_letters
WHEN NEW.status = 'pending' AND NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'events_off')
BEGIN
    INSERT INTO headrace_events (at, total, page)
    SELECT NEW.entered_at, 1 + coalesce((SELECT total FROM headrace_events ORDER BY seq DESC LIMIT 1), 0),
           json_array(json_array('dead.entered', NEW.entered_at, NEW.queue, NEW.task, NULL, json_array(NEW.job_id),
                                 json('[]'), json('[]'), json('[]'), json('[]'), json_array(json_object(
               'id', NEW.id, 'reason', NEW.reason, 'fingerprint', NEW.fingerprint))));
END;

-- A job that fails again while its dead letter is pending gets this dead letter rewritten under a new id.
CREATE TRIGGER headrace_dead_letter_change_event AFTER UPDATE ON headrace_dead_letters
WHEN (NEW.id <> OLD.id OR NEW.status <> OLD.status)
     AND NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'events_off')
BEGIN
    INSERT INTO headrace_events (at, total, page)
    SELECT at, 1 + coalesce((SELECT total FROM headrace_events ORDER BY seq DESC LIMIT 1), 0),
           json_array(json_array(iif(NEW.status = 'pending', 'dead.entered', 'dead.resolved'), at,
                                 NEW.queue, NEW.task, NULL, json_array(NEW.job_id),
                                 json('[]'), json('[]'), json('[]'), json('[]'), json_array(json_object(
               'id', NEW.id, 'reason', NEW.reason, 'fingerprint', NEW.fingerprint, 'status', NEW.status,
               'by', NEW.resolved_by))))
    FROM (SELECT iif(NEW.status = 'pending', NEW.entered_at, coalesce(NEW.resolved_at, NEW.entered_at)) AS at);
END;
