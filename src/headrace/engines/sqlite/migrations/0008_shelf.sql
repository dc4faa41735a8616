-- needs: 6
-- Small documents with versions, for all that is kept beside jobs.
CREATE TABLE headrace_shelf (
    kind    TEXT NOT NULL,
    key     TEXT NOT NULL,
    version INTEGER NOT NULL,
    value   TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;
