"""A worker fetches ahead only while jobs prove short, so that a long job holds none behind it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.runtime.worker.prefetch import Prefetch


class Stopwatch:
    """A time that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def stopwatch(monkeypatch: pytest.MonkeyPatch) -> Stopwatch:
    stopwatch = Stopwatch()
    monkeypatch.setattr("headrace.runtime.worker.prefetch.time", SimpleNamespace(monotonic=stopwatch.monotonic))
    return stopwatch


def work(prefetch: Prefetch, stopwatch: Stopwatch, jobs: int, seconds: float, times: int = 10) -> None:
    for _ in range(times):
        stopwatch.now += seconds
        prefetch.finished(jobs)


def test_a_fresh_worker_fetches_nothing_ahead(stopwatch: Stopwatch) -> None:
    assert Prefetch(4, 1000).ahead == 0


def test_short_jobs_are_fetched_ahead_for_a_moment_of_work(stopwatch: Stopwatch) -> None:
    prefetch = Prefetch(4, 1000)
    work(prefetch, stopwatch, jobs=50, seconds=0.01)  # 5000 jobs a second
    assert 100 <= prefetch.ahead <= 250


def test_long_jobs_are_not_fetched_ahead(stopwatch: Stopwatch) -> None:
    prefetch = Prefetch(4, 1000)
    work(prefetch, stopwatch, jobs=1, seconds=0.1)
    assert prefetch.ahead == 0


def test_never_more_than_allowed(stopwatch: Stopwatch) -> None:
    prefetch = Prefetch(1, 10)
    work(prefetch, stopwatch, jobs=1000, seconds=0.01)
    assert prefetch.ahead == 10
    nothing = Prefetch(1, 0)
    work(nothing, stopwatch, jobs=1000, seconds=0.01)
    assert nothing.ahead == 0


def test_one_slow_moment_counts_in_full_and_recovery_is_gradual(stopwatch: Stopwatch) -> None:
    prefetch = Prefetch(1, 1000)
    work(prefetch, stopwatch, jobs=50, seconds=0.01)
    fast = prefetch.ahead
    work(prefetch, stopwatch, jobs=1, seconds=0.06, times=1)
    assert prefetch.ahead <= 1
    work(prefetch, stopwatch, jobs=50, seconds=0.01, times=1)
    assert 0 < prefetch.ahead < fast


def test_a_moment_too_short_to_measure_slows_nothing_down(stopwatch: Stopwatch) -> None:
    prefetch = Prefetch(1, 1000)
    work(prefetch, stopwatch, jobs=50, seconds=0.01)
    fast = prefetch.ahead
    work(prefetch, stopwatch, jobs=1, seconds=0.01, times=4)
    assert prefetch.ahead == fast
    work(prefetch, stopwatch, jobs=1, seconds=0.01, times=1)
    assert prefetch.ahead <= 5  # five jobs in what is now long enough


def test_time_in_which_runners_had_no_work_slows_nothing_down(stopwatch: Stopwatch) -> None:
    prefetch = Prefetch(1, 1000)
    work(prefetch, stopwatch, jobs=50, seconds=0.01)
    fast = prefetch.ahead
    prefetch.starved()
    work(prefetch, stopwatch, jobs=1, seconds=0.1, times=1)
    assert prefetch.ahead == fast
    work(prefetch, stopwatch, jobs=1, seconds=0.1, times=1)  # this time there was work
    assert prefetch.ahead == 0


def test_jobs_of_many_short_turns_are_counted_together(stopwatch: Stopwatch) -> None:
    prefetch = Prefetch(1, 1000)
    for _ in range(100):
        prefetch.starved()
        work(prefetch, stopwatch, jobs=1, seconds=0.0005, times=1)
    assert 50 <= prefetch.ahead <= 100


def test_a_worker_claims_more_at_once_from_a_slow_store_but_at_most_a_fifth_of_a_second(stopwatch: Stopwatch) -> None:
    prefetch = Prefetch(4, 10_000)
    work(prefetch, stopwatch, jobs=50, seconds=0.01)
    quick = prefetch.ahead
    for _ in range(10):
        prefetch.note_exchange(0.01)
    assert prefetch.ahead == quick
    for _ in range(10):
        prefetch.note_exchange(0.025)
    assert quick * 1.9 < prefetch.ahead < quick * 2.1
    prefetch.note_exchange(30.0)
    assert prefetch.ahead <= 5000 * 0.2


def test_a_store_far_away_does_not_make_jobs_look_long(stopwatch: Stopwatch) -> None:
    prefetch = Prefetch(4, 1000)
    for _ in range(20):
        work(prefetch, stopwatch, jobs=4, seconds=0.001, times=1)
        stopwatch.now += 0.1
        prefetch.note_exchange(0.1, all_idle=True)
    assert 500 <= prefetch.ahead <= 800  # of 4000 a second


def test_long_jobs_are_not_fetched_ahead_however_slow_the_store_is(stopwatch: Stopwatch) -> None:
    prefetch = Prefetch(4, 1000)
    prefetch.note_exchange(5.0)
    work(prefetch, stopwatch, jobs=1, seconds=0.1)
    assert prefetch.ahead == 0


def test_time_without_jobs_says_nothing_about_their_length(stopwatch: Stopwatch) -> None:
    prefetch = Prefetch(1, 1000)
    work(prefetch, stopwatch, jobs=50, seconds=0.01)
    before = prefetch.ahead
    stopwatch.now += 3600
    prefetch.idle()
    work(prefetch, stopwatch, jobs=50, seconds=0.01, times=1)
    assert prefetch.ahead >= before // 2


def test_a_stall_stops_fetching_ahead(stopwatch: Stopwatch) -> None:
    prefetch = Prefetch(1, 1000)
    work(prefetch, stopwatch, jobs=50, seconds=0.01)
    prefetch.stalled()
    assert prefetch.ahead == 0
