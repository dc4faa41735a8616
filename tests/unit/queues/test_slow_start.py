"""A worker that had lost the store comes back with one job, then twice as many each time."""

from __future__ import annotations

from headrace.core.queues.slow_start import SlowStart


def asked(recovery: SlowStart, turns: int, room: int) -> list[int]:
    """What a worker asks for in so many turns that are answered."""
    wants = []
    for _ in range(turns):
        wants.append(recovery.allows(room))
        recovery.answered(wants[-1])
    return wants


def test_in_calm_times_a_worker_asks_for_all_it_has_room_for() -> None:
    assert asked(SlowStart(), 3, 100) == [100, 100, 100]


def test_after_an_outage_it_asks_for_twice_as_many_each_time() -> None:
    recovery = SlowStart()
    recovery.lost()
    assert asked(recovery, 9, 100) == [1, 2, 4, 8, 16, 32, 64, 100, 100]


def test_room_for_a_single_job_is_no_reason_to_stay_careful() -> None:
    recovery = SlowStart()
    recovery.lost()
    assert asked(recovery, 2, 1) == [1, 1]
    assert asked(recovery, 1, 100) == [100]


def test_a_turn_that_asks_for_nothing_tells_nothing() -> None:
    recovery = SlowStart()
    recovery.lost()
    assert asked(recovery, 5, 0) == [0] * 5
    assert asked(recovery, 2, 100) == [1, 2]


def test_a_store_that_goes_away_again_is_met_with_one_again() -> None:
    recovery = SlowStart()
    recovery.lost()
    assert asked(recovery, 4, 100) == [1, 2, 4, 8]
    recovery.lost()
    recovery.lost()
    assert asked(recovery, 3, 100) == [1, 2, 4]
