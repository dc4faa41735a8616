"""The events of a recorded transition: every trigger of the table has some, or none on purpose."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.events.event import TYPES
from headrace.core.events.from_history import events_from, run_of
from headrace.core.jobs.states import TRANSITIONS, Trigger

# Other code emits these events, with more than the history has.
WITHOUT_EVENTS = {Trigger.SUBMIT, Trigger.PROMOTE, Trigger.CLAIM, Trigger.SUCCEED, Trigger.DELETE}


def _entry(event: str, source: str = "running", target: str = "pending", **more: Any) -> dict[str, Any]:
    return {"event": event, "source": source, "target": target, **more}


@pytest.mark.parametrize("event", sorted(set(TRANSITIONS) - WITHOUT_EVENTS))
def test_every_transition_has_events(event: Trigger) -> None:
    row = TRANSITIONS[event]
    for source in row.sources:
        for target in row.targets:
            kinds = [kind for kind, _ in events_from(_entry(event, source, target))]
            assert kinds
            assert set(kinds) <= set(TYPES)


@pytest.mark.parametrize("event", ["step", "sleep", "event", "succeed", "anything"])
def test_steps_of_the_job_alone_have_no_event(event: str) -> None:
    assert events_from(_entry(event)) == []


def test_a_failure_of_an_attempt_is_distinguished_from_that_of_the_job() -> None:
    error = {"error_type": "OSError", "error_message": "x" * 900, "detail": "attempts used up"}
    assert [kind for kind, _ in events_from(_entry("retry", **error))] == ["job.attempt_failed", "job.retry_scheduled"]
    attempt, final = events_from(_entry("fail", target="failed", **error))
    assert (attempt[0], final[0]) == ("job.attempt_failed", "job.failed")
    assert len(attempt[1]["message"]) == 500
    assert final[1]["reason"] == "attempts used up"
    assert [kind for kind, _ in events_from(_entry("fail", "waiting", "failed"))] == ["job.failed"]


def test_a_stall_that_was_the_last_is_a_failure_too() -> None:
    assert [kind for kind, _ in events_from(_entry("lease_expired"))] == ["job.stalled"]
    assert [kind for kind, _ in events_from(_entry("lease_expired", target="failed"))] == ["job.stalled", "job.failed"]


def test_a_job_that_only_waited_for_others_is_completed_with_the_last_of_them() -> None:
    kinds = events_from(_entry("unblock", "waiting", "completed"))
    assert [kind for kind, _ in kinds] == ["job.dependencies_met", "job.completed"]


def test_a_run_lasts_from_its_start_to_its_end() -> None:
    assert run_of({"started_at": 10}, 25) == 15
    assert run_of({"started_at": 10, "finished_at": 12}, 25) == 2
    assert run_of({"started_at": 30}, 25) == 0
    assert run_of({}, 25) is None
