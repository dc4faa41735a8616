"""The breaker: after a few failures only one caller tries the server, now and then."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from headrace.engines.shared import circuit_breaker as module
from headrace.engines.shared.circuit_breaker import CircuitBreaker
from headrace.errors import EngineUnavailable


class Time:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(module, "time", made)
    monkeypatch.setattr(
        "headrace.engines.shared.circuit_breaker.random.uniform", lambda _, most: most
    )  # no jitter, but where it is what is tested
    return made


@pytest.fixture
def breaker(time: Time) -> CircuitBreaker:
    return CircuitBreaker()


def fail(breaker: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        breaker.failed("the server is away")


def sends_away(breaker: CircuitBreaker) -> bool:
    """Whether the breaker refuses a caller. Otherwise the caller counts as sent to the server."""
    try:
        breaker.check()
    except EngineUnavailable:
        return True
    return False


def pause_of(breaker: CircuitBreaker, time: Time) -> float:
    """How long callers are sent away from now on, to the hundredth."""
    begun = time.now
    while sends_away(breaker):
        time.now += 0.01
        assert time.now < begun + 100, "no caller passes any more"
    return round(time.now - begun, 2)


def test_callers_pass_while_the_server_answers(breaker: CircuitBreaker) -> None:
    for _ in range(100):
        breaker.check()
        breaker.succeeded()


def test_the_fifth_failure_in_a_row_shuts_the_way(breaker: CircuitBreaker) -> None:
    fail(breaker, 4)
    assert not sends_away(breaker)
    fail(breaker, 1)
    assert sends_away(breaker)


def test_a_success_in_between_begins_the_count_anew(breaker: CircuitBreaker) -> None:
    fail(breaker, 4)
    breaker.succeeded()
    fail(breaker, 4)
    assert not sends_away(breaker)


def test_a_refused_caller_gets_the_reason_and_the_time_of_the_next_try(breaker: CircuitBreaker, time: Time) -> None:
    fail(breaker, 4)
    breaker.failed("db:5432: connection refused")
    with pytest.raises(EngineUnavailable, match=r"db:5432: connection refused; next try in 0\.2 s"):
        breaker.check()


def test_after_the_pause_one_caller_of_many_may_try(breaker: CircuitBreaker, time: Time) -> None:
    fail(breaker, 5)
    time.now += 0.25
    start = threading.Barrier(32)
    passed: list[bool] = []

    def call() -> None:
        start.wait()
        passed.append(not sends_away(breaker))

    callers = [threading.Thread(target=call) for _ in range(32)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert passed.count(True) == 1
    assert len(passed) == 32


def test_a_successful_try_closes_the_breaker(breaker: CircuitBreaker, time: Time) -> None:
    fail(breaker, 5)
    time.now += 0.25
    breaker.check()
    breaker.succeeded()
    assert [sends_away(breaker) for _ in range(10)] == [False] * 10
    fail(breaker, 4)
    assert not sends_away(breaker)


def test_each_failed_try_makes_the_pause_longer_up_to_five_seconds(breaker: CircuitBreaker, time: Time) -> None:
    fail(breaker, 5)
    pauses = []
    for _ in range(7):
        pauses.append(pause_of(breaker, time))
        breaker.failed("still away")
    assert pauses == pytest.approx([0.25, 0.5, 1, 2, 4, 5, 5], abs=0.02)


def test_the_next_outage_begins_with_a_short_pause_again(breaker: CircuitBreaker, time: Time) -> None:
    fail(breaker, 5)
    for _ in range(5):
        pause_of(breaker, time)
        breaker.failed("still away")
    pause_of(breaker, time)
    breaker.succeeded()
    fail(breaker, 5)
    assert pause_of(breaker, time) == pytest.approx(0.25, abs=0.02)


def test_a_crowd_that_fails_at_once_does_not_make_the_pause_longer(breaker: CircuitBreaker, time: Time) -> None:
    fail(breaker, 40)
    assert pause_of(breaker, time) == pytest.approx(0.25, abs=0.02)


def test_stragglers_do_not_put_off_the_next_try(breaker: CircuitBreaker, time: Time) -> None:
    fail(breaker, 5)
    for _ in range(24):
        time.now += 0.01
        fail(breaker, 1)
    assert pause_of(breaker, time) <= 0.02


def test_a_try_that_never_returns_is_followed_by_another(breaker: CircuitBreaker, time: Time) -> None:
    fail(breaker, 5)
    time.now += 0.25
    breaker.check()
    assert sends_away(breaker)
    time.now += 0.25
    assert not sends_away(breaker)


def test_processes_do_not_come_back_at_the_same_moment(time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    probes: list[tuple[float, float]] = []

    def uniform(least: float, most: float) -> float:
        probes.append((least, most))
        return least

    monkeypatch.setattr("headrace.engines.shared.circuit_breaker.random.uniform", uniform)
    breaker = CircuitBreaker()
    fail(breaker, 5)
    assert pause_of(breaker, time) == pytest.approx(0.125, abs=0.02)
    assert probes == [(0.5, 1.0)]


def test_a_success_among_callers_that_are_just_looking_leaves_no_trace(breaker: CircuitBreaker, time: Time) -> None:
    """Between the two checks of a caller, another caller succeeds."""
    fail(breaker, 5)
    time.now += 1

    class MeddledLock:
        def __enter__(self) -> None:
            breaker._lock = lock
            breaker.succeeded()

        def __exit__(self, *_: Any) -> None: ...

    lock = breaker._lock
    breaker._lock = MeddledLock()  # type: ignore[assignment]
    breaker.check()
    fail(breaker, 5)
    assert pause_of(breaker, time) == pytest.approx(0.25, abs=0.02)
