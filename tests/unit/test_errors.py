"""Errors that a program can read: what they are about, and that they survive copy and pickle."""

from __future__ import annotations

import copy
import inspect
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

import headrace
from headrace import (
    ConfigError,
    Headrace,
    HeadraceError,
    InvalidAlert,
    InvalidJob,
    InvalidSchedule,
    NotFound,
    PayloadTooLarge,
    QueueFull,
    Retry,
    Snooze,
    Unique,
    current_job,
)
from headrace.testing import drain
from tests.support.cases import check_each

PAST, LATER, NAIVE = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC), datetime(2020, 1, 1)


@pytest.fixture
def app() -> Any:
    with Headrace("memory://") as app:
        app.task(name="add")(_add)
        yield app


def _add(a: int, b: int = 0) -> int:
    return a + b


def test_an_error_names_the_field_and_the_value(app: Headrace) -> None:
    add = app.tasks["add"]
    naive = object()

    def check(case: tuple[Any, type[HeadraceError], str, Any]) -> None:
        act, kind, field, value = case
        with pytest.raises(kind) as raised:
            act()
        error: Any = raised.value
        assert (error.field, error.value) == (field, value)

    check_each(
        [
            (lambda: add.using(priority=999), InvalidJob, "priority", 999),
            (lambda: add.using(job_id="\n"), InvalidJob, "job_id", "\n"),
            (lambda: add.using(retry="many"), InvalidJob, "retry", "many"),  # type: ignore[arg-type]
            (lambda: add.using(tags=naive), InvalidJob, "tags", naive),  # type: ignore[arg-type]
            (lambda: add.using(priorty=1), InvalidJob, "priorty", None),  # type: ignore[call-arg]
            (lambda: add.enqueue("x"), InvalidJob, "a", "x"),
            (add.enqueue, InvalidJob, "a", None),
            (lambda: add.enqueue(1, c=2), InvalidJob, "c", None),
            (lambda: app.enqueue("no blanks"), InvalidJob, "task", "no blanks"),
            (lambda: app.queue("q").configure(max_length=0), InvalidJob, "max_length", 0),
            (lambda: app.lifecycle.configure(task="add", max_pending="x"), InvalidJob, "max_pending", "x"),
            (lambda: app.jobs.find(limit=0), InvalidJob, "limit", 0),
            (lambda: app.task(priority=999), ConfigError, "priority", 999),
            (lambda: Headrace("memory://", lease=0), ConfigError, "lease", 0.0),
            (lambda: Headrace("memory://", lease="x"), ConfigError, "lease", "x"),  # type: ignore[arg-type]
            (lambda: Headrace("memory://", lese=1), ConfigError, "lese", None),  # type: ignore[call-arg]
            (lambda: Headrace("nope://u:pw@h/x"), ConfigError, "url", "nope://u:***@h/x"),
            (lambda: app.schedules.create("s", "add", cron="x"), InvalidSchedule, "cron", "x"),
            (lambda: app.schedules.create("s", "add", every="x"), InvalidSchedule, "every", "x"),
            (lambda: app.alerts.rules.create("r", when="depth >"), InvalidAlert, "when", "depth >"),
            (lambda: app.alerts.rules.create("r", when="depth > 1", severity=1), InvalidAlert, "severity", 1),
            (lambda: app.alerts.rules.create("a b", when="depth > 1"), InvalidAlert, "name", "a b"),
            (lambda: app.alerts.channels.create("a b", kind="log"), InvalidAlert, "channel", "a b"),
            (lambda: app.schedules.create("s", "add", cron="* * * * *", tz="X/Y"), InvalidSchedule, "tz", "X/Y"),
            (lambda: app.schedules.create("s", "add", at=PAST), InvalidSchedule, "at", PAST),
            (lambda: app.schedules.create("s", "add", every=5, start=LATER, end=PAST), InvalidSchedule, "end", PAST),
            (lambda: app.schedules.create("s", "add", every=5, jitter=50), InvalidSchedule, "jitter", 50),
            (lambda: app.schedules.create("s", "add", every=5, immediate=2), InvalidSchedule, "immediate", 2),  # type: ignore[arg-type]
            (lambda: app.enqueue(5), InvalidJob, "task", 5),  # type: ignore[arg-type]
            (lambda: app.enqueue("headrace.x"), InvalidJob, "task", "headrace.x"),
            (lambda: app.events(since=NAIVE, follow=False), InvalidJob, "since", NAIVE),
            (lambda: app.events(types="nope", follow=False), InvalidJob, "types", "nope"),
            (lambda: app.metrics.value("nope"), InvalidJob, "metric", "nope"),
            (lambda: app.metrics.series("depth", step=3), InvalidJob, "step", 3),
            (lambda: app.metrics.days(count=100_000), InvalidJob, "count", 100_000),
            (lambda: app.breaker("b", failures=0, open_for=30), InvalidJob, "failures", 0),
            (lambda: app.breaker("b", failures=1, open_for=30, on=5), InvalidJob, "on", 5),  # type: ignore[arg-type]
            (lambda: app.lifecycle.export("x.zip"), InvalidJob, "path", "x.zip"),
            (lambda: app.jobs.delete(finished_before=PAST, limit=0), InvalidJob, "limit", 0),
            (lambda: app.jobs.find(cursor="x"), InvalidJob, "cursor", "x"),
            (lambda: app.jobs.find(archived=True, cursor="x"), InvalidJob, "cursor", "x"),
            (lambda: app.jobs.find(colour=1), InvalidJob, "colour", None),
            (lambda: app.dead.list(colour=1), InvalidJob, "colour", None),
            (lambda: Retry(limit=-1), ConfigError, "limit", -1),
            (lambda: Retry(base=-1), ConfigError, "base", -1),
            (lambda: Retry(jitter=2), ConfigError, "jitter", 2),
            (lambda: Retry(backoff="often"), ConfigError, "backoff", "often"),  # type: ignore[arg-type]
            (lambda: Retry(on=OSError), ConfigError, "on", OSError),  # type: ignore[arg-type]
            (lambda: Unique(states=("x",)), ConfigError, "states", ("x",)),
            (lambda: add.using(unique=Unique(by=("c",))).enqueue(1), InvalidJob, "by", "c"),
        ],
        check,
    )


