-- Events. See core/events/log.py for the format of a page. A page gets its number before its commit, so a later page
-- may appear earlier: nothing is read while an older writing transaction is open.

-- A statement that rings for nothing else rings for the event itself.
-- name: append_events
INSERT INTO headrace_events (at, size, page) VALUES (:at, :size, :page) RETURNING pg_notify(:channel, 'events');

-- Events of jobs that are about to be deleted, by queue and task.
-- name: append_move_events
INSERT INTO headrace_events (at, size, page)
SELECT :now, sum(jobs), json_agg(json_build_array(:type::text, :now::bigint, queue, task, NULL, ids))::text
FROM (SELECT queue, task, count(*) AS jobs, json_agg(id) AS ids FROM headrace_jobs
      WHERE seq = ANY (ARRAY(SELECT value::bigint FROM jsonb_array_elements_text(:seqs::jsonb)))
      GROUP BY queue, task) AS grouped
HAVING count(*) > 0
RETURNING pg_notify(:channel, 'events');

-- A cursor from the future belongs to another server, whose tables were restored here: everything since then is after
-- it. The pages from there are never read.
-- name: read_events
SELECT coalesce(json_agg(json_build_array(xid || '-' || seq, page, only_jobs)), '[]')::text FROM (
    SELECT * FROM headrace_events
    WHERE (xid, seq) > (CASE WHEN split_part(:after, '-', 1)::xid8 < pg_snapshot_xmax(pg_current_snapshot())
                             THEN split_part(:after, '-', 1)::xid8 ELSE '0'::xid8 END,
                        coalesce(nullif(split_part(:after, '-', 2), ''), '0')::bigint - :inside)
      AND xid < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY xid, seq LIMIT :limit) AS page;

-- name: read_events_back
SELECT coalesce(json_agg(json_build_array(xid || '-' || seq, page, only_jobs)), '[]')::text FROM (
    SELECT * FROM headrace_events
    WHERE (xid, seq) > (CASE WHEN split_part(:after, '-', 1)::xid8 < pg_snapshot_xmax(pg_current_snapshot())
                             THEN split_part(:after, '-', 1)::xid8 ELSE '0'::xid8 END,
                        coalesce(nullif(split_part(:after, '-', 2), ''), '0')::bigint - :inside)
      AND xid < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY xid DESC, seq DESC LIMIT :limit) AS page;

-- Every page, also one that readers do not see yet.
-- name: scan_events
SELECT coalesce(json_agg(json_build_array(xid || '-' || seq, page, only_jobs)), '[]')::text FROM (
    SELECT * FROM headrace_events
    WHERE (xid, seq) > (split_part(:after, '-', 1)::xid8, coalesce(nullif(split_part(:after, '-', 2), ''), '0')::bigint)
    ORDER BY xid, seq LIMIT :limit) AS page;

-- name: correct_page
UPDATE headrace_events SET page = :page, only_jobs = NULL
WHERE xid = split_part(:cursor, '-', 1)::xid8 AND seq = split_part(:cursor, '-', 2)::bigint;

-- The oldest pages that are too old or too many. Pages from the future belong to another server, whose tables were
-- restored here: their order is meaningless now, and they do not count.
-- name: trim_events
WITH ahead AS MATERIALIZED (
    SELECT xid, seq FROM headrace_events WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())
    ORDER BY xid DESC, seq DESC LIMIT :limit
), newest AS MATERIALIZED (
    SELECT xid, seq FROM headrace_events WHERE xid < pg_snapshot_xmax(pg_current_snapshot())
    ORDER BY xid DESC, seq DESC LIMIT 1
), beyond AS MATERIALIZED (
    SELECT coalesce(sum(size), 0) - :most AS events FROM headrace_events
    WHERE xid < pg_snapshot_xmax(pg_current_snapshot())
), oldest AS MATERIALIZED (
    SELECT xid, seq, at, sum(size) OVER (ORDER BY xid, seq) AS upto
    FROM (SELECT xid, seq, at, size FROM headrace_events ORDER BY xid, seq LIMIT :limit) AS page
)
DELETE FROM headrace_events AS page
WHERE (page.xid, page.seq) IN (
    SELECT xid, seq FROM ahead
    UNION ALL
    SELECT oldest.xid, oldest.seq FROM oldest, newest, beyond
    WHERE (oldest.xid, oldest.seq) < (newest.xid, newest.seq)
      AND (oldest.at < :before OR oldest.upto <= beyond.events)
    LIMIT :limit);
