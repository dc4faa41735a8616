"""The table of transitions: complete, without dead ends, and drawn in full."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from headrace.core.jobs import states as module
from headrace.core.jobs.states import FINAL, NOT_STARTED, OPEN, TRANSITIONS, State, Trigger, diagram, is_legal, sources
from tests.support.waiting import PATIENCE

MOVES_NOTHING = {
    Trigger.LEASE_LOST,
    Trigger.REVIEW,
    Trigger.SUPERSEDE,
    Trigger.STEP,
    Trigger.SLEEP,
    Trigger.EVENT,
    Trigger.QUESTION,
    Trigger.COMPENSATION,
    Trigger.PATCH,
    Trigger.COST,
}
MOVES = [event for event in Trigger if event not in MOVES_NOTHING]
BY_A_WORKER = {Trigger.SUCCEED, Trigger.RETRY, Trigger.SNOOZE, Trigger.RELEASE}

# The whole table once more, written by hand: a change of the table has to be repeated here.
EXPECTED = {
    Trigger.SUBMIT: ("", "pending scheduled waiting"),
    Trigger.PROMOTE: ("scheduled retrying", "pending"),
    Trigger.UNBLOCK: ("waiting", "pending scheduled completed"),
    Trigger.CLAIM: ("pending", "running"),
    Trigger.SUCCEED: ("running", "completed waiting"),
    Trigger.RETRY: ("running", "retrying"),
    Trigger.SNOOZE: ("running", "scheduled pending"),
    Trigger.RELEASE: ("running", "pending scheduled"),
    Trigger.FAIL: ("waiting scheduled retrying pending running", "failed"),
    Trigger.LEASE_EXPIRED: ("running", "pending retrying failed"),
    Trigger.CANCEL: ("waiting scheduled retrying pending running", "cancelled"),
    Trigger.CANCEL_REQUEST: ("running", "running"),
    Trigger.EXPIRE: ("waiting scheduled retrying pending", "cancelled"),
    Trigger.STALE: ("waiting scheduled retrying pending running", "failed"),
    Trigger.REVIVE: ("failed cancelled completed", "pending scheduled waiting"),
    Trigger.PROMOTE_NOW: ("scheduled retrying waiting", "pending"),
    Trigger.UPDATE: ("waiting scheduled retrying pending", "waiting scheduled retrying pending"),
    Trigger.DELETE: ("waiting scheduled retrying pending completed failed cancelled", ""),
}


def edges(*without: Trigger) -> set[tuple[State, State]]:
    return {
        (source, target)
        for event, row in TRANSITIONS.items()
        if event not in without
        for source, target in product(row.sources, row.targets)
    }


def reachable_from(start: set[State], steps: set[tuple[State, State]]) -> set[State]:
    found = set(start)
    while more := {target for source, target in steps if source in found} - found:
        found |= more
    return found


@pytest.mark.parametrize("event", MOVES)
def test_every_event_has_its_row_and_says_what_it_is_about(event: Trigger) -> None:
    row = TRANSITIONS[event]
    assert row.event is event
    assert row.note
    assert (set(row.sources), set(row.targets)) == tuple(set(part.split()) for part in EXPECTED[event])


def test_every_state_can_be_reached_from_a_submission() -> None:
    assert reachable_from(set(TRANSITIONS[Trigger.SUBMIT].targets), edges()) == set(State)


def test_every_state_that_is_not_final_can_be_left_without_an_operator() -> None:
    by_hand = (Trigger.CANCEL, Trigger.PROMOTE_NOW, Trigger.UPDATE, Trigger.REVIVE)
    left = {source for source, target in edges(*by_hand) if source is not target}
    assert left >= OPEN


def test_from_every_open_state_a_final_one_can_be_reached_by_itself() -> None:
    steps = edges(Trigger.CANCEL, Trigger.STALE, Trigger.EXPIRE, Trigger.UPDATE, Trigger.PROMOTE_NOW)
    for state in OPEN:
        assert reachable_from({state}, steps) & FINAL


def test_a_final_state_is_left_by_hand_only() -> None:
    events = {event for event, row in TRANSITIONS.items() if row.sources & FINAL}
    assert events == {Trigger.REVIVE, Trigger.DELETE}


def test_a_job_starts_running_by_a_claim_alone() -> None:
    starts = {event for event, row in TRANSITIONS.items() if State.RUNNING in row.targets - row.sources}
    assert starts == {Trigger.CLAIM}


def test_what_a_worker_decides_starts_from_running_alone() -> None:
    assert {event: sources(event) for event in BY_A_WORKER} == {event: {State.RUNNING} for event in BY_A_WORKER}


def test_a_running_job_cannot_be_deleted_or_amended() -> None:
    assert State.RUNNING not in sources(Trigger.DELETE) | sources(Trigger.UPDATE)


def test_only_a_submission_comes_from_nowhere_and_only_a_deletion_leads_there() -> None:
    assert [event for event, row in TRANSITIONS.items() if not row.sources] == [Trigger.SUBMIT]
    assert [event for event, row in TRANSITIONS.items() if not row.targets] == [Trigger.DELETE]


def test_the_groups_of_states_do_not_overlap_and_leave_nothing_out() -> None:
    assert set(State) == FINAL | OPEN
    assert not FINAL & OPEN
    assert NOT_STARTED | {State.RUNNING} == OPEN


@pytest.mark.parametrize("event", MOVES)
def test_is_legal_agrees_with_the_table_for_every_pair_of_states(event: Trigger) -> None:
    legal = {(source, target) for source, target in product(State, State) if is_legal(event, source, target)}
    assert legal == set(product(TRANSITIONS[event].sources, TRANSITIONS[event].targets))


@pytest.mark.parametrize("member", [*State, *Trigger])
def test_names_are_the_stored_texts(member: State | Trigger) -> None:
    assert re.fullmatch(r"[a-z_]+", member.value)
    assert str(member) == member.value == member.name.lower()


# -- the picture


def drawn() -> set[tuple[str, str, str]]:
    lines = diagram().splitlines()
    assert lines[0] == "stateDiagram-v2"
    found = [re.fullmatch(r" {4}(\S+) --> (\S+): (\w+)", line) for line in lines[1:]]
    assert None not in found
    return {match.groups() for match in found if match}  # type: ignore[misc]


def test_the_diagram_has_every_edge_and_no_other() -> None:
    expected = {
        (source, target, event.value)
        for event, row in TRANSITIONS.items()
        if event is not Trigger.UPDATE  # it would draw a loop at every state that it leaves alone
        for source in row.sources or {"[*]"}
        for target in row.targets or {"[*]"}
    }
    assert drawn() == expected


def test_the_diagram_is_the_same_each_time() -> None:
    assert diagram() == diagram()
    assert len(diagram().splitlines()) == len(set(diagram().splitlines()))


def test_the_module_prints_its_diagram() -> None:
    root = Path(module.__file__).parents[3]
    command = [sys.executable, "-c", "import runpy; runpy.run_module('headrace.core.jobs.states', run_name='__main__')"]
    printed = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert printed.stdout == diagram() + "\n"
