-- Staleness. Maintenance and operators read the lifecycle policies of tasks and queues; claims never do.

-- name: policies
SELECT coalesce(json_agg(json_build_array(kind, name, declared, override) ORDER BY kind, name), '[]')::text
FROM headrace_policies;

-- name: declare_policy (each t: PolicyRow)
INSERT INTO headrace_policies (kind, name, declared)
SELECT t.kind, t.name, t.declared FROM jsonb_array_elements(:t::jsonb) AS t(value)
ON CONFLICT (kind, name) DO UPDATE SET declared = excluded.declared;

-- name: override_policy (each t: PolicyRow)
INSERT INTO headrace_policies (kind, name, override)
SELECT t.kind, t.name, t.override FROM jsonb_array_elements(:t::jsonb) AS t(value)
ON CONFLICT (kind, name) DO UPDATE SET override = excluded.override;

-- name: drop_empty_policies
DELETE FROM headrace_policies WHERE declared = '{}' AND override = '{}';

-- Jobs by age. A scan reads some jobs of one state after the other, in the order of that state's index. It returns how
-- many it read, the position of the last one, and those that may be too old by cheap columns: only their rows are read.
-- The position is built after the last job is known: otherwise it would be built for each of them. The `where_after_`
-- fragments continue a scan of pending jobs.

-- name: where_after_job
queue = :queue AND lane = :lane AND priority = :priority AND (rank, seq) > (:rank, :seq)

-- name: where_after_priority
queue = :queue AND lane = :lane AND priority < :priority

-- name: where_after_lane
queue = :queue AND lane > :lane

-- name: where_after_queue
queue > :queue

-- name: walk_pending
WITH looked AS MATERIALIZED (
    SELECT seq, queue, lane, priority, rank FROM headrace_jobs
    WHERE state = 'pending' AND {where}
    ORDER BY queue, lane, priority DESC, rank, seq LIMIT :limit)
SELECT json_build_array(
    (SELECT count(*) FROM looked),
    (SELECT json_build_array(queue, lane, priority, rank, seq) FROM (
         SELECT * FROM looked ORDER BY queue DESC, lane DESC, priority, rank DESC, seq DESC LIMIT 1) AS last),
    (SELECT coalesce(json_agg(seq), '[]') FROM looked
     WHERE abs(rank) <= :pending::bigint
        OR (:due::bigint IS NOT NULL
            AND (SELECT created_at FROM headrace_jobs AS job WHERE job.seq = looked.seq) <= :due::bigint)))::text;

-- name: walk_put_off
WITH looked AS MATERIALIZED (
    SELECT seq, run_at, queue, state FROM headrace_jobs
    WHERE state IN ('scheduled', 'retrying') AND run_at <= :last
      AND (run_at, queue, state, seq) > (:run_at, :queue, :state, :seq)
    ORDER BY run_at, queue, state, seq LIMIT :limit)
SELECT json_build_array(
    (SELECT count(*) FROM looked),
    (SELECT json_build_array(run_at, queue, state, seq) FROM (
         SELECT * FROM looked ORDER BY run_at DESC, queue DESC, state DESC, seq DESC LIMIT 1) AS last),
    (SELECT coalesce(json_agg(seq), '[]') FROM looked
     WHERE run_at <= CASE WHEN state = 'scheduled' THEN :scheduled::bigint ELSE :retrying::bigint END
        OR (:due::bigint IS NOT NULL
            AND (SELECT created_at FROM headrace_jobs AS job WHERE job.seq = looked.seq) <= :due::bigint)))::text;

-- name: walk_waiting
WITH looked AS MATERIALIZED (
    SELECT seq, queue, created_at FROM headrace_jobs
    WHERE state = 'waiting' AND (queue, seq) > (:queue, :seq) ORDER BY queue, seq LIMIT :limit)
SELECT json_build_array(
    (SELECT count(*) FROM looked),
    (SELECT json_build_array(queue, seq) FROM (
         SELECT * FROM looked ORDER BY queue DESC, seq DESC LIMIT 1) AS last),
    (SELECT coalesce(json_agg(seq), '[]') FROM looked
     WHERE created_at <= :waiting::bigint OR created_at <= :due::bigint))::text;

