"""How many workers a queue wants, and how far it is behind, also where little is known."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.metrics.scaling import QueueLoad, scale_of_queue, scale_of_store, seconds_behind, slots_wanted
from headrace.core.settings.settings import Settings
from headrace.errors import ConfigError


def load(**known: Any) -> QueueLoad:
    return QueueLoad(queue="mail", **known)


@pytest.mark.parametrize(
    ("known", "slots"),
    [
        ({}, 0),
        ({"slots": 8, "workers": 2}, 0),  # nothing to do: scale to zero
        ({"running": 3}, 3),  # running jobs keep their slots
        ({"arrivals": 10.0, "run": 0.5}, 5),
        ({"arrivals": 10.0, "run": 0.5, "attempts": 2.0}, 10),  # retries run, too
        ({"arrivals": 10.0, "run": 0.5, "attempts": 0.5}, 5),
        ({"pending": 600, "run": 1.0}, 10),  # 600 s of work within 60 s
        ({"pending": 600, "run": 1.0, "arrivals": 2.0}, 12),
        ({"pending": 3, "run": 600.0}, 3),  # never more than one slot for a job
        ({"pending": 1, "run": 0.001}, 1),
        ({"pending": 5, "run": 0.0}, 1),
        ({"pending": 600, "run": 1.0, "running": 40}, 40),
    ],
)
def test_arrivals_and_backlog_want_slots(known: dict[str, Any], slots: float) -> None:
    assert slots_wanted(load(**known), 60.0) == pytest.approx(slots)


def test_a_shorter_target_wait_wants_more() -> None:
    assert slots_wanted(load(pending=600, run=1.0), 10.0) == 60


def test_without_history_the_present_slots_are_kept_and_at_least_one() -> None:
    assert slots_wanted(load(pending=1000), 60.0) == 1
    assert slots_wanted(load(pending=1000, slots=12, workers=3), 60.0) == 12
    assert slots_wanted(load(arrivals=1.0), 60.0) == 1
    assert slots_wanted(load(slots=12, workers=3), 60.0) == 0, "an empty queue needs none"


def test_a_paused_queue_wants_no_more_than_its_running_jobs() -> None:
    paused = load(pending=1000, run=9.0, arrivals=5.0, oldest=500.0, running=2, paused=True, slots=4, workers=1)
    assert slots_wanted(paused, 60.0) == 2
    assert seconds_behind(paused) == 0
    assert scale_of_queue(paused, 60.0, 4).paused


@pytest.mark.parametrize(
    ("limits", "slots"),
    [
        ({"most_running": 5}, 5),
        ({"most_starts": 2.0}, 20),  # two starts a second of ten seconds each
        ({"most_starts": 2.0, "most_running": 5}, 5),
        ({"most_starts": 0.001}, 1),
        ({"most_running": 5, "running": 7}, 7),
    ],
)
def test_a_limit_of_the_queue_is_the_most_that_helps(limits: dict[str, Any], slots: float) -> None:
    assert slots_wanted(load(pending=6000, run=10.0, **limits), 60.0) == pytest.approx(slots)


@pytest.mark.parametrize(
    ("known", "behind"),
    [
        ({}, 0),
        ({"oldest": 9.0}, 0),  # an old sample: nothing waits
        ({"pending": 100, "run": 2.0, "slots": 4, "workers": 1}, 50),
        ({"pending": 100, "run": 2.0, "slots": 4, "workers": 1, "oldest": 70.0}, 70),
        ({"pending": 100, "run": 2.0, "oldest": 70.0}, 70),  # no workers
        ({"pending": 100, "oldest": 70.0, "slots": 4, "workers": 1}, 70),  # no history
    ],
)
def test_seconds_behind_is_a_finite_number(known: dict[str, Any], behind: float) -> None:
    assert seconds_behind(load(**known)) == pytest.approx(behind)


def test_workers_are_rounded_up_with_the_slots_of_those_that_serve_the_queue() -> None:
    assert scale_of_queue(load(pending=600, run=1.0, workers=2, slots=16), 60.0, 4).workers_wanted == 2
    assert scale_of_queue(load(pending=600, run=1.0), 60.0, 4).workers_wanted == 3
    assert scale_of_queue(load(pending=540, run=1.0), 60.0, 3).workers_wanted == 3, "an exact number is not raised"
    assert scale_of_queue(load(), 60.0, 4).workers_wanted == 0


def test_all_queues_together_share_workers() -> None:
    loads = [QueueLoad(queue=str(number), pending=1, run=1.0, oldest=float(number)) for number in range(4)]
    found = scale_of_store(loads, 60.0, 0, 0, 4)
    assert [queue.workers_wanted for queue in found.queues] == [1, 1, 1, 1]
    assert (found.slots_wanted, found.workers_wanted, found.seconds_behind) == (4, 1, 3)
    empty = scale_of_store([], 60.0, 2, 8, 4)
    assert (empty.workers, empty.slots, empty.workers_wanted, empty.seconds_behind) == (2, 8, 0, 0)


@pytest.mark.parametrize("seconds", [0, -1, 0.5, 1e9, float("nan")])
def test_a_target_wait_that_makes_no_sense_is_refused(seconds: float) -> None:
    with pytest.raises(ConfigError, match="target_wait"):
        Settings(target_wait=seconds)
