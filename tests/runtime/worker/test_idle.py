"""How rarely an idle worker reads its store. The test moves the time: ten minutes take a moment."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import Headrace
from headrace.core.events.event import EventFilter
from headrace.runtime.alerts import evaluate
from headrace.runtime.events import handlers
from headrace.runtime.events.handlers import EventHandlers, Subscription
from headrace.runtime.maintenance import loop, pause_factor
from headrace.runtime.maintenance.loop import MaintenanceLoop
from headrace.runtime.maintenance.pause_factor import PauseFactor
from headrace.runtime.maintenance.tasks import maintenance_tasks_of
from headrace.runtime.retention import staleness
from tests.support.builders import worker_row
from tests.support.counting import operations

pytestmark = pytest.mark.every_engine

BEAT = 10.0
IDLE_AFTER, MEASURED = 3600.0, 7200.0  # seconds


class Time:
    """The clock of the store and of the process, which a wait moves."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0
        self.each_beat: Callable[[], object] = lambda: None

    def now(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    def passes(self, seconds: float) -> None:
        beats = int((self.seconds + seconds) // BEAT - self.seconds // BEAT)
        self.seconds += seconds
        for _ in range(beats):
            self.each_beat()


class Until(threading.Event):
    """The wait of a loop between its turns: the time moves to its end."""

    def __init__(self, time: Time, end: float) -> None:
        super().__init__()
        self._time, self._end = time, end

    def is_set(self) -> bool:
        return self._time.seconds >= self._end

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self._time.passes(timeout)
        return self.is_set()


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    for module in (loop, pause_factor, handlers):
        monkeypatch.setattr(module, "time", made)
    for module in (evaluate, staleness):
        monkeypatch.setattr(module, "random", random.Random(1))
    return made


@pytest.fixture
def app(url: str, time: Time) -> Iterator[Headrace]:
    with Headrace(url) as app:
        engine: Any = app.engine
        engine.clock = time
        yield app


def idle_operations(app: Headrace, time: Time, worker: str) -> float:
    """How many a second this worker makes, its heartbeats among them, after it was idle for a while."""
    engine, settings = app.engine, app.settings
    started = {name: number for number, name in enumerate(("first", "second"), 1)}

    def row(name: str, number: int) -> Any:
        return worker_row(name, started_at=number, seen_at=time.now(), heartbeat=int(BEAT * 1000))

    time.each_beat = lambda: [engine.renew(row(name, number), (), 30_000) for name, number in started.items()]
    time.each_beat()
    idle: Any = SimpleNamespace(began=0, has_jobs=lambda: False)
    kept = MaintenanceLoop(maintenance_tasks_of(engine, settings), idle.has_jobs, PauseFactor(engine, worker, idle))
    kept._stopping = Until(time, time.seconds + IDLE_AFTER)
    kept._run()
    kept._stopping = Until(time, time.seconds + MEASURED)
    with operations() as count:
        kept._run()
    others = MEASURED / BEAT  # the heartbeats of the other one
    return (count.operations - others) / MEASURED


@pytest.mark.slow_on("postgres")
@pytest.mark.parametrize("worker", ["first", "second"])
def test_an_idle_worker_hardly_reads_its_store(app: Headrace, time: Time, worker: str) -> None:
    assert idle_operations(app, time, worker) <= {"first": 0.2, "second": 0.15}[worker]


def test_a_handler_waits_for_a_ring_and_does_not_poll(app: Headrace, time: Time) -> None:
    events: list[str] = []
    handler = Subscription("handler", lambda event: events.append(event.type), EventFilter(frozenset(["job.failed"])))
    listener = EventHandlers(app.engine, app.engine.clock, "w1", [handler, app.webhooks.subscription])
    listener._bell = app.engine.listen("events")
    for run in listener._runs:
        run.open()

    def listen(seconds: float) -> None:
        listener._ending = Until(time, time.seconds + seconds)
        listener._listen()

    listen(300.0)
    with operations() as count:
        listen(600.0)
    listener._bell.close()
    assert count.operations / 600 <= 0.05
