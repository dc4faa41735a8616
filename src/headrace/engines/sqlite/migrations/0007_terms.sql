-- needs: 6
-- What code declares, and over it what an operator orders, of how long jobs of a task or of a queue may stay: in JSON.
CREATE TABLE headrace_terms (
    kind     TEXT NOT NULL,
    name     TEXT NOT NULL,
    declared TEXT NOT NULL DEFAULT '{}',
    ordered  TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
