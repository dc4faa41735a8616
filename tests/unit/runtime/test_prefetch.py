"""A worker fetches ahead only while jobs prove short, so that a long job holds none behind it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.runtime.worker.prefetch import Prefetch


class Watch:
    """A time that passes when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr("headrace.runtime.worker.prefetch.time", SimpleNamespace(monotonic=watch.monotonic))
    return watch


def work(pace: Prefetch, watch: Watch, jobs: int, seconds: float, times: int = 10) -> None:
    for _ in range(times):
        watch.now += seconds
        pace.finished(jobs)


def test_a_fresh_worker_fetches_nothing_ahead(watch: Watch) -> None:
    assert Prefetch(4, 1000).ahead == 0


def test_short_jobs_are_fetched_ahead_for_a_moment_of_work(watch: Watch) -> None:
    pace = Prefetch(4, 1000)
    work(pace, watch, jobs=50, seconds=0.01)  # 5000 jobs a second
    assert 100 <= pace.ahead <= 250


def test_long_jobs_are_not_fetched_ahead(watch: Watch) -> None:
    pace = Prefetch(4, 1000)
    work(pace, watch, jobs=1, seconds=0.1)
    assert pace.ahead == 0


def test_never_more_than_allowed(watch: Watch) -> None:
    pace = Prefetch(1, 10)
    work(pace, watch, jobs=1000, seconds=0.01)
    assert pace.ahead == 10
    nothing = Prefetch(1, 0)
    work(nothing, watch, jobs=1000, seconds=0.01)
    assert nothing.ahead == 0


def test_one_slow_moment_counts_in_full_and_recovery_is_gradual(watch: Watch) -> None:
    pace = Prefetch(1, 1000)
    work(pace, watch, jobs=50, seconds=0.01)
    fast = pace.ahead
    work(pace, watch, jobs=1, seconds=0.06, times=1)
    assert pace.ahead <= 1
    work(pace, watch, jobs=50, seconds=0.01, times=1)
    assert 0 < pace.ahead < fast


def test_a_moment_too_short_to_tell_slows_nothing_down(watch: Watch) -> None:
    pace = Prefetch(1, 1000)
    work(pace, watch, jobs=50, seconds=0.01)
    fast = pace.ahead
    work(pace, watch, jobs=1, seconds=0.01, times=4)
    assert pace.ahead == fast
    work(pace, watch, jobs=1, seconds=0.01, times=1)
    assert pace.ahead <= 5  # five jobs in what is now long enough


def test_time_in_which_runners_had_no_work_slows_nothing_down(watch: Watch) -> None:
    pace = Prefetch(1, 1000)
    work(pace, watch, jobs=50, seconds=0.01)
    fast = pace.ahead
    pace.starved()
    work(pace, watch, jobs=1, seconds=0.1, times=1)
    assert pace.ahead == fast
    work(pace, watch, jobs=1, seconds=0.1, times=1)  # this time there was work
    assert pace.ahead == 0


def test_jobs_of_many_short_turns_are_counted_together(watch: Watch) -> None:
    pace = Prefetch(1, 1000)
    for _ in range(100):
        pace.starved()
        work(pace, watch, jobs=1, seconds=0.0005, times=1)
    assert 50 <= pace.ahead <= 100


def test_a_slow_store_is_asked_for_more_at_once_but_for_a_fifth_of_a_second_at_most(watch: Watch) -> None:
    pace = Prefetch(4, 10_000)
    work(pace, watch, jobs=50, seconds=0.01)
    quick = pace.ahead
    for _ in range(10):
        pace.turned(0.01)
    assert pace.ahead == quick
    for _ in range(10):
        pace.turned(0.025)
    assert quick * 1.9 < pace.ahead < quick * 2.1
    pace.turned(30.0)
    assert pace.ahead <= 5000 * 0.2


def test_a_store_far_away_does_not_make_jobs_look_long(watch: Watch) -> None:
    pace = Prefetch(4, 1000)
    for _ in range(20):
        work(pace, watch, jobs=4, seconds=0.001, times=1)
        watch.now += 0.1
        pace.turned(0.1, all_idle=True)
    assert 500 <= pace.ahead <= 800  # of 4000 a second


def test_long_jobs_are_not_fetched_ahead_however_slow_the_store_is(watch: Watch) -> None:
    pace = Prefetch(4, 1000)
    pace.turned(5.0)
    work(pace, watch, jobs=1, seconds=0.1)
    assert pace.ahead == 0


def test_time_without_jobs_says_nothing_about_their_length(watch: Watch) -> None:
    pace = Prefetch(1, 1000)
    work(pace, watch, jobs=50, seconds=0.01)
    before = pace.ahead
    watch.now += 3600
    pace.idle()
    work(pace, watch, jobs=50, seconds=0.01, times=1)
    assert pace.ahead >= before // 2


def test_a_stall_stops_fetching_ahead(watch: Watch) -> None:
    pace = Prefetch(1, 1000)
    work(pace, watch, jobs=50, seconds=0.01)
    pace.stalled()
    assert pace.ahead == 0
