"""A call that was answered a moment ago is answered by the same job, without running anything."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from headrace import Cache, ConfigError, Headrace, InvalidJob, Job, State, Task, Unique
from headrace.testing import VirtualClock, drain, inline
from tests.support.waiting import PATIENCE


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Iterator[Headrace]:
    with Headrace(url, clock=clock, heartbeat=2.0, shutdown_timeout=5.0) as app:
        yield app


@pytest.fixture
def runs() -> list[str]:
    return []


@pytest.fixture
def weather(app: Headrace, runs: list[str]) -> Task[..., Any, Any]:
    @app.task(cache=Cache(ttl=60), retry=0)
    def weather(city: str, unit: str = "C", *, mood: str = "fine") -> str:
        runs.append(city)
        if mood == "bad":
            raise OSError("no answer")
        return f"{city} {len(runs)} {unit}"

    return weather


def test_a_finished_job_answers_until_its_time_is_over(
    app: Headrace, weather: Any, runs: list[str], clock: VirtualClock
) -> None:
    first = weather.enqueue("Graz")
    clock.advance(30)
    drain(app)
    clock.advance(59)
    again = weather.enqueue(city="Graz", unit="C")
    assert (again.id, again.state, again.result(timeout=0)) == (first.id, State.COMPLETED, "Graz 1 C")
    assert drain(app) == 0
    clock.advance(1)  # a minute after it finished, not after it was enqueued
    assert weather.enqueue("Graz").id != first.id
    drain(app)
    assert runs == ["Graz", "Graz"]


def test_a_job_that_is_under_way_is_shared(app: Headrace, weather: Any, clock: VirtualClock) -> None:
    first = weather.using(delay=3600).enqueue("Graz")
    clock.advance(3000)
    assert weather.enqueue("Graz").id == first.id
    assert weather.enqueue("Linz").id != first.id


def test_a_job_that_failed_or_was_cancelled_answers_nothing(app: Headrace, weather: Any) -> None:
    failed = weather.enqueue("Graz", mood="bad")
    drain(app)
    assert failed.refresh().state is State.FAILED
    second = weather.enqueue("Graz", mood="bad")
    assert second.id != failed.id
    assert second.cancel()
    assert weather.enqueue("Graz", mood="bad").id not in (failed.id, second.id)


def test_calls_are_the_same_by_what_the_key_names(app: Headrace, weather: Any) -> None:
    by_city = weather.using(cache=Cache(timedelta(minutes=1), key=("city",)))
    assert by_city.enqueue("Graz", "C").id == by_city.enqueue("Graz", "F").id != by_city.enqueue("Linz").id
    today = weather.using(cache=Cache(60, key="today"))
    assert today.enqueue("Graz").id == today.enqueue("Linz").id
    other = app.task(name="other", cache=Cache(60, key="today"))(lambda: None)
    assert other.enqueue().id != today.enqueue("Graz").id


def test_what_runs_again_by_hand_is_shared_and_then_answers_anew(app: Headrace, weather: Any) -> None:
    first = weather.enqueue("Graz")
    drain(app)
    assert first.retry()
    assert weather.enqueue("Graz").state is State.PENDING
    drain(app)
    assert weather.enqueue("Graz").result(timeout=0) == "Graz 2 C"


def test_coroutines_and_batches_are_answered_too(app: Headrace, weather: Any, runs: list[str]) -> None:
    with app.worker(concurrency=1):
        first = weather.enqueue("Graz")
        assert first.result(timeout=PATIENCE) == "Graz 1 C"

        async def main() -> list[Job[Any]]:
            return [await weather.aenqueue("Graz"), *await app.aenqueue_many([weather.bind("Graz")] * 2)]

        jobs = asyncio.run(main())
        assert [job.result(timeout=0) for job in [*jobs, *app.enqueue_many([weather.bind("Graz")])]] == ["Graz 1 C"] * 4
    assert {job.id for job in jobs} == {first.id}
    assert runs == ["Graz"]


def test_run_inline_the_second_call_runs_nothing(app: Headrace, weather: Any, runs: list[str]) -> None:
    with inline(app):
        assert [weather.enqueue("Graz").result(timeout=0) for _ in range(3)] == ["Graz 1 C"] * 3
        assert weather.using(cache=None).enqueue("Graz").result(timeout=0) == "Graz 2 C"
    assert runs == ["Graz", "Graz"]


def test_what_does_not_go_with_a_cache_is_refused(app: Headrace, weather: Any) -> None:
    with pytest.raises(InvalidJob, match="cache and keep_result=False exclude each other"):
        weather.using(keep_result=False).enqueue("Graz")
    with pytest.raises(InvalidJob, match="unique and cache exclude each other"):
        weather.using(unique=Unique()).enqueue("Graz")
    with pytest.raises(InvalidJob, match=r"cache key: 'weather' has no parameter 'town'.*it has 'city', 'unit'"):
        weather.using(cache=Cache(60, key=("town",))).enqueue("Graz")
    with pytest.raises(ConfigError, match="cache and keep_result=False"):
        app.task(name="other", cache=Cache(60), keep_result=False)(lambda: None)
    assert app.jobs.count() == 0
