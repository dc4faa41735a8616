-- needs: 5
-- What the desk knows of a dead letter beyond the job: by what it is grouped, how often its job was requeued from here,
-- and what people noted, in JSON.
ALTER TABLE headrace_dead ADD COLUMN fingerprint TEXT NOT NULL DEFAULT '';
ALTER TABLE headrace_dead ADD COLUMN requeues INTEGER NOT NULL DEFAULT 0;
ALTER TABLE headrace_dead ADD COLUMN notes TEXT;

-- Ids begin with the time of the entry, so that they sort by it.
UPDATE headrace_dead SET id = printf('%012x', entered_at) || substr(id, 1, 20);

-- A record is wide: it is found, counted and grouped by these alone.
CREATE INDEX headrace_dead_job ON headrace_dead (job_id, id, requeues);
CREATE INDEX headrace_dead_status ON headrace_dead (status, id);
CREATE INDEX headrace_dead_reason ON headrace_dead (status, reason, id, requeues);
CREATE INDEX headrace_dead_task ON headrace_dead (status, task, id);
CREATE INDEX headrace_dead_queue ON headrace_dead (status, queue, id);
CREATE INDEX headrace_dead_fingerprint ON headrace_dead (status, fingerprint, id);
CREATE INDEX headrace_dead_requeues ON headrace_dead (status, requeues, id);