-- Few jobs run at a time: they are sorted here, as no index has them in a stable order.
-- name: walk_running
WITH running AS MATERIALIZED (
    SELECT seq, started_at, created_at FROM headrace_jobs WHERE state = 'running'
), looked AS MATERIALIZED (
    SELECT * FROM running WHERE seq > :seq ORDER BY seq LIMIT :limit)
SELECT json_build_array(
    (SELECT count(*) FROM looked),
    (SELECT json_build_array(max(seq)) FROM looked),
    (SELECT coalesce(json_agg(seq), '[]') FROM looked
     WHERE started_at <= :running::bigint OR created_at <= :due::bigint))::text;

-- One array for each field of JobAge in core/retention/staleness.py: json_build_array would look up the types of its
-- arguments again for every job. Most jobs have no history; it is read only for those that have one.
-- name: job_ages
SELECT json_build_array(
           json_agg(job.id), json_agg(job.task), json_agg(job.queue), json_agg(job.state), json_agg(job.version),
           json_agg(greatest(CASE job.state WHEN 'running' THEN coalesce(job.started_at, 0)
                                            WHEN 'waiting' THEN coalesce(job.finished_at, job.created_at)
                                            ELSE job.run_at END, past.came)),
           json_agg(greatest(job.created_at, past.revived_at, coalesce(past.first, job.run_at))),
           json_agg(coalesce(past.reviewed, false)))::text
FROM (
    SELECT *, (SELECT 1 FROM headrace_history AS h WHERE h.job = known.seq LIMIT 1) IS NOT NULL AS has_history
    FROM headrace_jobs AS known
    WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
      AND state IN ('scheduled', 'waiting', 'pending', 'running', 'retrying') OFFSET 0) AS job
LEFT JOIN LATERAL (
    SELECT came, revived_at, reviewed,
           (SELECT min(h.started_at) FROM headrace_history AS h
            WHERE h.job = job.seq AND h.seq > revived AND h.source = 'running' AND h.target <> 'running') AS first
    FROM (
        SELECT max(at) FILTER (WHERE h.target = job.state AND h.source <> h.target) AS came,
               max(at) FILTER (WHERE h.event = 'revive') AS revived_at,
               coalesce(max(h.seq) FILTER (WHERE h.event = 'revive'), 0) AS revived,
               bool_or(h.event = 'review' AND h.version = job.version) AS reviewed
        FROM headrace_history AS h WHERE h.job = job.seq) AS entry
    WHERE job.has_history OFFSET 0) AS past ON true;

-- Staleness decisions. By id and version alone; no other predicate decides.

-- Found by id first: to lock them in the order of their numbers, a plan from before the first job would read all jobs.
-- name: lock_stale
WITH named AS MATERIALIZED (
    SELECT seq FROM headrace_jobs WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb))))
SELECT coalesce(json_agg(json_build_array(id, version, seq)), '[]')::text FROM (
    SELECT id, version, seq, state FROM headrace_jobs WHERE seq = ANY (ARRAY(SELECT seq FROM named))
    ORDER BY seq FOR UPDATE) AS locked
WHERE state IN ('scheduled', 'waiting', 'pending', 'running', 'retrying');

-- name: unreviewed
SELECT coalesce(json_agg(job.seq), '[]')::text FROM headrace_jobs AS job
WHERE job.seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
  AND (SELECT bool_or(h.event = 'review' AND h.version = job.version) FROM headrace_history AS h
       WHERE h.job = job.seq) IS NOT TRUE;

-- name: record_reviews (each t: HistoryText)
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, detail)
SELECT job.seq, :now, 'review', state, state, version, attempt, worker, started_at, t.detail
FROM jsonb_array_elements(:t::jsonb) AS t(value)
CROSS JOIN LATERAL (SELECT * FROM headrace_jobs WHERE seq = t.seq OFFSET 0) AS job;

-- name: record_marked (each t: HistoryText)
INSERT INTO headrace_history (job, at, event, source, target, version, attempt, worker, started_at, finished_at,
                              detail)
SELECT job.seq, :now, 'stale', state, 'failed', version + 1, attempt, worker, started_at, finished_at, t.detail
FROM jsonb_array_elements(:t::jsonb) AS t(value)
CROSS JOIN LATERAL (SELECT * FROM headrace_jobs WHERE seq = t.seq OFFSET 0) AS job;

-- name: move_stale
UPDATE headrace_jobs SET state = 'failed', version = version + 1, finished_at = :now, lease_until = NULL,
                         reason = :reason
WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint));
