"""A loop of a worker that hangs while its process lives: it is named in the log, and operators see it everywhere."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import Headrace
from headrace.core.health.stalls import KIND
from headrace.runtime.alerts.inputs import AlertInputs
from headrace.runtime.process import liveness as watching
from headrace.runtime.process.liveness import StallDetector, ThreadLiveness
from tests.support.waiting import PATIENCE, eventually


class Snag:
    """Something of the engine that hangs from now on until it is let go."""

    def __init__(self, owner: object, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._act: Callable[..., Any] = getattr(owner, name)
        self.caught, self.free = threading.Event(), threading.Event()
        monkeypatch.setattr(owner, name, self._hang)

    def _hang(self, *given: Any, **named: Any) -> Any:
        self.caught.set()
        assert self.free.wait(PATIENCE), "a snag that was never released"
        return self._act(*given, **named)


def stalled(app: Headrace) -> list[str]:
    return [part for worker in app.workers() for part in worker.stalled]


def healthy(app: Headrace) -> float | None:
    return AlertInputs(app.engine, app.settings).value("workers_healthy", {}, None)


@pytest.mark.timed
@pytest.mark.slow
def test_a_scheduler_that_hangs_is_seen_everywhere_and_again_when_it_goes_on(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    task = app.task(name="work")(lambda: "done")
    snag = Snag(app.engine.schedule_store, "due", monkeypatch)
    with caplog.at_level(logging.WARNING, "headrace.worker"), app.worker(heartbeat=0.1, lease=0.5) as worker:
        assert snag.caught.wait(PATIENCE)
        eventually(lambda: stalled(app) == ["scheduler"], "a stall that is recorded")
        assert task.enqueue().result(PATIENCE) == "done", "all else goes on"
        (info,) = app.workers()
        assert (info.state, info.silent, info.condition) == ("running", False, "stalled")
        (finding,) = [one for one in app.admin.check() if one.code == "stalled_workers"]
        assert f"the scheduler of worker {worker.id} has hung for" in str(finding)
        assert healthy(app) == 0.0
        (message,) = [line.getMessage() for line in caplog.records if "has hung" in line.getMessage()]
        assert "in _hang" in message, "the log has the place"
        snag.free.set()
        eventually(lambda: not stalled(app), "a stall that is over")
        assert healthy(app) == 1.0
        assert any("its scheduler runs again" in line.getMessage() for line in caplog.records)


@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.engines("sqlite")
def test_a_worker_loop_that_hangs_is_seen(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    snag = Snag(app.engine, "reap", monkeypatch)
    with app.worker(heartbeat=0.1, lease=0.5):
        eventually(lambda: stalled(app) == ["worker loop"], "a stall that is recorded")
        assert not app.workers()[0].silent, "its heart beats"
        snag.free.set()
        eventually(lambda: not stalled(app), "a stall that is over")


@pytest.mark.timed
@pytest.mark.slow
@pytest.mark.engines("sqlite")
def test_a_worker_that_ends_while_it_is_stalled_leaves_nothing_behind(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    snag = Snag(app.engine.schedule_store, "due", monkeypatch)
    with app.worker(heartbeat=0.1, lease=0.5) as worker:
        eventually(lambda: stalled(app) == ["scheduler"], "a stall that is recorded")
        worker.request_stop()
        snag.free.set()
    assert app.engine.document_store.get(KIND) == []


# -- by a clock of its own


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(watching, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.mark.engines("sqlite")
def test_an_hour_of_rest_is_no_stall_and_a_suspended_process_reports_none(
    app: Headrace, clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    sign = ThreadLiveness("part")
    detector = StallDetector(app.engine, "w1", [sign], timeout=30)

    def later(seconds: float) -> list[str]:
        for _ in range(int(seconds // 10)):
            clock[0] += 10
            detector.check()
        return [document.key for document in app.engine.document_store.get(KIND)]

    assert later(100) == [], "a loop that has not begun is not waited for"
    sign.expect_within(3600)
    assert later(3620) == []
    clock[0] += 5000
    detector.check()
    sign.expect_within(0)
    assert later(20) == [], "all were held up together"
    assert caplog.records == []
    assert later(20) == ["w1/part"]
    assert later(100) == ["w1/part"]
    assert len(caplog.records) == 1, "it is logged once"
    sign.stop_watching()
    assert later(10) == []
