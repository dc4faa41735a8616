"""Servers that restart, connections that are cut, workers that are cut off: nothing is lost, nothing counts twice.

Each test has a server of its own, with its default durability, and the workers are processes that nobody helps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from headrace import EngineUnavailable, Headrace, Job
from headrace.engines.shared import circuit_breaker
from headrace.runtime.worker import wait_for_store
from headrace.runtime.worker.worker import Worker
from tests.support.proxy import Proxy
from tests.support.servers import Mode, PostgresServer, RedisServer
from tests.support.waiting import PATIENCE, eventually

PROMISED = 10  # seconds after the server's return within which workers go on
SPOILED = 4  # outages in which the machine itself may have paused for so long

pytestmark = pytest.mark.engines("postgres", "redis")


@pytest.fixture
def server(engine_name: str) -> Iterator[PostgresServer | RedisServer]:
    with PostgresServer() if engine_name == "postgres" else RedisServer() as server:
        yield server


@pytest.fixture
def url(server: PostgresServer | RedisServer) -> str:
    return server.url


class Producer:
    """Enqueues one job after the other in a thread, and keeps those that were accepted."""

    def __init__(self, app: Headrace) -> None:
        self._touch = app.task_by_name("touch")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._produce)
        self.accepted: list[tuple[int, Job[object]]] = []
        self.refused = 0

    def _produce(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            try:
                self.accepted.append((number, self._touch.enqueue(number)))
            except EngineUnavailable:
                self.refused += 1
                self._stop.wait(0.01)

    def go_on_for(self, jobs: int) -> None:
        """Wait until so many more were accepted."""
        enough = len(self.accepted) + jobs
        eventually(lambda: len(self.accepted) >= enough, what="some load")

    def __enter__(self) -> Producer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def all_ended_once(app: Headrace, producer: Producer) -> None:
    """Every accepted job was completed, and none was accepted or completed twice.

    So was whatever is stored besides: a job whose producer was cut off before it was told of it.
    """
    for number, job in producer.accepted:
        assert job.result(PATIENCE) == number * 2
    rows = {job.id: job for job in every_job(app)}
    assert {job.id for _, job in producer.accepted} <= rows.keys()
    for job in rows.values():
        assert job.state == "completed" or job.wait(PATIENCE) == "completed"
        events = [entry.event.value for entry in job.history()]
        assert events.count("submit") == 1
        assert events.count("succeed") == 1


def every_job(app: Headrace) -> Iterator[Job[object]]:
    cursor = None
    while True:
        page = app.jobs.find(limit=1000, cursor=cursor)
        yield from page
        if (cursor := page.cursor) is None:
            return


def seconds_until_completed(app: Headrace) -> float:
    """How long it takes until a job is accepted and completed."""
    began = time.monotonic()
    while True:
        try:
            job = app.enqueue("touch", 21)
            break
        except EngineUnavailable:
            assert time.monotonic() < began + PATIENCE, "the producer did not find the server again"
            time.sleep(0.05)
    assert job.result(PATIENCE) == 42
    return time.monotonic() - began


def work_goes_on_as_promised(app: Headrace, outage: Callable[[], None], times: int) -> None:
    """After each outage work goes on by itself, and in time after so many of them."""
    took: list[float] = []
    while sum(seconds < PROMISED for seconds in took) < times:
        assert len(took) < times + SPOILED, f"work went on only after {took} seconds"
        outage()
        took.append(seconds_until_completed(app))


def test_the_longest_pauses_add_up_to_less_than_what_is_promised() -> None:
    assert circuit_breaker._PAUSE_LONGEST + wait_for_store.OUTAGE_LONGEST < PROMISED


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_restarts_under_load_loses_nothing(
    server: PostgresServer | RedisServer, fleet: SimpleNamespace, url: str, mode: Mode
) -> None:
    with Headrace(url) as app:
        workers = [fleet.start() for _ in range(2)]
        eventually(lambda: len(app.workers()) == 2, what="two workers that have started")
        seconds_until_completed(app)
        with Producer(app) as producer:

            def restart() -> None:
                producer.go_on_for(200)
                server.restart(mode)

            work_goes_on_as_promised(app, restart, times=2)
        all_ended_once(app, producer)
        assert producer.refused, "the producer was told while the server was away"
        assert [worker.poll() for worker in workers] == [None, None]


@pytest.mark.slow
def test_a_server_that_is_away_for_a_while_is_met_by_fast_refusals_and_then_by_everybody(
    server: PostgresServer | RedisServer, fleet: SimpleNamespace, url: str
) -> None:
    with Headrace(url) as app:
        worker = fleet.start()
        seconds_until_completed(app)
        took = []

        def outage() -> None:
            server.stop()
            for _ in range(50):
                before = time.monotonic()
                with pytest.raises(EngineUnavailable) as caught:
                    app.enqueue("touch", 1)
                took.append(time.monotonic() - before)
                assert str(urlsplit(url).password) not in str(caught.value)
            server.start()

        work_goes_on_as_promised(app, outage, times=1)
        assert median(took) < 2
        assert worker.poll() is None


@pytest.mark.slow
def test_connections_that_are_cut_again_and_again_lose_nothing(
    server: PostgresServer | RedisServer, fleet: SimpleNamespace, url: str
) -> None:
    with Proxy(server.port) as proxy, Headrace(proxy.through(url)) as app, Headrace(url) as looking:
        workers = [fleet.start(url=proxy.through(url)) for _ in range(2)]
        eventually(lambda: len(looking.workers()) == 2, what="two workers that have started")
        seconds_until_completed(app)
        with Producer(app) as producer:
            for _ in range(20):
                producer.go_on_for(5)
                proxy.cut()
        all_ended_once(looking, producer)
        assert [worker.poll() for worker in workers] == [None, None]


@pytest.mark.slow
def test_a_worker_cut_off_for_longer_than_its_lease_changes_nothing_when_it_is_back(
    server: PostgresServer | RedisServer, fleet: SimpleNamespace, url: str, tmp_path: Path
) -> None:
    with Proxy(server.port) as proxy, Headrace(url) as app:
        job = app.enqueue("hold", str(tmp_path))
        fleet.start(url=proxy.through(url), lease=3, heartbeat=0.5)
        eventually((tmp_path / "began-1").exists)
        proxy.pause()
        (tmp_path / "go-1").touch()
        fleet.start(lease=900, heartbeat=0.5)
        eventually((tmp_path / "began-2").exists, what="the second attempt")
        proxy.resume()
        eventually(told(job, "lease_lost"), what="'lease_lost' in the history")
        assert job.refresh().state == "running"
        (tmp_path / "go-2").touch()
        assert job.result(PATIENCE) == "attempt 2"
        assert [entry.event.value for entry in job.history()].count("succeed") == 1


def told(job: Job[object], event: str) -> Callable[[], bool]:
    return lambda: any(entry.event == event for entry in job.history())


@pytest.mark.slow
def test_a_worker_comes_back_with_one_job_and_doubles_it_from_turn_to_turn(
    server: PostgresServer | RedisServer, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All jobs wait when the server returns, and no run ends before all have begun."""
    caplog.set_level("WARNING", "headrace.worker")
    with Headrace(url, prefetch=0) as app, app.worker(concurrency=31) as worker:
        full, asked = threading.Barrier(32), list[int]()
        task = app.task(name="meet")(lambda: full.wait(PATIENCE))
        exchange = app.engine.exchange

        def listened_to(outcomes: Any, want: Any, *rest: Any, **named: Any) -> Any:
            answer = exchange(outcomes, want, *rest, **named)
            asked.append(want.limit)
            return answer

        worker.pause()
        jobs = [task.enqueue() for _ in range(31)]
        monkeypatch.setattr(app.engine, "exchange", listened_to)
        server.stop()
        eventually(lambda: not worker._heartbeat._store_answers, what="a worker that has noticed, though it is idle")
        server.start()
        eventually(lambda: goes_on(worker), "a worker that can be told to go on")
        full.wait(PATIENCE)
        assert {job.wait(PATIENCE) for job in jobs} == {"completed"}
    assert [limit for limit in asked if limit][:5] == [1, 2, 4, 8, 16]


def goes_on(worker: Worker) -> bool:
    try:
        worker.resume()
    except EngineUnavailable:
        return False
    return True
