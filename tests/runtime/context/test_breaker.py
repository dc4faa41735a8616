"""A breaker opens after failures in a row, for all processes; jobs wait, spend no attempt, and one of them tries."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace import Breaker, BreakerOpen, Headrace, InvalidJob, PermanentError, Retry, Snooze
from headrace.core.tasks.breaker import KIND
from headrace.testing import VirtualClock, drain


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(datetime(2026, 3, 1, 12, tzinfo=UTC))


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Any:
    with Headrace(url, clock=clock) as app:
        yield app


def fail(breaker: Breaker, error: Exception | None = None) -> None:
    with pytest.raises(type(error or OSError())), breaker:
        raise error or OSError("the password is sesame")


def succeed(breaker: Breaker) -> None:
    with breaker:
        pass


def seconds(error: Snooze) -> float:
    assert isinstance(error.delay, float)
    return error.delay


def documents(app: Headrace) -> int:
    return len(app.engine.document_store.get(KIND))


def test_it_opens_after_failures_in_a_row_and_forgets_them_after_a_success(app: Headrace) -> None:
    breaker = app.breaker("stripe", failures=3)
    for _ in range(2):
        fail(breaker)
    succeed(breaker)
    assert documents(app) == 0
    for _ in range(3):
        assert not breaker.is_open
        fail(breaker)
    assert breaker.is_open
    with pytest.raises(
        BreakerOpen, match=r"breaker 'stripe' is open after 3 failures, the last one OSError$"
    ) as caught:
        succeed(breaker)
    assert 30 <= seconds(caught.value) <= 33
    assert isinstance(caught.value, Snooze)


def test_it_is_open_in_all_processes_of_the_store(app: Headrace, url: str, clock: VirtualClock) -> None:
    here, there = app.breaker("stripe", failures=2), app.breaker("stripe", failures=2)
    fail(here)
    fail(there)
    for breaker in (here, there, app.breaker("stripe", failures=2)):
        with pytest.raises(BreakerOpen):
            succeed(breaker)
    succeed(app.breaker("paypal"))


def test_one_call_tries_after_the_pause_and_closes_it(app: Headrace, clock: VirtualClock) -> None:
    here, there = app.breaker("stripe", failures=1), app.breaker("stripe", failures=1)
    fail(here)
    clock.advance(30)
    with here:
        with pytest.raises(BreakerOpen) as caught:
            succeed(there)
        assert 3 <= seconds(caught.value) <= 3.3
    there.is_open  # noqa: B018 - it reads the store, which it does else once in a second
    succeed(there)
    assert documents(app) == 0


def test_a_trial_that_fails_opens_it_again_and_one_that_dies_ends(app: Headrace, clock: VirtualClock) -> None:
    breaker = app.breaker("stripe", failures=2, open_for=60)
    fail(breaker)
    fail(breaker)
    clock.advance(60)
    fail(breaker)
    assert breaker.is_open
    clock.advance(60)
    breaker.__enter__()  # and its process dies
    assert breaker.is_open
    clock.advance(60)
    succeed(breaker)
    assert not breaker.is_open


def test_calls_from_before_it_opened_change_nothing(app: Headrace, clock: VirtualClock) -> None:
    rule: dict[str, Any] = {"failures": 1, "open_for": 30}
    late, breaker = app.breaker("stripe", **rule), app.breaker("stripe", **rule)
    with late:
        fail(breaker)
    assert breaker.is_open
    breaker.reset()
    late.__enter__()
    fail(breaker)
    clock.advance(20)
    late.__exit__(OSError, OSError("late"), None)
    clock.advance(10)
    assert not breaker.is_open


def test_only_the_named_exceptions_are_failures(app: Headrace) -> None:
    breaker = app.breaker("stripe", failures=1, on=(ConnectionError, TimeoutError))
    for answer in (ValueError("no such card"), PermanentError("no"), Snooze(1)):
        fail(breaker, answer)
        assert not breaker.is_open
    fail(breaker, ConnectionResetError("away"))
    assert breaker.is_open
    breaker.reset()
    succeed(breaker)


def test_jobs_wait_without_spending_attempts_and_say_why(app: Headrace, clock: VirtualClock) -> None:
    breaker = app.breaker("stripe", failures=2)
    is_away = True

    @app.task(retry=Retry(limit=1, backoff="fixed", base=300, jitter=0))
    def charge(order: int) -> int:
        with breaker:
            if is_away:
                raise ConnectionError("away")
            return order

    jobs = [charge.enqueue(n) for n in range(4)]
    assert drain(app) == 4
    assert [job.refresh().state for job in jobs] == ["retrying", "retrying", "scheduled", "scheduled"]
    assert [job.attempt for job in jobs] == [1, 1, 0, 0]
    assert "breaker 'stripe' is open after 2 failures, the last one ConnectionError" in str(jobs[3].why())
    is_away = False
    for _ in range(20):
        clock.advance(30)
        drain(app)
    assert [job.result(0) for job in jobs] == [0, 1, 2, 3]
    assert [job.attempt for job in jobs] == [2, 2, 1, 1]


def test_a_coroutine_uses_it_with_async_with(app: Headrace) -> None:
    breaker = app.breaker("stripe", failures=1)

    async def main() -> None:
        async with breaker:
            pass
        with pytest.raises(OSError, match="away"):
            async with breaker:
                raise OSError("away")
        with pytest.raises(BreakerOpen):
            async with breaker:
                pass

    asyncio.run(main())
    assert breaker.is_open


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"failures": 0}, "failures: expected 1 to 1000, got 0"),
        ({"open_for": -1}, "open_for: expected seconds"),
        ({"on": ["OSError"]}, "on: expected exceptions"),
        ({"on": ()}, "on: expected exceptions"),
    ],
)
def test_a_wrong_breaker_is_refused(app: Headrace, given: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidJob, match=error):
        app.breaker("stripe", **given)


def test_a_refused_call_gives_its_units_back(app: Headrace) -> None:
    app.queue("default").configure(rate="1000 units/h", burst=1000)
    stripe = app.breaker("stripe", failures=1, open_for=30, on=(OSError,))

    @app.task(cost=300, retry=0)
    def pay() -> None:
        with stripe:
            raise OSError("away")

    for _ in range(6):
        pay.enqueue()
    drain(app)
    assert app.jobs.count(state="failed") == 1
    assert app.jobs.count(state="scheduled") == 5
    assert app.queue("default").stats().starts_left == 700
