"""A store full of jobs in every state, and a look at everything a store holds: for the tests of moving."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.events.stream import line_note
from headrace.core.jobs.records import Claim, DeadLetterRow, JobNote, NewJob, Outcome
from headrace.core.jobs.states import State
from headrace.core.jobs.transfer import JobExport
from headrace.engines.protocol.engine import Engine
from tests.support.builders import fail, give_up, log, new_job, only, progress, release, retry, succeed, want

HOUR = 3_600_000
STATES_TO_SUBMIT = (State.PENDING, State.SCHEDULED, State.WAITING, *[State.PENDING] * 7)


def fill(engine: Engine, count: int, *, lease: int = 10 * 60_000) -> None:
    """Submit jobs and work on some of them, by what a producer and a worker do. The states are all there."""
    now = engine.clock.now()
    for start in range(0, count, 1000):
        some = range(start, min(start + 1000, count))
        engine.insert([_job(number, now) for number in some], now=now)
        claims = engine.exchange([], want(len(some) // 2, worker="old", lease=lease), now=now).claims
        engine.exchange([], None, [note for claim in claims[::5] for note in _notes(claim)], now=now)
        outcomes = [_outcome(number, claim, now) for number, claim in enumerate(claims)]
        engine.exchange([outcome for outcome in outcomes if outcome is not None], None, now=now)
    engine.queries.pause_queue("paused", True)


def _notes(claim: Claim) -> tuple[JobNote, ...]:
    """Progress, and lines of a log and a stream in turn."""
    chunks = [line_note(claim.lease, first, [f'"☃ {first}"'], first) for first in (1, 2)]
    return (log(claim, f"ran ☃\x00 {claim.id}"), chunks[0], progress(claim, "1"), log(claim, "ran on"), chunks[1])


def _job(number: int, now: int) -> NewJob:
    state = STATES_TO_SUBMIT[number % 10]
    return new_job(
        f"job-{number:06d}",
        queue=("mail", "reports", "paused")[number % 3],
        state=state,
        priority=number % 7 - 3,
        run_at=now + HOUR if state is State.SCHEDULED else now - number % 11,
        created_at=now,
        lifo=number % 13 == 0,
        payload=f'[{number},"{"x" * (number % 300)}ß"]',
        tags=("odd",) if number % 2 else (),
        metadata='{"number":1}' if number % 4 == 0 else None,
        expires_at=now + 2 * HOUR if number % 17 == 0 else None,
    )


def _outcome(number: int, claim: Claim, now: int) -> Outcome | None:
    match number % 10:
        case 0:
            return retry(claim, now + HOUR, at=now, message="not ☃ \x00 yet")
        case 1:
            return fail(claim, at=now)
        case 2:
            return give_up(claim, at=now)
        case 3:
            return release(claim, at=now)
        case 4:
            return None  # it runs on
        case _:
            return succeed(claim, at=now)


def claim_from(engine: Engine, queue: str, count: int = 1) -> list[Claim]:
    """Claim by the store's own time."""
    return engine.exchange([], only(queue, count, worker="old")).claims


def contents(engine: Engine) -> list[JobExport]:
    """Every job in order with everything about it, but for the numbers that each store gives by itself."""
    found: list[JobExport] = []
    after = 0
    while page := engine.transfer.export_jobs(after, 1000):
        after = page[-1].job.seq
        found += [
            msgspec.structs.replace(job_export, job=msgspec.structs.replace(job_export.job, seq=0))
            for job_export in page
        ]
    return found


def dead_letters(engine: Engine) -> list[DeadLetterRow]:
    return engine.dead_letters.find(DeadLetterFilter(), 1_000_000, oldest_first=True)


def without_nul(job_exports: list[JobExport]) -> list[JobExport]:
    """As a store has them that can't hold a NUL: Redis can, and what comes from there is made fit for all."""
    text = msgspec.json.encode(job_exports).replace(b"\\u0000", "\ufffd".encode())
    return msgspec.json.decode(text, type=list[JobExport])


@contextmanager
def by_force(target: Engine) -> Iterator[None]:
    """As by a writer that ignores the store status."""
    store_status = target.transfer.store_status()
    target.transfer.set_status(None)
    yield
    target.transfer.set_status(store_status)
