"""Which finished jobs leave the store, when, and how: by their terms alone."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.jobs.states import State
from headrace.core.retention.lifecycle import StoredPolicy
from headrace.core.retention.retention import (
    GRACE,
    KEY_TTL,
    FinishedJob,
    RetentionAction,
    has_removal,
    kept_until,
    removal_of,
    retention_action,
    shortest,
)

END = 1_000_000_000_000
DAY = 86_400_000
USUAL = StoredPolicy(
    keep_completed=7 * DAY,
    keep_failed=30 * DAY,
    keep_cancelled=8 * DAY,
    archive=True,
    remove_on_complete=False,
    remove_on_fail=False,
)


def job(
    state: State = State.COMPLETED, *, options: str | None = None, keyed: bool = False, held: bool = False
) -> FinishedJob:
    return FinishedJob(1, "job", "work", "default", state, END, 3, options, keyed, held)


def policy(**more: Any) -> StoredPolicy:
    return StoredPolicy(**more).over(USUAL)


@pytest.mark.parametrize(("state", "days"), [(State.COMPLETED, 7), (State.FAILED, 30), (State.CANCELLED, 8)])
def test_each_state_has_a_time_of_its_own(state: State, days: int) -> None:
    assert retention_action(job(state), USUAL, END + days * DAY - 1, 0) == "keep"
    assert retention_action(job(state), USUAL, END + days * DAY, 0) == "archive"


def test_none_keeps_for_ever_and_zero_not_at_all() -> None:
    assert kept_until(job(), policy(keep_completed=None)) is None
    assert retention_action(job(), policy(keep_completed=None), END + 10_000 * DAY, 0) == "keep"
    assert retention_action(job(), policy(keep_completed=0), END, 0) == "archive"


@pytest.mark.parametrize(
    ("archive", "since", "expected"),
    [
        (True, 0, "archive"),
        (False, 0, "delete"),
        (True, None, "delete"),
        (True, END, "archive"),
        (True, END + 1, "delete"),
    ],
)
def test_what_the_archive_would_only_drop_again_is_not_archived(
    archive: bool, since: int | None, expected: RetentionAction
) -> None:
    assert retention_action(job(), policy(archive=archive), END + 7 * DAY, since) == expected


def test_a_job_that_is_held_stays_whatever_its_terms() -> None:
    assert (
        retention_action(job(held=True), policy(keep_completed=0, remove_on_complete=True), END + 999 * DAY, 0)
        == "keep"
    )


def test_removal_waits_for_the_dependents_of_the_job() -> None:
    at_once = policy(remove_on_complete=True)
    assert retention_action(job(), at_once, END + GRACE - 1, 0) == "keep"
    assert retention_action(job(), at_once, END + GRACE, 0) == "archive"
    assert retention_action(job(State.FAILED), at_once, END + GRACE, 0) == "keep"
    assert retention_action(job(State.CANCELLED), at_once, END + GRACE, 0) == "keep"
    assert retention_action(job(State.FAILED), policy(remove_on_fail=True), END + GRACE, 0) == "archive"
    assert retention_action(job(), policy(remove_on_complete=True, keep_completed=None), END + GRACE, 0) == "archive"
    assert (
        retention_action(job(), policy(remove_on_complete=True, keep_completed=0), END, 0) == "archive"
    )  # as requested


@pytest.mark.parametrize(("newer", "expected"), [(0, "keep"), (2, "keep"), (3, "archive"), (9, "archive")])
def test_so_many_of_the_newest_stay(newer: int, expected: RetentionAction) -> None:
    assert retention_action(job(), policy(remove_on_complete=3), END + GRACE, 0, newer) == expected


def test_the_options_of_a_call_have_precedence() -> None:
    assert removal_of(job(options='{"remove_on_complete":true}'), USUAL) is True
    assert removal_of(job(options='{"remove_on_complete":false}'), policy(remove_on_complete=True)) is False
    assert removal_of(job(options='{"remove_on_complete":5,"timeout":3}'), policy(remove_on_complete=True)) == 5
    assert removal_of(job(options='{"remove_on_fail":true}'), USUAL) is False
    assert removal_of(job(options='{"timeout":3}'), policy(remove_on_complete=True)) is True
    assert removal_of(job(State.CANCELLED, options='{"remove_on_fail":true}'), USUAL) is False


def test_one_is_a_number_and_not_true() -> None:
    assert retention_action(job(), policy(remove_on_complete=1), END + GRACE, 0, newer=0) == "keep"
    assert retention_action(job(), policy(remove_on_complete=1), END + GRACE, 0, newer=1) == "archive"


def test_a_key_holds_for_its_day() -> None:
    removed = policy(remove_on_complete=True)
    assert retention_action(job(keyed=True), removed, END + KEY_TTL - 1, 0) == "keep"
    assert retention_action(job(keyed=True), removed, END + KEY_TTL, 0) == "archive"
    assert kept_until(job(keyed=True), policy(keep_completed=None)) is None


def test_the_shortest_time_of_all_policies_bounds_the_scan() -> None:
    both = [USUAL, StoredPolicy(keep_failed=DAY), StoredPolicy(keep_completed=None)]
    assert shortest(both, State.COMPLETED) == 7 * DAY
    assert shortest(both, State.FAILED) == DAY
    assert shortest([StoredPolicy(keep_failed=None)], State.FAILED) is None


def test_removal_is_checked_only_where_a_policy_has_it() -> None:
    assert not has_removal([USUAL], State.COMPLETED)
    assert has_removal([USUAL, StoredPolicy(remove_on_complete=3)], State.COMPLETED)
    assert not has_removal([USUAL, StoredPolicy(remove_on_complete=3)], State.FAILED)
    assert not has_removal([StoredPolicy(remove_on_fail=True)], State.CANCELLED)
