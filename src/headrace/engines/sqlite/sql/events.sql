-- Events. See core/events/log.py for the format of a page.

-- VALUES, not SELECT: an INSERT that selects from its own table uses a temporary table, which costs more than the page
-- itself.
-- name: append_events
INSERT INTO headrace_events (at, total, page)
VALUES (:at, :size + coalesce((SELECT total FROM headrace_events ORDER BY seq DESC LIMIT 1), 0), :page);

-- name: correct_page
UPDATE headrace_events SET page = :page WHERE seq = CAST(:cursor AS INTEGER);

-- Events of jobs that are about to be deleted, or were just promoted, by queue and task.
-- name: append_move_events
INSERT INTO headrace_events (at, total, page)
SELECT :now, sum(jobs) + coalesce((SELECT total FROM headrace_events ORDER BY seq DESC LIMIT 1), 0),
       json_group_array(json_array(:type, :now, queue, task, NULL, json(ids)))
FROM (SELECT queue, task, count(*) AS jobs, json_group_array(id) AS ids FROM headrace_jobs
      WHERE seq IN (SELECT value FROM json_each(:seqs)) GROUP BY queue, task)
HAVING count(*) > 0;

-- name: read_events
SELECT json_group_array(json_array(seq, page, NULL)) FROM (
    SELECT CAST(seq AS TEXT) AS seq, page FROM headrace_events
    WHERE headrace_events.seq > CAST(:after AS INTEGER) - :inside ORDER BY headrace_events.seq LIMIT :limit);

-- name: read_events_back
SELECT json_group_array(json_array(seq, page, NULL)) FROM (
    SELECT CAST(seq AS TEXT) AS seq, page FROM headrace_events
    WHERE headrace_events.seq > CAST(:after AS INTEGER) - :inside ORDER BY headrace_events.seq DESC LIMIT :limit);

-- name: scan_events
SELECT json_group_array(json_array(seq, page, NULL)) FROM (
    SELECT CAST(seq AS TEXT) AS seq, page FROM headrace_events
    WHERE headrace_events.seq > CAST(:after AS INTEGER) ORDER BY headrace_events.seq LIMIT :limit);

-- name: trim_events
DELETE FROM headrace_events WHERE seq IN (
    SELECT page.seq FROM (SELECT seq, at, total FROM headrace_events ORDER BY seq LIMIT :limit) AS page
    JOIN (SELECT seq, total FROM headrace_events ORDER BY seq DESC LIMIT 1) AS newest ON page.seq < newest.seq
    WHERE page.at < :before OR page.total <= newest.total - :most);
