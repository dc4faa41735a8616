"""Decisions of an engine before it writes, the same on every engine."""

from __future__ import annotations

import pytest

from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import OPEN, State, Trigger, is_legal, sources
from headrace.engines.shared.decisions import actor_suffix, movable_states, position, state_after, topics_of
from headrace.errors import InvalidJob

NOW = 1_700_000_000_000
EARLIER, LATER = NOW - 1, NOW + 1


@pytest.mark.parametrize(
    ("source", "run_at", "target"),
    [
        (State.PENDING, LATER, State.SCHEDULED),
        (State.PENDING, NOW, State.PENDING),
        (State.PENDING, EARLIER, State.PENDING),
        (State.SCHEDULED, LATER, State.SCHEDULED),
        (State.SCHEDULED, NOW, State.PENDING),
        (State.RETRYING, LATER, State.RETRYING),
        (State.RETRYING, EARLIER, State.PENDING),
        (State.WAITING, EARLIER, State.WAITING),
        (State.WAITING, LATER, State.WAITING),
    ],
)
def test_a_change_of_its_time_moves_a_job_that_has_not_started(source: State, run_at: int, target: State) -> None:
    assert state_after(source, run_at, NOW) is target


@pytest.mark.parametrize("source", sorted(sources(Trigger.UPDATE)))
def test_a_change_of_anything_else_leaves_it_where_it_is(source: State) -> None:
    assert state_after(source, None, NOW) is source


@pytest.mark.parametrize("source", sorted(sources(Trigger.UPDATE)))
@pytest.mark.parametrize("run_at", [None, EARLIER, NOW, LATER])
def test_a_change_never_leads_where_the_table_of_states_does_not(source: State, run_at: int | None) -> None:
    assert is_legal(Trigger.UPDATE, source, state_after(source, run_at, NOW))


@pytest.mark.parametrize(
    ("event", "topics"),
    [
        (Trigger.CANCEL, {"done", "commands", "work"}),
        (Trigger.DELETE, {"done"}),
        (Trigger.REVIVE, {"work"}),
        (Trigger.PROMOTE_NOW, {"work"}),
    ],
)
def test_a_move_rings_for_those_it_concerns(event: Trigger, topics: set[str]) -> None:
    assert set(topics_of(event)) == topics


def test_a_move_without_states_may_start_from_every_legal_one_in_a_steady_order() -> None:
    assert movable_states(Filter(), OPEN) == tuple(sorted(OPEN))


def test_a_move_starts_only_from_the_legal_ones_of_the_requested_states() -> None:
    filter = Filter(states=(State.RUNNING, State.COMPLETED, State.PENDING))
    assert movable_states(filter, OPEN) == (State.PENDING, State.RUNNING)
    assert movable_states(Filter(states=(State.COMPLETED,)), OPEN) == ()


@pytest.mark.parametrize(("by", "expected"), [("ann", " (by ann)"), (None, ""), ("", "")])
def test_an_action_is_signed_if_its_actor_has_a_name(by: str | None, expected: str) -> None:
    assert actor_suffix(by) == expected


@pytest.mark.parametrize(("cursor", "place"), [(None, None), ("0", 0), ("17", 17), ("9" * 18, 10**18 - 1)])
def test_a_cursor_stands_for_a_place(cursor: str | None, place: int | None) -> None:
    assert position(cursor) == place


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "-1", "1.5", "1e3", " 1", "1\n", "٣", "²", "0x10", "1_000", "9" * 19, "9" * 5000, "1;DROP TABLE"],
)
def test_a_cursor_that_find_never_returned_is_refused_before_it_reaches_a_store(cursor: str) -> None:
    with pytest.raises(InvalidJob, match="is not one that find"):
        position(cursor)
