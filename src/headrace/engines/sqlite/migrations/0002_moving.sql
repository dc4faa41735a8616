-- needs: 1
-- What is true of the store as a whole: what hangs at its door while its jobs are carried over to another one.
CREATE TABLE headrace_store (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
