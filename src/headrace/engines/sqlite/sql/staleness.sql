-- Jobs by age. A scan reads some jobs of one state after the other, in the order of that state's index. It returns how
-- many it read, the position of the last one, and those that may be too old by cheap columns: only their rows are read.
-- The position is built after the last job is known: otherwise it would be built for each of them.

-- name: walk_pending
WITH looked AS MATERIALIZED (
    SELECT seq, queue, lane, priority, rank FROM headrace_jobs
    WHERE state = 'pending' AND {where}
    ORDER BY queue, lane, priority DESC, rank, seq LIMIT :limit)
SELECT json_array(
    (SELECT count(*) FROM looked),
    json((SELECT json_array(queue, lane, priority, rank, seq) FROM (
          SELECT * FROM looked ORDER BY queue DESC, lane DESC, priority, rank DESC, seq DESC LIMIT 1))),
    json((SELECT json_group_array(seq) FROM looked
          WHERE abs(rank) <= :pending
             OR (:due IS NOT NULL AND (SELECT created_at FROM headrace_jobs AS job WHERE job.seq = looked.seq) <= :due))));

-- name: walk_put_off
WITH looked AS MATERIALIZED (
    SELECT seq, run_at, queue, state FROM headrace_jobs
    WHERE state IN ('scheduled', 'retrying') AND run_at <= :last
      AND (run_at, queue, state, seq) > (:run_at, :queue, :state, :seq)
    ORDER BY run_at, queue, state, seq LIMIT :limit)
SELECT json_array(
    (SELECT count(*) FROM looked),
    json((SELECT json_array(run_at, queue, state, seq) FROM (
          SELECT * FROM looked ORDER BY run_at DESC, queue DESC, state DESC, seq DESC LIMIT 1))),
    json((SELECT json_group_array(seq) FROM looked
          WHERE run_at <= iif(state = 'scheduled', :scheduled, :retrying)
             OR (:due IS NOT NULL AND (SELECT created_at FROM headrace_jobs AS job WHERE job.seq = looked.seq) <= :due))));

-- name: walk_waiting
WITH looked AS MATERIALIZED (
    SELECT seq, queue, created_at FROM headrace_jobs
    WHERE state = 'waiting' AND (queue, seq) > (:queue, :seq) ORDER BY queue, seq LIMIT :limit)
SELECT json_array(
    (SELECT count(*) FROM looked),
    json((SELECT json_array(queue, seq) FROM (
          SELECT * FROM looked ORDER BY queue DESC, seq DESC LIMIT 1))),
    json((SELECT json_group_array(seq) FROM looked WHERE created_at <= :waiting OR created_at <= :due)));

-- Few jobs run at a time: they are sorted here, as no index has them in a stable order.
-- name: walk_running
WITH running AS MATERIALIZED (
    SELECT seq, started_at, created_at FROM headrace_jobs WHERE state = 'running'
), looked AS MATERIALIZED (
    SELECT * FROM running WHERE seq > :seq ORDER BY seq LIMIT :limit)
SELECT json_array(
    (SELECT count(*) FROM looked),
    json((SELECT json_array(max(seq)) FROM looked)),
    json((SELECT json_group_array(seq) FROM looked WHERE started_at <= :running OR created_at <= :due)));

-- One array for each field of JobAge in core/retention/staleness.py. Most jobs have no history, so its existence is
-- checked first.
-- name: job_ages
SELECT json_array(json_group_array(id), json_group_array(task), json_group_array(queue), json_group_array(state),
                  json_group_array(version), json_group_array(since), json_group_array(due),
                  json_group_array(json(iif(reviewed, 'true', 'false'))))
FROM (
    SELECT id, task, queue, state, version,
           max(CASE state WHEN 'running' THEN coalesce(started_at, 0)
                          WHEN 'waiting' THEN coalesce(finished_at, created_at) ELSE run_at END,
               iif(has_history, coalesce((SELECT max(at) FROM headrace_history AS h
                                   WHERE h.job = job.seq AND h.target = job.state AND h.source <> h.target), 0), 0))
               AS since,
           max(created_at, revived_at,
               coalesce(iif(has_history, (SELECT min(started_at) FROM headrace_history AS h
                                   WHERE h.job = job.seq AND h.source = 'running' AND h.target <> 'running'
                                     AND h.seq > revived), NULL), run_at)) AS due,
           has_history AND EXISTS (SELECT 1 FROM headrace_history AS h
                            WHERE h.job = job.seq AND h.event = 'review' AND h.version = job.version) AS reviewed
    FROM (
        SELECT *, iif(has_history, coalesce((SELECT max(h.seq) FROM headrace_history AS h
                                      WHERE h.job = known.seq AND h.event = 'revive'), 0), 0) AS revived,
               iif(has_history, coalesce((SELECT max(h.at) FROM headrace_history AS h
                                   WHERE h.job = known.seq AND h.event = 'revive'), 0), 0) AS revived_at
        FROM (
            SELECT *, EXISTS (SELECT 1 FROM headrace_history AS h WHERE h.job = headrace_jobs.seq) AS has_history
            FROM headrace_jobs
            WHERE seq IN (SELECT value FROM json_each(:seqs))
              AND state IN ('scheduled', 'waiting', 'pending', 'running', 'retrying')) AS known) AS job);
