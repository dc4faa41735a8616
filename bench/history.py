"""Makes a store look old: many jobs that were finished over the last days.

They are put into the store as they would lie there, because running ten million of them would take hours.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec

from bench.ground import Ground, Store
from bench.tasks import BATCH, Subject, in_batches, open_subject
from headrace.core.codec import codec
from headrace.core.jobs import ids
from headrace.core.jobs.records import JobRow
from headrace.core.jobs.states import State
from headrace.core.jobs.transfer import JobExport

_DAYS = 5 * 86_400_000  # younger than what any engine throws away
_RESULT = "1"


def build(ground: Ground, store: Store, jobs: int, age: int = 0) -> None:
    """So many finished jobs more in a store, all of them older than `age` milliseconds."""
    subject = open_subject(store.url, store.durability)
    with subject.app:
        pattern = finished_job(subject, age)
        subject.app.engine.transfer.import_records([JobExport(pattern, [], [])])
        if ground.engine == "postgres":
            _multiply_in_postgres(store.url, pattern, jobs)
        else:
            _import_jobs(subject, pattern, jobs)


def finished_job(subject: Subject, age: int) -> JobRow:
    """A job that was completed so many milliseconds ago."""
    now = time.time_ns() // 1_000_000 - age
    payload = subject.noop.signature.encode((1,), {}, limit=1024)
    unset: dict[str, Any] = dict.fromkeys(
        ("expires_at", "lease_until", "progress", "reason", "options", "tags", "metadata")
    )
    return JobRow(
        seq=0,
        id=ids.new_id(now),
        task="noop",
        queue="default",
        state=State.COMPLETED,
        priority=0,
        rank=now,
        version=3,
        attempt=1,
        max_attempts=4,
        crashes=0,
        releases=0,
        payload=payload,
        checksum=codec.checksum(payload),
        created_at=now,
        run_at=now,
        started_at=now,
        finished_at=now,
        worker="bench",
        result=_RESULT,
        result_checksum=codec.checksum(_RESULT),
        **unset,
    )


def _import_jobs(subject: Subject, pattern: JobRow, jobs: int) -> None:
    transfer, now = subject.app.engine.transfer, pattern.created_at
    for numbers in in_batches(range(jobs), BATCH):
        # The oldest first, as they would have come; a batch shares a moment.
        at = now - _DAYS + _DAYS * numbers[0] // jobs
        times = {"rank": at, "created_at": at, "run_at": at, "started_at": at, "finished_at": at}
        made = [ids.new_id(time.time_ns() // 1_000_000) for _ in numbers]
        rows = [msgspec.structs.replace(pattern, id=job_id, **times) for job_id in made]
        transfer.import_records([JobExport(row, [], []) for row in rows])


def _multiply_in_postgres(url: str, pattern: JobRow, jobs: int) -> None:
    from headrace.engines.postgres.statements import qualified
    from headrace.engines.postgres.store_url import PostgresUrl
    from tests.support import servers

    db, schema = servers.postgres_connection(url), PostgresUrl(url).schema
    db.execute(qualified(_MULTIPLY, schema), {"jobs": jobs, "days": _DAYS, "pattern": pattern.id})
    # What autovacuum has long done in a store of that age; it should not begin with it while we measure.
    db.execute(qualified("VACUUM (ANALYZE) headrace_jobs, headrace_ids", schema))


_MULTIPLY = """
WITH named AS (
    INSERT INTO headrace_ids (id)
    SELECT to_char(number, 'FM0000000000000000') || '-' || substr(%(pattern)s, 1, 19)
    FROM generate_series(1, %(jobs)s::bigint) AS number ORDER BY number
    RETURNING seq, id
), numbered AS (
    SELECT seq, id, row_number() OVER (ORDER BY seq) AS number FROM named
)
INSERT INTO headrace_jobs (seq, id, task, queue, state, priority, rank, version, attempt, max_attempts, payload,
        checksum, created_at, run_at, started_at, finished_at, worker, result, result_checksum)
SELECT seq, id, task, queue, state, priority, at, version, attempt, max_attempts, payload, checksum, at, at, at, at,
        worker, result, result_checksum
FROM (
    SELECT numbered.seq, numbered.id, created_at - %(days)s + %(days)s * number / %(jobs)s AS at, task, queue, state,
           priority, version, attempt, max_attempts, payload, checksum, worker, result, result_checksum
    FROM numbered CROSS JOIN headrace_jobs AS pattern WHERE pattern.id = %(pattern)s
) AS copies
"""
