"""Sentry gets one issue for each job that failed for good, with its stack, its job and what it logged before."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.transport import Transport

from headrace import Headrace, JobFailed, Retry, Snooze, current_job
from headrace.contrib.sentry import FailureHandler, instrument
from headrace.testing import VirtualClock, drain
from tests.support.waiting import PATIENCE, eventually

RETRY = Retry(limit=1, backoff="fixed", base=0)


class Kept(Transport):
    """Keeps what would be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[dict[str, Any]] = []

    def capture_envelope(self, envelope: Any) -> None:
        self.events += [item.payload.json for item in envelope.items if item.payload.json is not None]


@pytest.fixture
def sent() -> Iterator[list[dict[str, Any]]]:
    transport = Kept()
    sentry_sdk.init(dsn="https://key@example.com/1", transport=transport, auto_enabling_integrations=False)
    yield transport.events
    sentry_sdk.init()
    logger = logging.getLogger("headrace.worker")
    for handler in [handler for handler in logger.handlers if isinstance(handler, FailureHandler)]:
        logger.removeHandler(handler)


@pytest.fixture
def app() -> Iterator[Headrace]:
    app = Headrace("memory://")
    yield app
    app.close()


def failing(app: Headrace, *, is_async: bool = False, **options: Any) -> Any:
    def boom() -> None:
        logging.getLogger("shop").warning("about to fail")
        raise OSError("no route")

    async def aboom() -> None:
        boom()

    return app.task(name="boom", retry=RETRY, **options)(aboom if is_async else boom)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_job_that_failed_for_good_is_one_issue_with_its_stack(
    app: Headrace, sent: list[dict[str, Any]], is_async: bool
) -> None:
    instrument(app)
    task = failing(app, is_async=is_async, queue="mail")
    with app.worker(), pytest.raises(JobFailed):
        task.enqueue().result(PATIENCE)
    eventually(lambda: len(sent) == 1, "the issue")
    [event] = sent
    assert (event["transaction"], event["tags"]["headrace.queue"], event["tags"]["headrace.attempt"]) == (
        "boom",
        "mail",
        2,
    )
    [error] = event["exception"]["values"]
    assert (error["type"], error["value"]) == ("OSError", "no route")
    assert error["mechanism"] == {"type": "headrace", "handled": False}
    assert [frame["function"] for frame in error["stacktrace"]["frames"]] == ["aboom", "boom"][not is_async :]
    assert "about to fail" in [crumb["message"] for crumb in event["breadcrumbs"]["values"]]
    assert event["contexts"]["job"]["task"] == "boom"


def test_retried_attempts_are_reported_if_asked_for(app: Headrace, sent: list[dict[str, Any]]) -> None:
    instrument(app)
    instrument(app, attempts=True, monitors=False)  # a second call replaces the first
    with app.worker(), pytest.raises(JobFailed):
        failing(app).enqueue().result(PATIENCE)
    eventually(lambda: len(sent) == 2, "both attempts")
    assert sorted(event["tags"]["headrace.attempt"] for event in sent) == [1, 2]


def test_a_job_of_a_schedule_checks_in_under_its_name(sent: list[dict[str, Any]]) -> None:
    clock = VirtualClock()
    app = Headrace("memory://", clock=clock)
    instrument(app)

    @app.every(minutes=5, name="nightly")
    @app.task(retry=0)
    def nightly() -> None:
        if len(sent) > 2:
            raise OSError("no route")

    app.schedules.sync()
    for _ in range(2):
        clock.advance(301)
        drain(app)
    told = [(event["monitor_slug"], event["status"]) for event in sent if "monitor_slug" in event]
    assert told == [("nightly", "in_progress"), ("nightly", "ok"), ("nightly", "in_progress"), ("nightly", "error")]
    app.close()


def test_a_snoozed_job_and_a_job_without_errors_are_no_issues(app: Headrace, sent: list[dict[str, Any]]) -> None:
    instrument(app)
    ran: list[int] = []

    @app.task
    def work() -> None:
        ran.append(1)
        if len(ran) == 1:
            raise Snooze(0)

    with app.worker():
        work.enqueue().result(PATIENCE)
    assert (len(ran), sent) == (2, [])


def test_failures_without_a_stack_are_grouped_by_their_kind(app: Headrace, sent: list[dict[str, Any]]) -> None:
    instrument(app)

    @app.task(retry=0)
    def charge(token: str, number: int) -> None:
        raise ValueError(f"{token} is no token of order {number}")

    with app.worker():
        for number in (1, 2):
            with pytest.raises(JobFailed):
                charge.enqueue("sesame-opens", number).result(PATIENCE)
    eventually(lambda: len(sent) == 2, "both failures")
    [error] = sent[0]["exception"]["values"]
    assert (error["type"], error["value"]) == ("ValueError", "*** is no token of order 1")
    assert (sent[0]["transaction"], sent[0]["contexts"]["job"]["task"]) == ("charge", "charge")
    assert sent[0]["fingerprint"] == sent[1]["fingerprint"]


def test_local_variables_named_like_hidden_arguments_are_masked(app: Headrace, sent: list[dict[str, Any]]) -> None:
    instrument(app)

    @app.task(retry=0, redact=("card",))
    def charge(card: str, order: int) -> None:
        raise OSError("no route")

    with app.worker(), pytest.raises(JobFailed):
        charge.enqueue("4000-1234", 7).result(PATIENCE)
    eventually(lambda: len(sent) == 1, "the failure")
    [frame] = sent[0]["exception"]["values"][0]["stacktrace"]["frames"]
    assert frame["vars"] == {"card": "***", "order": "7"}


def test_an_error_that_the_task_reports_itself_has_the_tags_of_the_job(
    app: Headrace, sent: list[dict[str, Any]]
) -> None:
    instrument(app)

    @app.task(queue="mail")
    def work() -> None:
        sentry_sdk.capture_message("look here")

    with app.worker():
        job = work.enqueue()
        job.result(PATIENCE)
    [event] = sent
    assert (event["tags"]["headrace.job"], event["tags"]["headrace.queue"]) == (job.id, "mail")


def test_a_tracker_that_raises_does_not_disturb_the_worker(
    app: Headrace, sent: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    instrument(app)
    monkeypatch.setattr(logging, "raiseExceptions", False)
    monkeypatch.setattr(sentry_sdk, "new_scope", lambda: 1 / 0)
    with app.worker():
        with pytest.raises(JobFailed):
            failing(app).enqueue().result(PATIENCE)
        assert app.task(name="work")(lambda: 7).enqueue().result(PATIENCE) == 7


def test_a_sleep_of_a_scheduled_job_is_no_error_of_its_monitor(sent: list[dict[str, Any]]) -> None:
    clock = VirtualClock()
    app = Headrace("memory://", clock=clock)
    instrument(app)

    @app.every(minutes=5, name="nightly", limit=1)
    @app.task
    def nightly() -> None:
        current_job().sleep(3600)

    app.schedules.sync()
    clock.advance(301)
    drain(app)
    assert [event["status"] for event in sent if "monitor_slug" in event] == ["in_progress", "ok"]
    app.close()


def test_a_failed_delivery_of_a_webhook_keeps_its_own_error(app: Headrace, sent: list[dict[str, Any]]) -> None:
    instrument(app)
    job = app.webhooks.task().enqueue("no such webhook", "message", "{}")
    drain(app)
    assert job.refresh().errors[0].type == "PermanentError"
