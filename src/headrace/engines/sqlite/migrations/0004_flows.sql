-- Flows: jobs that were made together.
CREATE TABLE headrace_flows (
    id         TEXT    PRIMARY KEY,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
ALTER TABLE headrace_jobs ADD COLUMN flow TEXT;
CREATE INDEX headrace_jobs_flow ON headrace_jobs (flow, seq) WHERE flow IS NOT NULL;

-- Whether the end of a job, or its success, concerns others: a job without kin never has to look at the bonds.
ALTER TABLE headrace_jobs ADD COLUMN kin INTEGER NOT NULL DEFAULT 0;

-- Which job waits for which; see core/jobs/dependencies.py.
CREATE TABLE headrace_bonds (
    child  INTEGER NOT NULL REFERENCES headrace_jobs (seq) ON DELETE CASCADE,
    parent INTEGER NOT NULL REFERENCES headrace_jobs (seq) ON DELETE CASCADE,
    policy TEXT    NOT NULL,
    blocks INTEGER NOT NULL,
    PRIMARY KEY (child, parent)
) WITHOUT ROWID;
CREATE INDEX headrace_bonds_parent ON headrace_bonds (parent, child);
CREATE INDEX headrace_bonds_blocking ON headrace_bonds (child) WHERE blocks;
