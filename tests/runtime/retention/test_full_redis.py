"""A Redis that may not grow any more: finished jobs leave ahead of their time, so that work goes on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from itertools import count

import pytest

from headrace import EngineUnavailable, Headrace
from headrace.testing import VirtualClock, drain
from tests.conformance.redis.servers import OwnRedis
from tests.support.engines import KINDS
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.skipif("redis" not in KINDS, reason="not among $HEADRACE_TEST_ENGINES")


@pytest.fixture
def server() -> Iterator[OwnRedis]:
    with OwnRedis("maxmemory 12mb", "maxmemory-policy noeviction") as server:
        yield server


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(server: OwnRedis, clock: VirtualClock) -> Iterator[Headrace]:
    with Headrace(server.url, clock=clock, archive_check=0.1, lease=86_400) as app:

        @app.task(name="work")
        def work(text: str) -> str:
            return text

        yield app


def fill(app: Headrace) -> list[str]:
    """Run jobs until the server takes no more; the ids of those that it took."""
    taken = []
    for number in count():
        try:
            taken.append(app.enqueue("work", f"{number:080000}").id)
            drain(app)
        except EngineUnavailable:  # out of memory
            return taken
    raise AssertionError


def test_a_worker_empties_a_full_store_and_settles_its_jobs(app: Headrace, clock: VirtualClock) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @app.task(queue="held")
    def held() -> str:
        begun.set()
        go_on.wait(PATIENCE)
        return "done"

    def is_gone_later(id: str) -> bool:
        """Retention skips jobs that have just finished, and a store that it has just checked: time has to pass."""
        clock.advance(0.5)
        return not app.engine.queries.get([id])

    with app.worker(queues=["held"], concurrency=1):
        job = held.enqueue()
        assert begun.wait(PATIENCE)
        taken = fill(app)
        go_on.set()
        eventually(lambda: is_gone_later(taken[0]), "the oldest job is gone")
        assert job.result(PATIENCE) == "done"
    assert (job.refresh().attempt, app.enqueue("work", "new").state) == (1, "pending")
    left = {found.id for found in app.jobs.find(state="completed", limit=1000)} & set(taken)
    assert len(left) > len(taken) / 2  # no more went than it took
    app.alerts.evaluate()
    assert "store_space" in [alert.rule for alert in app.alerts.active()]


def test_a_full_store_is_emptied_by_hand_too(app: Headrace, clock: VirtualClock) -> None:
    taken = fill(app)
    clock.advance(20)
    assert app.lifecycle.archive().deleted == 0  # none of them is over its time
    run = app.lifecycle.archive(dry_run=False)
    assert 0 < run.deleted < len(taken) / 2
    assert app.enqueue("work", "small").state == "pending"


@pytest.mark.slow
def test_jobs_that_wait_in_a_full_store_are_run_and_new_ones_refused(app: Headrace, server: OwnRedis) -> None:
    waiting = []
    with contextlib.suppress(EngineUnavailable):
        while True:
            waiting.append(app.enqueue("work", "x" * 20_000).id)
    with Headrace(server.url, archive_check=None) as other:  # it starts on the full server
        other.task(name="work")(len)
        with other.worker(concurrency=2):
            eventually(lambda: not app.jobs.count(state=["pending", "running"]), "all of them have run")
    assert app.jobs.count(state="completed", ids=waiting) == len(waiting)
    assert {app.jobs.get(id).result() for id in waiting} == {20_000}
    with pytest.raises(EngineUnavailable, match="out of memory"):
        app.enqueue("work", "x" * 20_000)
