"""A supervisor notices how its workers end, whatever the process it runs in makes of SIGCHLD, and stops them all."""

from __future__ import annotations

import errno
import logging
import os
import signal
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace import Headrace, Worker
from headrace.runtime.worker.supervisor import Supervisor
from tests.support.processes import Child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


class Fleeting:
    """A worker that ends as soon as it has begun."""

    recycle = False

    def start(self) -> None: ...

    def join(self, timeout: float) -> bool:
        return True


class Lasting(Fleeting):
    """A worker that ends only on request, or after seconds."""

    def join(self, timeout: float) -> bool:
        time.sleep(10)
        return True


class StopAtFirstEnd(logging.Handler):
    """Takes down what the supervisor says of the first worker that ends, and stops it."""

    def __init__(self, supervisor: Supervisor) -> None:
        super().__init__()
        self.messages: list[str] = []
        self._supervisor = supervisor

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
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
    assert "ended with code 0" in ends.messages[0]


def test_a_worker_whose_exit_status_was_already_collected_counts_as_ended(
    supervisor: Supervisor, ends: StopAtFirstEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    waitpid = os.waitpid

    def too_late(pid: int, _: int) -> Any:
        waitpid(pid, 0)
        return waitpid(pid, 0)

    monkeypatch.setattr(os, "waitpid", too_late)
    assert supervisor.run() == 0
    assert "ended with an unknown status" in ends.messages[0]


def test_a_signal_that_comes_before_the_child_is_a_worker_is_not_lost(
    ends: StopAtFirstEnd, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_make_worker", Lasting)
    fork = os.fork

    def fork_and_signal() -> int:
        if pid := fork():
            os.kill(pid, signal.SIGTERM)
        while pid == 0 and signal.SIGTERM not in signal.sigpending():
            time.sleep(0.001)
        return pid

    monkeypatch.setattr(os, "fork", fork_and_signal)
    assert supervisor.run() == 0
    assert "was killed by signal 15" in ends.messages[0]
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_without_memory_for_a_process_it_is_tried_again(
    ends: StopAtFirstEnd, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    assert supervisor.run() == 0
    assert "trying again in 0.2 s" in ends.messages[0]


def test_worker_processes_find_the_jobs_that_a_store_in_memory_had_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with Headrace("memory://") as app:
        job = app.task(name="noop")(lambda: "done").enqueue()

        def run() -> object:
            child = Child(lambda _: app.run_worker(drain=True))
            code = child.hear()
            child.end()
            return code

        monkeypatch.setattr("headrace.app.run_workers.Supervisor", lambda *_, **__: SimpleNamespace(run=run))
        assert app.run_worker(processes=2) == 0
        assert job.result(0) == "done"
