-- Jobs by age. A scan reads some jobs of one state after the other, in the order of that state's index. It returns how
-- many it read, the position of the last one, and those that may be too old by cheap columns: only their rows are read.
-- The position is built after the last job is known: otherwise it would be built for each of them.

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
