"""The engine alone, without app, worker or task: what headrace is compared with to see what its own share costs.

bare insert JOBS BATCH
bare drain  JOBS BATCH [WARM_UP]
"""

from __future__ import annotations

import sys
import time

from bench.stage import report_time_of, store
from bench.tasks import Subject, in_batches, open_subject
from headrace.core.codec import codec
from headrace.core.jobs import ids, outcomes
from headrace.core.jobs.records import ClaimRequest, NewJob
from headrace.core.jobs.states import State
from headrace.engines.protocol.engine import Engine

_RESULT = "1"
_LEASE_MS = 30_000


def new_jobs(subject: Subject, count: int) -> list[NewJob]:
    """Jobs as the app would make them, ready to be stored."""
    now = _now()
    payload = subject.noop.signature.encode((1,), {}, limit=1024)
    shared = ("noop", "default", State.PENDING, 0, now, payload, codec.checksum(payload), now, now, 3)
    return [NewJob(ids.new_id(now), *shared) for _ in range(count)]


def insert(engine: Engine, batches: list[list[NewJob]]) -> int:
    """Store the batches, a commit each."""
    for batch in batches:
        engine.insert(batch)
    return sum(map(len, batches))


def drain(engine: Engine, jobs: int, batch: int) -> int:
    """Claim and complete, a batch a commit, until so many jobs are done or none is left."""
    want = ClaimRequest("bare", batch, _LEASE_MS)
    checksum = codec.checksum(_RESULT)
    claims = engine.exchange((), want).claims
    done = 0
    while claims:
        now = _now()
        settled = [outcomes.succeed(claim, _RESULT, checksum, now) for claim in claims]
        done += len(settled)
        claims = engine.exchange(settled, want if done < jobs else None).claims
    return done


def _now() -> int:
    return time.time_ns() // 1_000_000


def main(mode: str, jobs: str, batch: str, warm_up: str = "0") -> None:
    subject = open_subject(*store())
    engine = subject.app.engine
    with subject.app:
        if mode == "insert":
            news = new_jobs(subject, int(jobs))
            engine.insert(new_jobs(subject, 1))
            batches = [[news[number] for number in numbers] for numbers in in_batches(range(len(news)), int(batch))]
            report_time_of(lambda: insert(engine, batches))
        else:
            if int(warm_up):
                drain(engine, int(warm_up), int(batch))
            report_time_of(lambda: drain(engine, int(jobs), int(batch)))


if __name__ == "__main__":
    main(*sys.argv[1:])
