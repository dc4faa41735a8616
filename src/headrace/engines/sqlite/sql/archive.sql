-- The archive: each partition is a file of its own, with these tables. The file of the jobs has none of them, except in
-- a backup, which has the whole archive in its one file.

-- name: archive_tables
CREATE TABLE IF NOT EXISTS headrace_archive (
    seq         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL,
    task        TEXT    NOT NULL,
    queue       TEXT    NOT NULL,
    state       TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    duration    INTEGER,
    attempts    INTEGER NOT NULL,
    summary     TEXT,
    tags        TEXT,
    body        BLOB    NOT NULL,
    bytes       INTEGER NOT NULL
);

-- name: archive_index_of_ids
CREATE UNIQUE INDEX IF NOT EXISTS headrace_archive_id ON headrace_archive (id, created_at);

-- name: archive_index_of_ends
CREATE INDEX IF NOT EXISTS headrace_archive_finished ON headrace_archive (finished_at, id);

-- name: archive_index_of_tasks
CREATE INDEX IF NOT EXISTS headrace_archive_task ON headrace_archive (task, duration);

-- name: archive_is_there
SELECT count(*) FROM sqlite_master WHERE name = 'headrace_archive_task';

-- name: archive_add
INSERT INTO headrace_archive ({ArchiveRow}) VALUES {rows}
ON CONFLICT (id, created_at) DO UPDATE
SET task = excluded.task, queue = excluded.queue, state = excluded.state, finished_at = excluded.finished_at,
    duration = excluded.duration, attempts = excluded.attempts, summary = excluded.summary, tags = excluded.tags,
    body = excluded.body, bytes = excluded.bytes
WHERE excluded.finished_at >= headrace_archive.finished_at;

-- name: archive_page
SELECT seq, {ArchiveRow} FROM headrace_archive WHERE seq > :after ORDER BY seq LIMIT :limit;

-- name: archive_of_copy
SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'headrace_archive';

-- name: archive_size
SELECT count(*) FROM headrace_archive;

-- name: archive_supersede
DELETE FROM headrace_archive WHERE id = ? AND created_at = ? AND finished_at < ?;

-- name: archive_remove
DELETE FROM headrace_archive WHERE id = ? AND created_at = ? AND finished_at = ?;

-- name: where_archived_tag
json_valid(kept.tags) AND :tag IN (SELECT value FROM json_each(iif(json_valid(kept.tags), kept.tags, '[]')))

-- name: archive_durations
SELECT kept.task, kept.duration FROM headrace_archive AS kept WHERE kept.duration IS NOT NULL AND {where};
