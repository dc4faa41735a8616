"""Which index leads to the jobs of a filter."""

from __future__ import annotations

import itertools

import pytest

from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State
from headrace.engines.sql.search_plan import (
    IndexSource,
    has_only_states_and_queue,
    indexes_of_states,
    plan_of,
    scan_limit_of,
)

FAILED, CANCELLED, PENDING = (State.FAILED,), (State.CANCELLED,), (State.PENDING,)
NOTHING = Filter()


@pytest.mark.parametrize(
    ("which", "walk", "left"),
    [
        (NOTHING, "number", NOTHING),
        (Filter(queue="q"), "number", Filter(queue="q")),
        (Filter(states=PENDING), "number", Filter(states=PENDING)),
        (Filter(text="t", since=5), "number", Filter(text="t", since=5)),
        (Filter(states=FAILED), "failed", NOTHING),
        (Filter(states=CANCELLED, queue="q"), "cancelled", Filter(queue="q")),
        (Filter(states=FAILED + CANCELLED), "number", Filter(states=FAILED + CANCELLED)),
        (Filter(tag="t"), "tag", NOTHING),
        (Filter(tag="t", states=FAILED), "tag", Filter(states=FAILED)),
        (Filter(flow="f", tag="t"), "flow", Filter(tag="t")),
        (Filter(ids=("a",), flow="f"), "id", Filter(flow="f")),
    ],
)
def test_the_search_uses_the_most_selective_index(which: Filter, walk: str, left: Filter) -> None:
    lead = plan_of(which)
    assert (lead.walk, lead.left) == (walk, left)
    assert lead.is_straight == (left == NOTHING)


@pytest.mark.parametrize(
    "which", [NOTHING, Filter(tag="t"), Filter(flow="f"), Filter(states=FAILED), Filter(ids=("a",))]
)
def test_a_filter_that_matches_every_indexed_job_needs_no_count(which: Filter) -> None:
    assert plan_of(which).sets == ()


def test_the_most_selective_filter_is_tried_first() -> None:
    sets = plan_of(Filter(flow="f", tag="t", states=PENDING, queue="q")).sets
    assert sets == ((IndexSource("flow"),), (IndexSource("tag"),), (IndexSource("pending_of_queue"),))


@pytest.mark.parametrize(
    "which", [Filter(task="t"), Filter(worker="w"), Filter(text="x"), Filter(since=1), Filter(until=1)]
)
def test_no_index_knows_of_tasks_workers_texts_and_times(which: Filter) -> None:
    assert plan_of(which).sets == ()
    assert not has_only_states_and_queue(which)


def covered(source: IndexSource) -> set[State]:
    if source.state is not None:
        return {source.state}
    if source.name == "due":
        return {State.SCHEDULED, State.RETRYING}
    return {State(source.name.removesuffix("_of_queue"))}


SUBSETS = [states for size in range(len(State) + 1) for states in itertools.combinations(State, size)]


@pytest.mark.parametrize("queue", [None, "q"])
def test_the_places_of_some_states_hold_each_of_them_once(queue: str | None) -> None:
    for states in SUBSETS:
        sources = indexes_of_states(Filter(states=states, queue=queue))
        held = [state for source in sources for state in covered(source)]
        assert len(held) == len(set(held))
        assert set(held) >= set(states or State)
        for source in sources:
            distinguished = covered(source) <= set(states or State)
            assert source.is_exact == (distinguished and (queue is None or source.name not in ("due", "running")))


def test_repeated_states_are_searched_once() -> None:
    assert indexes_of_states(Filter(states=PENDING + PENDING)) == (IndexSource("pending"),)


def test_only_states_and_a_queue_are_places() -> None:
    assert has_only_states_and_queue(Filter(states=PENDING, queue="q"))
    assert not has_only_states_and_queue(Filter(states=PENDING, task="t"))
    assert not has_only_states_and_queue(NOTHING)


def test_jobs_that_are_looked_up_one_by_one_are_fewer() -> None:
    assert scan_limit_of("number", 100) == 100
    assert scan_limit_of("tag", 100) < 100
    assert scan_limit_of("flow", 1) == 1
