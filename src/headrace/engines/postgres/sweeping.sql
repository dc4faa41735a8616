-- How finished jobs leave the store. A page of them is told by the index of finished jobs, from one end or the other.

-- name: finished_oldest
SELECT coalesce(json_agg(json_build_array(seq, id, task, queue, state, finished_at, version, options,
                                          unique_key IS NOT NULL, held, flow)
                         ORDER BY finished_at, seq), '[]')::text FROM (
    SELECT job.*, EXISTS (SELECT 1 FROM headrace_dead AS letter
                          WHERE letter.job_id = job.id AND letter.status = 'pending')
                  OR (job.kin = 1 AND EXISTS (
                          SELECT 1 FROM headrace_bonds AS bond JOIN headrace_jobs AS child ON child.seq = bond.child
                          WHERE bond.parent = job.seq AND child.state NOT IN ('completed', 'failed', 'cancelled')))
                  AS held
    FROM headrace_jobs AS job
    WHERE job.finished_at IS NOT NULL AND job.queue = :queue AND job.state = :state
      AND job.finished_at < :before::bigint AND job.finished_at >= :at::bigint
      AND (job.finished_at, job.seq) > (:at::bigint, :seq::bigint)
    ORDER BY job.finished_at, job.seq LIMIT :limit) AS found;

-- name: finished_newest
SELECT coalesce(json_agg(json_build_array(seq, id, task, queue, state, finished_at, version, options,
                                          unique_key IS NOT NULL, held, flow)
                         ORDER BY finished_at DESC, seq DESC), '[]')::text FROM (
    SELECT job.*, EXISTS (SELECT 1 FROM headrace_dead AS letter
                          WHERE letter.job_id = job.id AND letter.status = 'pending')
                  OR (job.kin = 1 AND EXISTS (
                          SELECT 1 FROM headrace_bonds AS bond JOIN headrace_jobs AS child ON child.seq = bond.child
                          WHERE bond.parent = job.seq AND child.state NOT IN ('completed', 'failed', 'cancelled')))
                  AS held
    FROM headrace_jobs AS job
    WHERE job.finished_at IS NOT NULL AND job.queue = :queue AND job.state = :state
      AND job.finished_at < :before::bigint AND job.finished_at <= :at::bigint
      AND (job.finished_at, job.seq) < (:at::bigint, :seq::bigint)
    ORDER BY job.finished_at DESC, job.seq DESC LIMIT :limit) AS found;

-- name: open_flows
SELECT coalesce(json_agg(flow), '[]')::text FROM jsonb_array_elements_text(:ids::jsonb) AS flow
WHERE EXISTS (SELECT 1 FROM headrace_jobs AS job
              WHERE job.flow = flow AND job.state NOT IN ('completed', 'failed', 'cancelled'));

-- name: any_kin
SELECT EXISTS (SELECT 1 FROM headrace_jobs AS job
               WHERE job.id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
                 AND (job.kin = 1 OR job.flow IS NOT NULL));

-- What somebody else has locked is left for the next sweep.
-- name: lock_leaving (each lease: Lease)
SELECT coalesce(json_agg(json_build_array(seq, id, kin, flow)), '[]')::text FROM (
    SELECT job.seq, job.id, job.kin, job.flow
    FROM jsonb_array_elements(:lease::jsonb) AS lease(value), headrace_jobs AS job
    WHERE job.id = ANY (ARRAY[lease.id]) AND job.version = lease.version AND jsonb_typeof(lease.value) = 'array'
      AND job.state IN ('completed', 'failed', 'cancelled')
      AND NOT EXISTS (SELECT 1 FROM headrace_dead AS letter WHERE letter.job_id = job.id AND letter.status = 'pending')
    FOR UPDATE OF job SKIP LOCKED) AS leaving;

-- name: open_parents
SELECT coalesce(json_agg(DISTINCT bond.parent), '[]')::text
FROM headrace_bonds AS bond JOIN headrace_jobs AS child ON child.seq = bond.child
WHERE bond.parent = ANY (ARRAY(SELECT jsonb_array_elements(:seqs::jsonb)::bigint))
  AND child.state NOT IN ('completed', 'failed', 'cancelled');

-- name: swept
SELECT (SELECT value FROM headrace_store WHERE name = 'swept');

-- name: put_swept
INSERT INTO headrace_store (name, value) VALUES ('swept', :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;
