"""`headrace signal` sends an event to a job; `jobs show` and `history` show its steps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import Headrace, Job, current_job
from headrace.testing import drain
from tests.support.command_line import Shell


@pytest.fixture
def app(shell: Shell) -> Iterator[Headrace]:
    with shell.app() as app:
        yield app


@pytest.fixture
def job(app: Headrace) -> Job[object]:
    @app.task
    def order() -> object:
        current_job().step("charge", lambda: "card 4711")
        return [current_job().wait_event("approved"), current_job().wait_event("approved")]

    job = order.using(job_id="order-7").enqueue()
    drain(app)
    return job


def test_an_event_is_sent_with_its_data(shell: Shell, app: Headrace, job: Job[object]) -> None:
    ran = shell("signal", job.id, "approved", "--data", '{"by": "ann"}')
    assert (ran.code, ran.out) == (0, "event 'approved' sent to job order-7, which is pending\n")
    drain(app)
    ran = shell("signal", job.id, "approved", "--json")
    assert ran.json == {"id": "order-7", "event": "approved", "state": "pending"}
    drain(app)
    assert job.result(0) == [{"by": "ann"}, None]


def test_an_event_that_cannot_be_sent_is_an_error(shell: Shell, app: Headrace, job: Job[object]) -> None:
    assert "not valid JSON" in shell("signal", job.id, "approved", "--data", "{ann").err
    assert "no job has the id" in shell("signal", "order-8", "approved").err
    job.cancel()
    ran = shell("signal", job.id, "approved")
    assert (ran.code, ran.err) == (1, "error: job order-7 is cancelled; it receives no more events\n")


def test_a_job_is_shown_with_its_steps_and_not_what_they_returned(
    shell: Shell, app: Headrace, job: Job[object]
) -> None:
    app.signal(job, "approved")
    app.signal(job, "approved")
    shown = shell("jobs", "show", job.id).out
    assert "step      charge, " in shown
    assert "event     approved (2), " in shown
    assert "4711" not in shown
    record = shell("jobs", "show", job.id, "--json").json
    steps = [(step["kind"], step["name"], step["number"]) for step in record["steps"]]
    assert steps == [("step", "charge", 1), ("event", "approved", 1), ("event", "approved", 2)]
    assert "4711" not in str(record)
    history = [entry["event"] for entry in shell("jobs", "history", job.id, "--json").json]
    assert history == ["submit", "claim", "step", "snooze", "event", "promote_now", "event"]


def test_why_names_the_event(shell: Shell, job: Job[object]) -> None:
    assert shell("why", job.id).out.startswith("It waits for event 'approved'; send it with `headrace signal")
