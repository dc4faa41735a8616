-- Searches of the archive. The `where_archived_` fragments are the parts of `{where}`.

-- name: where_archived_ids
kept.id {in_texts :ids}

-- name: where_archived_states
kept.state {in_texts :states}

-- name: where_archived_queue
kept.queue = :queue

-- name: where_archived_task
kept.task = :task

-- name: where_archived_since
kept.finished_at >= CAST(:since AS bigint)

-- name: where_archived_until
kept.finished_at < CAST(:until AS bigint)

-- name: where_archived_before
kept.finished_at <= CAST(:before_at AS bigint) AND (kept.finished_at, kept.id) < (CAST(:before_at AS bigint), :before_id)

-- name: archive_find
SELECT {ArchiveRow} FROM headrace_archive AS kept WHERE {where} ORDER BY kept.finished_at DESC, kept.id DESC LIMIT :limit;

-- Not in the order of an index: there are few such rows.
-- name: archive_find_named
SELECT {ArchiveRow} FROM headrace_archive AS kept WHERE {where}
ORDER BY kept.finished_at + 0 DESC, kept.id DESC LIMIT :limit;

-- name: archive_count
SELECT count(*) FROM headrace_archive AS kept WHERE {where};
