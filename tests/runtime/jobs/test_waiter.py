"""A wait for a job leaves nothing behind, however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from headrace import EngineUnavailable, Headrace
from headrace.runtime.jobs.waiter import Waiter
from tests.support.waiting import PATIENCE, eventually


@pytest.fixture
def job_id(app: Headrace) -> str:
    app.task(name="idle")(lambda: None)
    return app.enqueue("idle").id


def test_a_wait_that_is_cancelled_while_it_begins_is_forgotten(
    app: Headrace, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiter = Waiter(app.engine)
    finished = app.engine.queries.finished
    inside, go_on = threading.Event(), threading.Event()

    def slow(ids: Any) -> set[str]:
        inside.set()
        assert go_on.wait(PATIENCE)
        return finished(ids)

    monkeypatch.setattr(app.engine.queries, "finished", slow)

    async def main() -> None:
        waiting = asyncio.create_task(waiter.await_finish(job_id, None))
        assert await asyncio.to_thread(inside.wait, PATIENCE)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        go_on.set()

    asyncio.run(main())  # its end waits for the threads it used
    assert waiter._awaited == {}
    waiter.close()


Way = Callable[[Waiter, str], object]
WAYS: dict[str, Way] = {
    "thread": lambda waiter, job_id: waiter.wait(job_id, PATIENCE),
    "coroutine": lambda waiter, job_id: asyncio.run(waiter.await_finish(job_id, PATIENCE)),
}


@pytest.mark.parametrize("wait", WAYS.values(), ids=WAYS)
def test_a_wait_at_a_store_that_is_away_is_forgotten(
    app: Headrace, job_id: str, monkeypatch: pytest.MonkeyPatch, wait: Way
) -> None:
    waiter = Waiter(app.engine)

    def away(ids: Any) -> set[str]:
        if threading.current_thread().name == "headrace-waiter":
            return set()  # an error of the thread would end all waits
        raise EngineUnavailable("away")

    monkeypatch.setattr(app.engine.queries, "finished", away)
    with pytest.raises(EngineUnavailable):
        wait(waiter, job_id)
    assert waiter._awaited == {}
    waiter.close()


def test_a_wait_for_which_no_thread_can_be_started_is_forgotten(
    app: Headrace, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiter = Waiter(app.engine)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            waiter.wait(job_id, PATIENCE)
    assert waiter._awaited == {}
    assert waiter.wait(job_id, 0.01) is False
    waiter.close()


def test_all_concurrent_waits_end_with_an_error_when_the_app_is_closed(
    app: Headrace, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, waiting = Waiter.__init__, threading.Barrier(3)

    def slowly(self: Waiter, engine: Any) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        make(self, engine)

    both = threading.Barrier(2)
    monkeypatch.setattr(Waiter, "__init__", slowly)
    errors: list[type[BaseException]] = []

    def wait() -> None:
        job = app.jobs.get(job_id)
        waiting.wait(PATIENCE)
        try:
            job.wait(PATIENCE)
        except Exception as error:
            errors.append(type(error))

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    waiting.wait(PATIENCE)
    eventually(lambda: sum(map(len, app.services.waits.waiter()._awaited.values())) == 2)
    app.close()
    for thread in threads:
        thread.join(PATIENCE)
    assert errors == [EngineUnavailable] * 2
