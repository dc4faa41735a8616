"""An app survives a fork: the child has threads, locks and connections of its own, and the parent keeps its own."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from tests.support.gates import Gate, through
from tests.support.waiting import PATIENCE


@pytest.fixture
def stored(folder: Path) -> Iterator[Headrace]:
    with Headrace(f"sqlite:///{folder}/jobs.db") as app:
        app.task(name="double")(lambda n: 2 * n)
        yield app


def in_child(act: Callable[[], object]) -> int:
    """Do it in a forked child; its exit code, 0 if all went well. A child that hangs is killed."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the child hangs")


def test_a_child_can_enqueue_on_an_app_that_was_used_before_the_fork(stored: Headrace) -> None:
    double = stored.tasks["double"]
    job = double.enqueue(1)

    def child() -> None:
        assert stored.jobs.get(job.id).args == (1,)
        double.using(job_id="childs").enqueue(21)
        stored.close()

    assert in_child(child) == 0
    assert stored.jobs.get("childs").args == (21,)
    assert double.enqueue(2).refresh().state == "pending"
    assert stored.jobs.count() == 3


class Doorbell:
    """Holds its listener outside of the store for as long as the test needs."""

    def __init__(self) -> None:
        self.waiting = threading.Event()
        self._released = threading.Event()

    def wait(self, timeout: float | None) -> bool:
        self.waiting.set()
        return self._released.wait(PATIENCE)

    def ring(self) -> None: ...

    def close(self) -> None: ...

    def release(self) -> None:
        self._released.set()


@contextlib.contextmanager
def doorbells(app: Headrace, *topics: str) -> Iterator[Callable[[], None]]:
    """Threads that listen in here stay at their bells. SQLite can't be forked while a thread is inside of it.

    Gives a function that waits until they all do.
    """
    bells = {topic: Doorbell() for topic in topics}
    app.engine.listen = lambda topic, queues=(): bells[topic]  # type: ignore[method-assign]

    def all_wait() -> None:
        for bell in bells.values():
            assert bell.waiting.wait(PATIENCE)

    try:
        yield all_wait
    finally:
        del app.engine.listen
        for bell in bells.values():
            bell.release()


def test_a_child_can_wait_although_its_parent_waits_as_well(stored: Headrace) -> None:
    double = stored.tasks["double"]
    with doorbells(stored, "done") as all_wait:
        with pytest.raises(TimeoutError):
            double.enqueue(1).result(0.01)
        all_wait()  # the parent's waiting thread is there from now on

        def child() -> None:
            del stored.engine.listen
            with stored.worker():
                assert double.enqueue(4).result(PATIENCE) == 8

        assert in_child(child) == 0


def test_a_child_does_not_stop_its_parents_worker_nor_hang_on_it(stored: Headrace) -> None:
    with doorbells(stored, "work", "commands", "schedules", "events") as all_wait:
        worker = stored.worker().start()
        all_wait()

        def child() -> None:
            with stored:
                stored.tasks["double"].enqueue(1)

        assert in_child(child) == 0
        assert not worker.stopped.is_set()
    assert stored.tasks["double"].enqueue(5).wait(PATIENCE) == "completed"
    worker.stop(0)


def test_a_child_forked_in_the_middle_of_an_enqueue_can_enqueue(stored: Headrace) -> None:
    insert, inside, go_on = stored.engine.insert, threading.Event(), threading.Event()

    def slow(jobs: Any, **options: Any) -> Any:
        if threading.current_thread().name == "slow":
            inside.set()
            assert go_on.wait(PATIENCE)
        return insert(jobs, **options)

    stored.engine.insert = slow  # type: ignore[method-assign]
    stored.reset_after_fork()  # so that the submitter goes through the slow one
    double = stored.tasks["double"]
    thread = threading.Thread(target=double.enqueue, args=(1,), name="slow")
    thread.start()
    assert inside.wait(PATIENCE)
    try:
        assert in_child(lambda: double.using(job_id="childs").enqueue(2)) == 0
    finally:
        go_on.set()
        thread.join(PATIENCE)
    assert stored.jobs.count() == 2


def test_ids_of_parent_and_child_never_meet(stored: Headrace) -> None:
    double = stored.tasks["double"]

    def child() -> None:
        for n in range(200):
            double.enqueue(n)

    assert in_child(child) == 0
    for n in range(200):
        double.enqueue(n)
    assert stored.jobs.count() == 400


def test_a_child_can_have_a_worker_of_its_own(stored: Headrace, kind: str) -> None:
    gate = Gate()
    stored.task(name="held")(through(kind, gate, os.getpid))
    job = stored.enqueue("held")

    def child() -> None:
        gate.open()
        with stored, stored.worker():
            assert job.result(PATIENCE) == os.getpid()

    assert in_child(child) == 0
    assert job.result(0) != os.getpid()
