"""why() names the one thing that keeps a job from running, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
import pytest

from headrace.app.services.why import explain
from headrace.core.jobs.count import JobCount
from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.queue_rules import LimitState, QueueRow, Rate, RateOwner, StoreRules
from headrace.core.jobs.records import Filter, JobRow, WorkerRow
from headrace.core.jobs.states import State
from headrace.core.jobs.steps import NO_DEADLINE
from headrace.core.queues.limits import Limit, lane_of
from headrace.engines.protocol.maintenance import StoreView
from tests.unit.events.test_history import row

NOW = 1_000_000
SILENT_AFTER = 30_000


def worker(**given: Any) -> WorkerRow:
    values: dict[str, Any] = {
        "id": "w1", "host": "here", "pid": 1, "started_at": 0, "seen_at": NOW - 1000, "state": "running",
        "command": "run", "queues": "{}", "concurrency": 4, "running": 0, "completed": 0, "failed": 0,
        "tasks": '["add"]', "heartbeat": 10_000,
    }  # fmt: skip
    return WorkerRow(**{**values, **given})


class Counter:
    """Queries that return what the test sets."""

    def __init__(self, workers: list[WorkerRow], paused: tuple[str, ...], pending: int) -> None:
        self._workers = workers
        self._paused = paused
        self._pending = pending
        self.queries = self.flow_store = self.rule_store = self

    def workers(self) -> list[WorkerRow]:
        return self._workers

    def rules(self) -> StoreRules:
        return StoreRules([QueueRow(name, name in self._paused, 0) for name in ("default", "other")], [])

    def limit_state(self, rates: Mapping[RateOwner, Rate] | None = None, now: int | None = None) -> LimitState:
        return LimitState([], {})

    def edges(self, ids: Sequence[str]) -> list[Dependency]:
        return []

    def count(self, which: Filter) -> JobCount:
        assert which == Filter(states=(State.PENDING,), queue="default")
        return JobCount(self._pending, True)


def why(job: JobRow, *workers: WorkerRow, paused: tuple[str, ...] = (), pending: int = 3) -> str:
    return explain(job, cast(StoreView, Counter(list(workers), paused, pending)), NOW).sentence


@pytest.mark.parametrize("state", [State.COMPLETED, State.FAILED, State.CANCELLED])
def test_a_finished_job_is_over_and_since_when(state: State) -> None:
    assert why(row(state=state, finished_at=0)) == f"It is over: {state} at 1970-01-01 00:00:00 UTC."


def test_a_failed_job_says_for_what_reason() -> None:
    assert "failed (attempts_used_up)" in why(row(state=State.FAILED, finished_at=0, reason="attempts_used_up"))


def test_a_running_job_says_where_and_how_long() -> None:
    sentence = why(row(state=State.RUNNING, attempt=2, worker="w1", started_at=NOW - 65_000, lease_until=NOW + 1))
    assert sentence == "It is running: attempt 2 of 4 on worker w1 for 1 min 5 s."


def test_a_running_job_whose_worker_fell_silent_says_so() -> None:
    sentence = why(row(state=State.RUNNING, attempt=1, worker="w1", started_at=0, lease_until=NOW - 1))
    assert sentence.startswith("Worker w1 did not renew its lease")


def test_a_job_that_waits_for_others_says_so() -> None:
    assert "all its parents have finished" in why(row(state=State.WAITING))


def test_a_scheduled_job_says_when_it_is_due() -> None:
    assert why(row(state=State.SCHEDULED, run_at=NOW + 90_000)) == "It is scheduled to run in 1 min 30 s."
    snoozed = why(row(state=State.SCHEDULED, run_at=NOW + 1500, reason="snoozed"))
    assert snoozed == "It is scheduled to run in 1.5 s (snoozed)."


def test_a_job_to_be_retried_says_when_and_after_what() -> None:
    sentence = why(row(state=State.RETRYING, run_at=NOW + 4000, reason="attempt 1 of 4 failed"))
    assert sentence == "It will be retried in 4.0 s: attempt 1 of 4 failed."


def test_a_paused_queue_comes_before_every_other_reason() -> None:
    assert why(row(), paused=("default",)).startswith("Queue 'default' is paused")
    assert "paused" not in why(row(), paused=("other",))


def test_without_a_worker_it_says_to_start_one() -> None:
    assert why(row()) == "No worker is alive; start one with `headrace worker`."


def test_a_worker_that_has_been_silent_for_long_is_none() -> None:
    assert "No worker is alive" in why(row(), worker(seen_at=NOW - SILENT_AFTER - 1))
    assert "No worker is alive" not in why(row(), worker(seen_at=NOW - SILENT_AFTER))


def test_workers_of_other_queues_do_not_help() -> None:
    assert "No live worker serves queue 'default'" in why(row(), worker(queues='{"other":1}'))


def test_why_names_the_queue_and_the_needs_at_once_whatever_is_missing_first() -> None:
    picky = row(lane=lane_of([Limit("needs", "gpu")]))
    assert "`headrace worker --needs gpu`" in why(picky)
    command = "`headrace worker -q default --needs gpu`"
    assert command in why(picky, worker(queues='{"other":1}'))
    assert command in why(picky, worker())


def test_workers_that_do_not_know_the_task_do_not_help() -> None:
    sentence = why(row(), worker(tasks='["sub"]'), worker(id="w2", queues='{"other":1}'))
    assert sentence.startswith("No live worker of queue 'default' knows task 'add'")


@pytest.mark.parametrize("state", ["paused", "stopping", "starting"])
def test_workers_that_are_paused_or_stopping_do_not_help(state: str) -> None:
    advice = "; resume one with `headrace workers resume w1`" if state == "paused" else ""
    assert why(row(), worker(state=state)) == f"Every worker of queue 'default' is paused or stopping{advice}."


def test_the_remedy_names_a_verb_a_target_and_a_command() -> None:
    def remedy(job: JobRow, *workers: WorkerRow, paused: tuple[str, ...] = ()) -> tuple[str, str, str] | None:
        found = explain(job, cast(StoreView, Counter(list(workers), paused, 0)), NOW).remedy
        return None if found is None else (found.verb, found.target, found.command)

    assert remedy(row(), paused=("default",)) == ("resume_queue", "default", "headrace queues resume default")
    assert remedy(row()) == ("start_worker", "default", "headrace worker")
    other = worker(queues='{"other":1}')
    assert remedy(row(), other) == ("start_worker", "default", "headrace worker -q default")
    assert remedy(row(), worker(state="paused")) == ("resume_worker", "w1", "headrace workers resume w1")
    assert remedy(row(), worker()) is None
    assert remedy(row(state=State.WAITING)) == ("promote_job", "job", "headrace jobs promote job")
    suspended = row(state=State.SCHEDULED, run_at=NOW + 60_000, reason="waits for event 'paid'")
    assert remedy(suspended) == ("send_signal", "job", "headrace signal job 'paid'")


def test_the_text_for_a_page_with_a_button_has_no_command() -> None:
    found = explain(row(), cast(StoreView, Counter([], ("default",), 0)), NOW).plus(" It is old.")
    assert found.text == "Queue 'default' is paused. It is old."
    assert found.sentence == "Queue 'default' is paused; resume it with `headrace queues resume default`. It is old."


def test_busy_workers_are_counted_by_their_slots() -> None:
    sentence = why(row(), worker(running=4), worker(id="w2", concurrency=2, running=2), pending=9)
    assert sentence == "All 6 slots of queue 'default' are busy; 9 jobs are pending there."


def test_otherwise_it_is_next() -> None:
    sentence = why(row(), worker(running=1))
    assert sentence == "It is next in line: 3 jobs are pending in queue 'default', 3 slots are free."


@pytest.mark.parametrize(("attempt", "sentence"), [(0, ""), (1, "It was tried before, so untried jobs go first")])
def test_why_says_that_untried_jobs_go_before_a_tried_one(
    monkeypatch: pytest.MonkeyPatch, attempt: int, sentence: str
) -> None:
    fresh_first = [QueueRow("default", False, 0, '{"strategy":"fresh_first"}')]
    monkeypatch.setattr(Counter, "rules", lambda self: StoreRules(fresh_first, []))
    for running in (0, 4):
        expected = why(row(attempt=attempt), worker(running=running))
        assert sentence in expected
        assert ("fresh_first" in expected) == bool(attempt)


def test_a_scheduled_job_whose_time_has_come_is_explained_like_a_pending_one() -> None:
    assert "No worker is alive" in why(row(state=State.SCHEDULED, run_at=NOW))


@pytest.mark.parametrize(
    ("ms", "expected"),
    [(0, "0.0 s"), (59_900, "59.9 s"), (60_000, "1 min 0 s"), (7_260_000, "2 h 1 min"), (200_000_000, "2 days 7 h")],
)
def test_durations_are_shown_in_their_two_largest_units(ms: int, expected: str) -> None:
    due = row(state=State.SCHEDULED, run_at=NOW + max(ms, 1))
    assert why(due) == f"It is scheduled to run in {expected}."


def test_the_sentence_survives_any_reason() -> None:
    for reason in ("", "unknown_task", "a: b: c", "{}"):
        sentence = why(msgspec.structs.replace(row(state=State.SCHEDULED, run_at=NOW + 1000), reason=reason))
        assert sentence.endswith(".")


@pytest.mark.parametrize(
    ("reason", "wait", "expected"),
    [
        ("sleeps", 90_000, "It sleeps until 1970-01-01 00:18:10 UTC, for another 1 min 30 s."),
        ("sleeps: cool down", 1000, "It sleeps (cool down) until 1970-01-01 00:16:41 UTC, for another 1.0 s."),
        (
            "waits for event 'paid'",
            60_000,
            "It waits for event 'paid', for at most another 1 min 0 s; send it with `headrace signal job 'paid'`.",
        ),
        (
            "waits for event 'paid'",
            NO_DEADLINE,
            "It waits for event 'paid'; send it with `headrace signal job 'paid'`.",
        ),
    ],
)
def test_a_suspended_job_names_the_time_or_the_event(reason: str, wait: int, expected: str) -> None:
    assert why(row(state=State.SCHEDULED, run_at=NOW + wait, reason=reason)) == expected
