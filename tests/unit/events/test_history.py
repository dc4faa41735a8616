"""The history of a job is complete: every version once, each step from where the last led."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from headrace.core.events.history import HistoryEntry, errors_of, timeline
from headrace.core.jobs.records import HistoryRow, JobRow
from headrace.core.jobs.states import State, Trigger

S, E = State, Trigger


def row(**given: Any) -> JobRow:
    values: dict[str, Any] = {
        "seq": 1, "id": "job", "task": "add", "queue": "default", "state": S.PENDING, "priority": 0, "rank": 1000,
        "version": 1, "attempt": 0, "max_attempts": 4, "crashes": 0, "releases": 0, "payload": "{}", "checksum": 0,
        "created_at": 1000, "run_at": 1000, "expires_at": None, "started_at": None, "finished_at": None,
        "worker": None, "lease_until": None, "result": None, "result_checksum": None, "progress": None,
        "reason": None, "options": None, "tags": None, "metadata": None,
    }  # fmt: skip
    return JobRow(**{**values, **given})


def history_row_of(event: str, source: str, target: str, version: int, attempt: int = 1, **given: Any) -> HistoryRow:
    values: dict[str, Any] = {
        "at": 1000 + version * 10, "worker": "w1", "started_at": 1000 + version * 10 - 5, "finished_at": None,
        "detail": None, "error_type": None, "error_message": None, "error_traceback": None,
    }  # fmt: skip
    found = {**values, **given}
    return HistoryRow(found.pop("at"), event, source, target, version, attempt, **found)


def steps(entries: list[HistoryEntry]) -> list[tuple[str, str | None, str]]:
    return [(str(entry.event), entry.from_state, str(entry.to_state)) for entry in entries]


def retried(version: int, attempt: int) -> HistoryRow:
    return history_row_of(E.RETRY, S.RUNNING, S.RETRYING, version, attempt, error_type="OSError", error_message="away")


def test_a_fresh_job_was_submitted_and_nothing_more() -> None:
    assert steps(timeline(row(), [])) == [("submit", None, "pending")]
    assert steps(timeline(row(state=S.SCHEDULED, run_at=9000), [])) == [("submit", None, "scheduled")]


def test_a_success_is_inferred_from_the_row_alone() -> None:
    done = row(state=S.COMPLETED, version=3, attempt=1, started_at=1500, finished_at=1700, worker="w1")
    assert steps(timeline(done, [])) == [
        ("submit", None, "pending"),
        ("claim", "pending", "running"),
        ("succeed", "running", "completed"),
    ]
    claim, success = timeline(done, [])[1:]
    assert (claim.version, claim.worker, claim.attempt, claim.at.timestamp()) == (2, "w1", 1, 1.5)
    assert (success.version, success.at.timestamp()) == (3, 1.7)


def test_a_running_job_was_claimed() -> None:
    running = row(state=S.RUNNING, version=2, attempt=1, started_at=1500, worker="w1")
    assert steps(timeline(running, []))[-1] == ("claim", "pending", "running")


def test_a_missing_version_is_the_promotion_of_a_delayed_job() -> None:
    due = row(version=2, run_at=5000)
    assert steps(timeline(due, [])) == [("submit", None, "scheduled"), ("promote", "scheduled", "pending")]
    done = row(state=S.COMPLETED, version=4, attempt=1, run_at=5000, started_at=5001, finished_at=5002, worker="w1")
    assert [str(entry.event) for entry in timeline(done, [])] == ["submit", "promote", "claim", "succeed"]


def test_a_delayed_job_that_failed_was_scheduled_first_although_its_time_was_overwritten() -> None:
    entries = timeline(row(state=S.RETRYING, version=4, attempt=1, run_at=99_000), [retried(4, 1)])
    assert steps(entries) == [
        ("submit", None, "scheduled"),
        ("promote", "scheduled", "pending"),
        ("claim", "pending", "running"),
        ("retry", "running", "retrying"),
    ]


def test_a_retry_is_promoted_from_retrying() -> None:
    done = row(state=S.COMPLETED, version=6, attempt=2, started_at=1500, finished_at=1700, worker="w1")
    entries = timeline(done, [retried(3, 1)])
    assert steps(entries) == [
        ("submit", None, "pending"),
        ("claim", "pending", "running"),
        ("retry", "running", "retrying"),
        ("promote", "retrying", "pending"),
        ("claim", "pending", "running"),
        ("succeed", "running", "completed"),
    ]
    assert entries[2].message == "OSError: away"


def test_unused_claims_are_one_history_entry() -> None:
    done = row(state=S.COMPLETED, version=9, attempt=1, started_at=1500, finished_at=1700, worker="w1")
    entries = timeline(done, [])
    assert steps(entries)[1] == ("release", "running", "pending")
    assert entries[1].message == "fetched and given back 3 times without being begun"
    once = timeline(row(version=3), [])
    assert once[1].message == "fetched and given back 1 time without being begun"


def test_a_job_put_aside_and_offered_again_is_promoted_after_it_was_fetched() -> None:
    entries = timeline(
        row(version=4, state=S.PENDING), [history_row_of(E.UPDATE, S.PENDING, S.PENDING, 2, 0, started_at=None)]
    )
    assert [str(entry.event) for entry in entries] == ["submit", "update", "release"]
    entries = timeline(
        row(version=5, state=S.PENDING), [history_row_of(E.UPDATE, S.PENDING, S.PENDING, 2, 0, started_at=None)]
    )
    assert [str(entry.event) for entry in entries] == ["submit", "update", "release", "promote"]


def test_a_job_changed_by_hand_before_it_ran_began_where_it_was_changed() -> None:
    cancelled = row(state=S.CANCELLED, version=2, finished_at=1020)
    entries = timeline(
        cancelled, [history_row_of(E.CANCEL, S.SCHEDULED, S.CANCELLED, 2, 0, started_at=None, detail="by ann")]
    )
    assert steps(entries) == [("submit", None, "scheduled"), ("cancel", "scheduled", "cancelled")]
    assert entries[1].message == "by ann"


def test_a_completed_job_that_was_run_again_keeps_its_first_success() -> None:
    revived = history_row_of(E.REVIVE, S.COMPLETED, S.PENDING, 4, 1, started_at=1100, finished_at=1200)
    done = row(state=S.COMPLETED, version=6, attempt=1, started_at=1500, finished_at=1700, worker="w2")
    entries = timeline(done, [revived])
    assert steps(entries) == [
        ("submit", None, "pending"),
        ("claim", "pending", "running"),
        ("succeed", "running", "completed"),
        ("revive", "completed", "pending"),
        ("claim", "pending", "running"),
        ("succeed", "running", "completed"),
    ]
    assert [entry.worker for entry in entries] == [None, "w1", "w1", "w1", "w2", "w2"]


def test_a_late_settle_is_listed_by_its_time_and_moves_nothing() -> None:
    expired = history_row_of(E.LEASE_EXPIRED, S.RUNNING, S.PENDING, 3, 1)
    late = history_row_of("lease_lost", S.RUNNING, S.RUNNING, 2, 2, detail="late succeed refused")
    running = row(state=S.RUNNING, version=4, attempt=2, started_at=1500, worker="w2")
    assert [str(entry.event) for entry in timeline(running, [expired, late])] == [
        "submit",
        "claim",
        "lease_expired",
        "lease_lost",
        "claim",
    ]


def test_a_late_settle_is_listed_after_all_earlier_entries() -> None:
    expired = history_row_of(E.LEASE_EXPIRED, S.RUNNING, S.PENDING, 3, 1)
    late = history_row_of("lease_lost", S.COMPLETED, S.COMPLETED, 2, 2, at=1800, detail="late succeed refused")
    done = row(state=S.COMPLETED, version=5, attempt=2, started_at=1500, finished_at=1700, worker="w2")
    entries = timeline(done, [expired, late])
    assert [entry.event for entry in entries] == ["submit", "claim", "lease_expired", "claim", "succeed", "lease_lost"]
    assert [entry.at for entry in entries] == sorted(entry.at for entry in entries)


def test_events_and_states_are_of_one_type_whatever_the_source() -> None:
    history_rows = [
        retried(3, 1),
        history_row_of("lease_lost", S.RETRYING, S.RETRYING, 2),
        history_row_of("step", S.RUNNING, S.RUNNING, 5),
    ]
    done = row(state=S.COMPLETED, version=6, attempt=2, started_at=1500, finished_at=1700, worker="w1")
    entries = timeline(
        done, [msgspec.convert(msgspec.to_builtins(history_row), HistoryRow) for history_row in history_rows]
    )
    assert {type(entry.event) for entry in entries} == {Trigger}
    assert {type(entry.to_state) for entry in entries} | {type(entry.from_state) for entry in entries[1:]} == {State}
    assert [entry.event.value for entry in entries if entry.event is E.LEASE_LOST] == ["lease_lost"]


def test_trimmed_runs_are_not_listed_as_unused_claims() -> None:
    entries = timeline(row(state=S.RETRYING, version=93, attempt=30), [retried(3, 1), retried(90, 29), retried(93, 30)])
    assert "release" not in [entry.event for entry in entries]
    assert [entry.version for entry in entries if entry.event == "retry"] == [3, 90, 93]


@pytest.mark.parametrize("delayed", [False, True])
@pytest.mark.parametrize("failures", [0, 1, 2, 3])
def test_every_version_is_listed_once_and_each_step_begins_where_the_last_one_ended(
    delayed: bool, failures: int
) -> None:
    first = 2 if delayed else 1
    history_rows = [retried(first + 2 + 3 * n, n + 1) for n in range(failures)]
    version = first + 3 * failures + 2
    done = row(state=S.COMPLETED, version=version, attempt=failures + 1, started_at=8000, finished_at=9000, worker="w1")
    entries = timeline(done, history_rows)
    assert [entry.version for entry in entries] == list(range(1, version + 1))
    assert all(one.to_state == two.from_state for one, two in itertools.pairwise(entries))


def test_errors_are_those_of_the_attempts_that_had_one_oldest_first() -> None:
    cancel = history_row_of(E.CANCEL, S.PENDING, S.CANCELLED, 9, 2)
    found = errors_of(
        [retried(3, 1), history_row_of(E.RETRY, S.RUNNING, S.RETRYING, 6, 2, error_type="KeyError"), cancel]
    )
    assert [(error.attempt, error.type, error.message) for error in found] == [
        (1, "OSError", "away"),
        (2, "KeyError", ""),
    ]


def test_what_a_run_remembered_stands_behind_its_claim_and_moves_nothing() -> None:
    history_rows = [
        history_row_of("event", S.PENDING, S.PENDING, 1, 0, started_at=None, worker=None, detail="early"),
        history_row_of("step", S.RUNNING, S.RUNNING, 2, detail="charge"),
        history_row_of("sleep", S.RUNNING, S.RUNNING, 2, detail="sleep"),
        history_row_of(E.SNOOZE, S.RUNNING, S.SCHEDULED, 3, detail="sleeps"),
        history_row_of("lease_lost", S.SCHEDULED, S.SCHEDULED, 2),
        history_row_of("event", S.SCHEDULED, S.SCHEDULED, 3, 0, detail="paid"),
        history_row_of("step", S.RUNNING, S.RUNNING, 5, detail="mail"),
    ]
    done = row(state=S.COMPLETED, version=6, attempt=1, started_at=1500, finished_at=1700, worker="w1")
    entries = timeline(done, history_rows)
    assert [str(entry.event) for entry in entries] == [
        "submit", "event", "claim", "step", "sleep", "snooze", "lease_lost", "event", "promote", "claim", "step",
        "succeed",
    ]  # fmt: skip
    moves = [entry for entry in entries if entry.event not in ("event", "step", "sleep", "lease_lost")]
    assert [entry.version for entry in moves] == [1, 2, 3, 4, 5, 6]
    assert entries[0].to_state == "pending"


def test_a_job_that_runs_has_its_claim_before_its_steps() -> None:
    running = row(state=S.RUNNING, version=2, attempt=1, started_at=1500, worker="w1", lease_until=9000)
    entries = timeline(running, [history_row_of("step", S.RUNNING, S.RUNNING, 2, detail="charge")])
    assert [(str(entry.event), entry.message) for entry in entries[1:]] == [("claim", None), ("step", "charge")]
