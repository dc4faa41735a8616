"""The axis of schedules: how fast they are created and fired, and what they cost the jobs beside them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from msgspec import structs

from bench.ground import Store
from bench.scale.rates import Rates
from bench.tasks import Subject, open_subject
from headrace.runtime.schedules.fire import fire_due

_THREADS = 8
_FIRED = 1000  # due in one moment, beside those that are not
_INTERVAL = 86_400


def grow(store: Store, before: int, step: int) -> Rates:
    """Add schedules that are not due while we measure; how many a second were created."""
    subject = open_subject(store.url, store.durability)

    def create(number: int) -> None:
        subject.app.schedules.create(f"far-{number}", subject.noop.bind(number), every=_INTERVAL)

    with subject.app, ThreadPoolExecutor(_THREADS) as pool:
        began = time.perf_counter()
        for _ in pool.map(create, range(before, step)):
            pass
        return {"create": (step - before) / (time.perf_counter() - began)}


def fire(store: Store) -> Rates:
    """Fire some that are due in one moment, as a worker's scheduler does; their jobs a second."""
    subject = open_subject(store.url, store.durability)
    with subject.app:
        names = [f"due-{time.time_ns()}-{number}" for number in range(_FIRED)]
        for name in names:
            subject.app.schedules.create(name, subject.noop.bind(0), every=_INTERVAL)
        _make_due(subject, names)
        began, fired = time.perf_counter(), 0
        while (one := fire_due(subject.app.engine)).seen:
            fired += one.won
        seconds = time.perf_counter() - began
        for name in names:
            subject.app.schedules.delete(name)
    if fired != _FIRED:
        raise AssertionError(f"{fired} of {_FIRED} schedules fired")
    return {"fire": fired / seconds}


def _make_due(subject: Subject, names: list[str]) -> None:
    """Their time has come, as if a day had passed."""
    schedules, now = subject.app.engine.schedule_store, subject.app.engine.clock.now()
    for row in schedules.get(names):
        if not schedules.put(structs.replace(row, occurrence=now, due_at=now)):
            raise AssertionError(f"schedule {row.id} was changed by somebody else")
