"""A worker that had lost the store comes back with one job, then twice as many each time."""

from __future__ import annotations

from headrace.core.queues.slow_start import SlowStart


def claims_of(slow_start: SlowStart, turns: int, capacity: int) -> list[int]:
    """The jobs that a worker claims in so many answered turns."""
    wants = []
    for _ in range(turns):
        wants.append(slow_start.allows(capacity))
        slow_start.answered(wants[-1])
    return wants


def test_without_an_outage_a_worker_claims_its_whole_capacity() -> None:
    assert claims_of(SlowStart(), 3, 100) == [100, 100, 100]


def test_after_an_outage_it_claims_twice_as_many_each_time() -> None:
    slow_start = SlowStart()
    slow_start.lost()
    assert claims_of(slow_start, 9, 100) == [1, 2, 4, 8, 16, 32, 64, 100, 100]


def test_a_capacity_of_one_does_not_prolong_the_slow_start() -> None:
    slow_start = SlowStart()
    slow_start.lost()
    assert claims_of(slow_start, 2, 1) == [1, 1]
    assert claims_of(slow_start, 1, 100) == [100]


def test_a_turn_without_a_claim_changes_nothing() -> None:
    slow_start = SlowStart()
    slow_start.lost()
    assert claims_of(slow_start, 5, 0) == [0] * 5
    assert claims_of(slow_start, 2, 100) == [1, 2]


def test_a_store_that_goes_away_again_is_met_with_one_again() -> None:
    slow_start = SlowStart()
    slow_start.lost()
    assert claims_of(slow_start, 4, 100) == [1, 2, 4, 8]
    slow_start.lost()
    slow_start.lost()
    assert claims_of(slow_start, 3, 100) == [1, 2, 4]
