"""Stale and nearly stale jobs, the action for them, and the query that misses none."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.jobs.states import OPEN, State
from headrace.core.retention.lifecycle import Policies, PolicyRow, StoredPolicy
from headrace.core.retention.policy_fields import OnStale
from headrace.core.retention.staleness import (
    AgeQuery,
    AgeStats,
    JobAge,
    StaleFinding,
    age_query,
    check_staleness,
    format_duration,
    stale_action,
)
from headrace.core.settings.settings import Settings

NOW = 1_700_000_000_000
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def aged(state: State = State.PENDING, lasted: int = 0, age: int = 0, **more: Any) -> JobAge:
    return JobAge("job", more.pop("task", "send"), more.pop("queue", "mail"), state, 7, NOW - lasted, NOW - age, **more)


def look(job: JobAge, *rows: PolicyRow, **settings: Any) -> StaleFinding | None:
    return check_staleness(job, Policies(rows, Settings(**settings)), NOW)


def task(**fields: Any) -> PolicyRow:
    return PolicyRow("task", "send", StoredPolicy(**fields))


@pytest.mark.parametrize(
    ("state", "most"),
    [(State.WAITING, HOUR), (State.RETRYING, HOUR // 2), (State.PENDING, DAY), (State.SCHEDULED, DAY)],
)
def test_each_state_has_a_threshold_and_a_warning_at_three_quarters_of_it(state: State, most: int) -> None:
    assert look(aged(state, most * 3 // 4 - 1)) is None
    nearly = look(aged(state, most * 3 // 4))
    assert nearly is not None
    assert (nearly.is_stale, nearly.threshold, nearly.what) == (False, most, "state")
    at_the_edge = look(aged(state, most))
    assert at_the_edge is not None
    assert not at_the_edge.is_stale
    over = look(aged(state, most + 1))
    assert over is not None
    assert (over.is_stale, over.lasted, over.action) == (True, most + 1, "review")


def test_a_run_is_left_to_its_timeout_by_default() -> None:
    assert look(aged(State.RUNNING, 365 * DAY, 365 * DAY)) is None
    found = look(aged(State.RUNNING, 2 * HOUR), task(max_running=HOUR))
    assert found is not None
    assert (found.is_stale, found.action) == (True, "dead")


def test_a_job_that_is_due_later_is_never_stale() -> None:
    assert look(aged(State.SCHEDULED, -DAY, -DAY), task(max_scheduled=1, max_age=1)) is None


@pytest.mark.parametrize(
    ("rows", "action"),
    [
        ((), "review"),
        ((task(max_waiting=1),), "review"),  # the threshold that it is over is not the task's own
        ((task(max_pending=DAY),), "dead"),
        ((task(max_pending=DAY, on_stale="fail"),), "fail"),
        ((PolicyRow("queue", "mail", StoredPolicy(), StoredPolicy(max_pending=DAY)),), "dead"),
        ((PolicyRow("queue", "mail", StoredPolicy(), StoredPolicy(on_stale="fail")),), "fail"),
        ((PolicyRow("queue", "other", StoredPolicy(), StoredPolicy(on_stale="fail")),), "review"),
        ((PolicyRow("task", "send", StoredPolicy(max_pending=DAY), StoredPolicy(on_stale="review")),), "review"),
    ],
)
def test_a_job_is_ended_only_by_a_policy_of_its_task_or_queue(rows: tuple[PolicyRow, ...], action: OnStale) -> None:
    found = look(aged(lasted=2 * DAY), *rows)
    assert found is not None
    assert found.action == action


def test_a_setting_may_say_so_for_all() -> None:
    found = look(aged(lasted=2 * DAY), on_stale="dead")
    assert found is not None
    assert found.action == "dead"


def test_an_override_acts_and_not_the_global_threshold() -> None:
    assert look(aged(lasted=2 * DAY), task(max_pending=None)) is None
    assert look(aged(lasted=2 * DAY), task(max_pending=9 * DAY)) is None
    assert look(aged(lasted=2 * MINUTE), task(max_pending=MINUTE)) is not None


def test_the_age_counts_beside_the_state_and_the_more_severe_finding_wins() -> None:
    old = aged(lasted=MINUTE, age=2 * HOUR)
    found = look(old, task(max_age=HOUR))
    assert found is not None
    assert (found.what, found.lasted, found.threshold, found.action) == ("age", 2 * HOUR, HOUR, "dead")
    both = look(aged(lasted=90 * DAY, age=2 * HOUR), task(max_age=HOUR))
    assert both is not None
    assert (both.what, both.action) == ("age", "dead"), "a review must not stand in the way of an end"
    warned = look(aged(lasted=2 * DAY, age=50 * MINUTE), task(max_age=HOUR))
    assert warned is not None
    assert (warned.what, warned.is_stale) == ("state", True)


def test_a_judgment_names_version_time_and_threshold() -> None:
    found = look(aged(lasted=2 * DAY + HOUR), task(max_pending=DAY))
    assert found is not None
    made = stale_action(found)
    assert (made.id, made.version, made.action) == ("job", 7, "dead")
    assert made.detail == "pending for 2 d 1 h, at most 1 d (automatic)"
    other = look(aged(State.WAITING, 2 * DAY), task(max_waiting=DAY))
    assert other is not None
    assert stale_action(other).fingerprint != made.fingerprint, "another state is another matter to look into"
    reviewed = look(aged(age=2 * HOUR), task(max_age=HOUR, on_stale="review"))
    assert reviewed is not None
    assert stale_action(reviewed).detail == "not finished after 2 h, at most 1 h (left as it is)"


def test_the_least_of_all_thresholds_decides_what_is_looked_at() -> None:
    rows = [
        task(max_pending=HOUR, max_age=None),
        PolicyRow("queue", "q", StoredPolicy(), StoredPolicy(max_running=MINUTE)),
    ]
    found = age_query(rows, Settings(stale_scheduled=None), NOW)
    assert found == AgeQuery(
        {
            State.PENDING: NOW - 45 * MINUTE,
            State.WAITING: NOW - 45 * MINUTE,
            State.RETRYING: NOW - 1_350_000,
            State.RUNNING: NOW - 45_000,
        },
        None,
    )
    assert age_query([task(max_age=HOUR)], Settings(), NOW).due == NOW - 45 * MINUTE
    off = {f"stale_{state}": None for state in ("scheduled", "waiting", "pending", "retrying")}
    assert age_query([], Settings(**off), NOW) == AgeQuery({}, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", sorted(OPEN))
def test_the_query_misses_no_finding(state: State) -> None:
    rows = [
        task(max_age=7 * HOUR),
        PolicyRow("queue", "mail", StoredPolicy(), StoredPolicy(max_waiting=5, max_running=HOUR)),
    ]
    wide = age_query(rows, Settings(), NOW)
    for lasted in (1, 3, 4, MINUTE, HOUR // 2, HOUR, 6 * HOUR, 20 * HOUR, 2 * DAY):
        job = aged(state, lasted, lasted)
        if look(job, *rows) is not None:
            seen = job.since <= wide.since.get(state, -1) or (wide.due is not None and job.due <= wide.due)
            assert seen, f"{state} for {lasted} ms is missed"


def test_durations_are_formatted_in_two_units() -> None:
    texts = [
        format_duration(ms) for ms in (0, 999, 1000, 61_000, HOUR, HOUR + 30_000, DAY + 2 * HOUR + MINUTE, 30 * DAY)
    ]
    assert texts == ["0 ms", "999 ms", "1 s", "1 min 1 s", "1 h", "1 h", "1 d 2 h", "30 d"]


def test_ages_are_counted_and_the_ten_stalest_named() -> None:
    ages = AgeStats(State.PENDING, "mail")
    for number in range(30):
        ages.add(JobAge(f"j{number:02d}", "send", "mail", State.PENDING, 1, NOW - number * HOUR, NOW), NOW)
    ages.add(JobAge("later", "send", "mail", State.PENDING, 1, NOW + DAY, NOW), NOW)
    assert (ages.jobs, ages.longest, ages.over_an_hour, ages.over_a_day) == (31, 29 * HOUR, 28, 5)
    assert [job_id for _, job_id in ages.stalest] == [f"j{number}" for number in range(29, 19, -1)]