def test_an_error_inside_of_a_job_names_the_field_and_the_value(app: Headrace) -> None:
    found = []

    @app.task(name="wrong")
    def wrong() -> None:
        job = current_job()
        for act in (
            lambda: job.progress(50),
            lambda: job.progress("half"),  # type: ignore[arg-type]
            lambda: job.log("x", level="warn"),
            lambda: job.wait_first("paid"),
        ):
            with pytest.raises(InvalidJob) as raised:
                act()
            found.append((raised.value.field, raised.value.value))

    wrong.enqueue()
    drain(app)
    assert found == [("progress", 50), ("progress", "half"), ("level", "warn"), ("wait_first", ("paid",))]


def test_a_secret_is_never_the_value_of_an_error() -> None:
    with pytest.raises(ConfigError) as raised:
        Headrace("memory://", encryption_keys=["too short"])
    assert raised.value.field == "encryption_keys"
    assert raised.value.value is None


def test_a_full_queue_shows_its_name_and_its_limit(app: Headrace) -> None:
    app.queue("small").configure(max_length=1)
    add = app.tasks["add"].using(queue="small")
    add.enqueue(1)
    with pytest.raises(QueueFull) as raised:
        add.enqueue(2)
    assert (raised.value.queue, raised.value.limit, raised.value.waiting) == ("small", 1, 1)


def test_a_payload_that_is_too_large_shows_its_size_and_the_limit() -> None:
    with Headrace("memory://", max_payload=1024) as app:
        task = app.task(name="t")(lambda text: None)
        with pytest.raises(PayloadTooLarge) as raised:
            task.enqueue("\n" * 1000)
        assert raised.value.limit == 1024
        assert raised.value.size is not None
        assert raised.value.size > 2000
        with pytest.raises(PayloadTooLarge) as raised:
            task.enqueue("x" * 10_000)
        assert (raised.value.size, raised.value.limit) == (None, 1024)


def test_a_missing_object_raises_one_kind_of_error(app: Headrace) -> None:
    def check(act: Any) -> None:
        with pytest.raises(NotFound) as raised:
            act("nothing")
        assert raised.value.id == "nothing"
        assert "'nothing'" in str(raised.value)
        assert isinstance(raised.value, KeyError)

    check_each(
        [
            app.jobs.get,
            app.flows.get,
            app.dead.get,
            app.schedules.get,
            app.webhooks.get,
            app.alerts.get,
            app.alerts.rules.get,
            app.alerts.channels.get,
        ],
        check,
    )


def test_every_kind_of_thing_has_an_error_of_its_own() -> None:
    kinds = ["Job", "Flow", "DeadLetter", "Queue", "Worker", "Schedule", "Webhook"]
    kinds += ["Alert", "AlertRule", "AlertChannel", "AlertSilence"]
    assert [kind for kind in kinds if not issubclass(getattr(headrace, f"{kind}NotFound"), NotFound)] == []


_ARGUMENTS: dict[str, Any] = {
    "JobFailed": ("id", "exception", "ValueError", "no", "Traceback"),
    "DeadLetterClosed": ("id", "requeued"),
    "QueueNotEmpty": ("mail", 2),
    "Snooze": (5.0, "later"),
    "AppClosed": (),
}


def test_every_error_can_be_copied_and_pickled() -> None:
    errors = [kind for kind in vars(headrace).values() if inspect.isclass(kind) and issubclass(kind, BaseException)]
    assert Snooze in errors

    def check(kind: type[BaseException]) -> None:
        error = kind(*_ARGUMENTS.get(kind.__name__, ("what happened",)))
        for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
            assert type(again) is kind
            assert str(again) == str(error)
            assert vars(again) == vars(error)

    check_each(errors, check)


def test_an_error_about_something_that_can_not_be_pickled_can() -> None:
    error = InvalidJob("connection: expected a connection", value=lambda: None)
    assert "lambda" in pickle.loads(pickle.dumps(error)).value
