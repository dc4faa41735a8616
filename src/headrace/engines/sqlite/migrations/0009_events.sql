-- needs: 8
-- What has happened, a page for each commit: see core/events/log.py. `total` counts the events up to this page.
CREATE TABLE headrace_events (
    seq   INTEGER PRIMARY KEY,
    at    INTEGER NOT NULL,
    total INTEGER NOT NULL,
    page  TEXT    NOT NULL
);

-- When a job is to run next, where that is what its history tells.
ALTER TABLE headrace_history ADD COLUMN run_at INTEGER;

-- Whatever is filed is told, whoever files it; but not while jobs are carried over with the stories of another store.
CREATE TRIGGER headrace_filed_is_told AFTER INSERT ON headrace_history
WHEN NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'hush')
BEGIN
    INSERT INTO headrace_events (at, total, page)
    SELECT NEW.at, 1 + coalesce((SELECT total FROM headrace_events ORDER BY seq DESC LIMIT 1), 0),
           json_array(json_array('filed', NEW.at, job.queue, job.task, NEW.worker, json_array(job.id),
                                 json_array(NEW.attempt), json('[]'), json('[]'), json('[]'), json_array(json_object(
               'event', NEW.event, 'source', NEW.source, 'target', NEW.target, 'started_at', NEW.started_at,
               'finished_at', NEW.finished_at, 'run_at', coalesce(NEW.run_at, job.run_at), 'detail', NEW.detail,
               'error_type', NEW.error_type, 'error_message', substr(NEW.error_message, 1, 500)))))
    FROM headrace_jobs AS job WHERE job.seq = NEW.job;
END;

CREATE TRIGGER headrace_dead_is_told AFTER INSERT ON headrace_dead
WHEN NEW.status = 'pending' AND NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'hush')
BEGIN
    INSERT INTO headrace_events (at, total, page)
    SELECT NEW.entered_at, 1 + coalesce((SELECT total FROM headrace_events ORDER BY seq DESC LIMIT 1), 0),
           json_array(json_array('dead.entered', NEW.entered_at, NEW.queue, NEW.task, NULL, json_array(NEW.job_id),
                                 json('[]'), json('[]'), json('[]'), json('[]'), json_array(json_object(
               'id', NEW.id, 'reason', NEW.reason, 'fingerprint', NEW.fingerprint))));
END;

-- A job that fails once more before anybody looked has its pending letter written anew, under a new id.
CREATE TRIGGER headrace_change_of_dead_is_told AFTER UPDATE ON headrace_dead
WHEN (NEW.id <> OLD.id OR NEW.status <> OLD.status)
     AND NOT EXISTS (SELECT 1 FROM headrace_store WHERE name = 'hush')
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
