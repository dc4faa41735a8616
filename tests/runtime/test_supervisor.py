"""A supervisor notices how its workers end, whatever the process it runs in makes of SIGCHLD."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from typing import Any, cast

import pytest

from headrace import Worker
from headrace.runtime.supervisor import Supervisor

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


class Fleeting:
    """A worker that ends as soon as it has begun."""

    recycle = False

    def start(self) -> None: ...

    def join(self, timeout: float) -> bool:
        return True


class StopAtFirstEnd(logging.Handler):
    """Takes down what the supervisor says of the first worker that ends, and stops it."""

    def __init__(self, supervisor: Supervisor) -> None:
        super().__init__()
        self.said: list[str] = []
        self._supervisor = supervisor

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())
        self._supervisor._stop(False)


@pytest.fixture
def supervisor() -> Supervisor:
    return Supervisor(lambda: cast("Worker", Fleeting()), 1, 1.0)


@pytest.fixture
def ends(supervisor: Supervisor) -> Iterator[StopAtFirstEnd]:
    handler = StopAtFirstEnd(supervisor)
    log = logging.getLogger("headrace.supervisor")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


def test_a_process_that_ignores_the_end_of_its_children_supervises_all_the_same(
    supervisor: Supervisor, ends: StopAtFirstEnd
) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert supervisor.run() == 0
        assert signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert "ended with code 0" in ends.said[0]


def test_a_worker_whose_end_somebody_else_took_note_of_counts_as_ended(
    supervisor: Supervisor, ends: StopAtFirstEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    waitpid = os.waitpid

    def too_late(pid: int, _: int) -> Any:
        waitpid(pid, 0)
        return waitpid(pid, 0)

    monkeypatch.setattr(os, "waitpid", too_late)
    assert supervisor.run() == 0
    assert "ended, nobody knows how" in ends.said[0]
