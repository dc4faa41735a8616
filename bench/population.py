"""A store as an operator finds it: jobs of every state, in twenty queues, over ten days, some tagged, some in flows.

They are put into the store as they would lie there. The same number of jobs is the same population on every engine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random
from typing import Literal

from bench.ground import Store
from bench.tasks import in_batches, open_subject
from headrace.core.codec import codec
from headrace.core.jobs.records import JobRow
from headrace.core.jobs.states import FINAL, State
from headrace.core.jobs.transfer import JobExport

Kind = Literal["aged", "backlog"]
QUEUES, TASKS, WORKERS, FLOW = 20, 50, 8, 100
_BATCH = 5000
_DAYS = 10 * 86_400_000
_RARE = 50_000  # one job in so many has the rare tag
_RESULT = "1"

# What has become of old jobs, and of those of the last day, in a thousand. Half of the queues have no backlog.
_OLD = {State.COMPLETED: 955, State.FAILED: 25, State.CANCELLED: 10, State.SCHEDULED: 8, State.RETRYING: 2}
_YOUNG = {State.PENDING: 700, State.SCHEDULED: 150, State.WAITING: 40, State.RETRYING: 10, State.COMPLETED: 100}
_WAITING = {State.PENDING: 670, State.SCHEDULED: 330}
_IS_YOUNG = 0.7
_RUNNING = 200


def build(store: Store, jobs: int, kind: Kind) -> None:
    """So many jobs; `aged` ones have lived, a `backlog` has not begun."""
    now = time.time_ns() // 1_000_000
    with open_subject(store.url, store.durability).app as app:
        for numbers in in_batches(range(jobs), _BATCH):
            app.engine.transfer.import_records([JobExport(row, [], []) for row in _rows(numbers, jobs, kind, now)])


def _rows(numbers: list[int], jobs: int, kind: Kind, now: int) -> Iterator[JobRow]:
    chance = Random(numbers[0])
    for number in numbers:
        at = now - _DAYS + _DAYS * number // jobs
        yield _row(number, _state(number, jobs, kind, chance), at, now, chance)


def _state(number: int, jobs: int, kind: Kind, chance: Random) -> State:
    if kind == "backlog":
        shares = _WAITING
    elif number % max(jobs // _RUNNING, 1) == 7:
        return State.RUNNING
    else:
        shares = _YOUNG if number > jobs * _IS_YOUNG and number % QUEUES < QUEUES // 2 else _OLD
    (state,) = chance.choices(list(shares), list(shares.values()))
    return state


def _row(number: int, state: State, at: int, now: int, chance: Random) -> JobRow:
    payload = f'{{"args":[{number},"customer-{chance.randrange(10**6):06}@example.com"],"kwargs":{{"dry":false}}}}'
    began = at if state in FINAL or state is State.RUNNING else None
    due = now + chance.randrange(_DAYS) if state in (State.SCHEDULED, State.RETRYING) else at
    return JobRow(
        seq=0,
        id=f"{at:012x}-{number:08x}",
        task=f"shop.task_{chance.randrange(TASKS)}",
        queue=f"queue-{number % QUEUES}",
        state=state,
        priority=chance.choice((0, 0, 0, 5, -5)),
        rank=due,
        version=3,
        attempt=0 if began is None else 1,
        max_attempts=4,
        crashes=0,
        releases=0,
        payload=payload,
        checksum=codec.checksum(payload),
        created_at=at,
        run_at=due,
        expires_at=None,
        started_at=began,
        finished_at=at + 900 if state in FINAL else None,
        worker=None if began is None else f"worker-{chance.randrange(WORKERS)}",
        lease_until=now + _DAYS if state is State.RUNNING else None,
        result=_RESULT if state is State.COMPLETED else None,
        result_checksum=codec.checksum(_RESULT) if state is State.COMPLETED else None,
        progress=None,
        reason="ValueError: no such customer" if state is State.FAILED else None,
        options=None,
        tags=_tags(number),
        metadata=f'{{"tenant":"t{number % 1000}"}}' if number % 5 == 0 else None,
        flow=f"flow-{number // FLOW}" if number // FLOW % 50 == 0 else None,
    )


def _tags(number: int) -> str | None:
    if number % _RARE == 1:
        return '["rare"]'
    return '["common"]' if number % 2 == 0 else '["some"]' if number % 101 == 1 else None
