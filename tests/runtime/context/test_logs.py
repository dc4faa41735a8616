"""Every log line names its job and its correlation id, and shows no secret."""

from __future__ import annotations

import asyncio
import json
import logging
import logging.config
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import pytest

from headrace import ConfigError, Headrace, PermanentError, Worker, configure_logs, current_job
from headrace.runtime.context.logs import JsonFormatter
from tests.support.gates import SOON
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.engines("sqlite")
log = logging.getLogger("shop")


@pytest.fixture
def stream() -> Iterator[StringIO]:
    """Where logging goes, in place of pytest's own; everything is as before afterwards."""
    root = logging.getLogger()
    trees = [logging.getLogger(name) for name in ("headrace", "headrace.worker", "headrace.store")]
    before, own = (root.handlers[:], root.level), [tree.level for tree in trees]
    yield StringIO()
    root.handlers[:], level = before
    root.setLevel(level)
    for tree, its in zip(trees, own, strict=True):
        tree.setLevel(its)


def lines(stream: StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def line(stream: StringIO, message: str) -> dict[str, Any]:
    return next(line for line in lines(stream) if message in line["message"])


def test_lines_of_any_logger_name_the_job_that_runs_there(
    app: Headrace, worker: Worker, task: Callable[..., Any], stream: StringIO
) -> None:
    configure_logs("json", stream=stream)

    @task(queue="mail", retry=SOON)
    def speak() -> None:
        log.info("attempt %d", current_job().attempt, extra={"n": 1, "api_key": "sesame"})
        if current_job().attempt == 1:
            raise OSError("again")

    with app.correlation("request-1"):
        log.info("before")
        job = speak.enqueue()
    job.wait(PATIENCE)
    log.info("later")
    found = {"job": job.id, "task": "speak", "queue": "mail", "worker": worker.id, "correlation_id": "request-1"}
    for attempt in (1, 2):
        entry = line(stream, f"attempt {attempt}")
        assert {**found, "attempt": attempt, "n": 1, "api_key": "***", "logger": "shop"}.items() <= entry.items()
    assert {**found, "attempt": 1}.items() <= line(stream, "OSError: again").items()  # the worker's own
    assert line(stream, "before")["correlation_id"] == "request-1"
    assert line(stream, "later").keys() == {"time", "level", "logger", "message"}


def test_threads_that_a_coroutine_starts_log_its_job_too(app: Headrace, worker: Worker, stream: StringIO) -> None:
    configure_logs("json", stream=stream)

    @app.task
    async def ask() -> None:
        await asyncio.to_thread(log.info, "asked")

    job = ask.enqueue()
    job.wait(PATIENCE)
    assert line(stream, "asked")["job"] == job.id


def test_an_error_that_quotes_a_secret_is_stored_and_logged_without_it(
    app: Headrace, worker: Worker, task: Callable[..., Any], stream: StringIO
) -> None:
    configure_logs("human", stream=stream)

    @task(redact=("pin",))
    def login(user: str, pin: str, options: dict[str, str]) -> None:
        raise PermanentError(f"{user} can't enter with {pin} and {options}")

    job = login.enqueue("ann", pin="471123", options={"password": "sesame"})
    job.wait(PATIENCE)
    eventually(lambda: "ann can't enter with ***" in stream.getvalue(), "the line")
    (error,) = job.errors
    for found in (stream.getvalue(), error.message, error.traceback):
        assert "471123" not in found
        assert "sesame" not in found
    assert "in login" in error.traceback


def test_people_read_the_job_behind_the_line(stream: StringIO) -> None:
    configure_logs(stream=stream)
    log.info("hello", extra={"job": "j1", "correlation_id": "j1", "token": "sesame", "n": 2})
    log.info("plain")
    found, plain = stream.getvalue().splitlines()
    assert found.endswith("INFO    shop: hello [job=j1 token=*** n=2]")
    assert plain.endswith("INFO    shop: plain")


def test_no_message_poses_as_a_line_of_its_own_or_steers_the_terminal(stream: StringIO) -> None:
    configure_logs(stream=stream)
    forged = "x\n2026-01-01T00:00:00.000Z ERROR   headrace.worker: forged\r\x1b]0;title\x07\x85\u2028"
    log.warning("it failed: %s", forged, extra={"job": forged})
    try:
        raise RuntimeError(forged)
    except RuntimeError:
        log.exception("it failed")
    found = stream.getvalue()
    assert all(char.isprintable() or char in "\n\t" for char in found)
    began = [line for line in found.split("\n") if line and not line.startswith("  | ")]
    assert ["WARNING shop: it failed: x" in began[0], "ERROR   shop: it failed" in began[1]] == [True, True]
    assert len(began) == 2
    assert "  | RuntimeError: x\n  | 2026-01-01T00:00:00.000Z ERROR   headrace.worker: forged\\r\\x1b]0;title" in found


def test_one_logger_may_have_a_lower_level_than_the_rest(stream: StringIO) -> None:
    configure_logs(level="WARNING, headrace=debug", stream=stream)
    logging.getLogger("headrace.worker").debug("in detail")
    log.info("in general")
    assert "in detail" in stream.getvalue()
    assert "in general" not in stream.getvalue()


@pytest.mark.parametrize(("level", "form"), [("LOUD", "json"), ("INFO,headrace", "json"), ("INFO,a=b", "human")])
def test_a_level_that_is_none_is_named(level: str, form: Any, stream: StringIO) -> None:
    with pytest.raises(ConfigError, match="log_level"):
        configure_logs(form, level, stream=stream)
    with pytest.raises(ConfigError, match="log_format"):
        configure_logs("xml", stream=stream)  # type: ignore[arg-type]


def test_a_handler_of_ones_own_can_have_the_fields_too(
    app: Headrace, worker: Worker, stream: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", stream)
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "filters": {"job": {"()": "headrace.JobContextFilter"}},
            "formatters": {
                "own": {"format": "%(job)s/%(attempt)s: %(message)s"},
                "json": {"()": "headrace.JsonFormatter"},
            },
            "handlers": {"err": {"class": "logging.StreamHandler", "filters": ["job"], "formatter": "own"}},
            "root": {"level": "INFO", "handlers": ["err"]},
        }
    )

    @app.task
    def speak() -> None:
        log.info("inside")

    job = speak.enqueue()
    job.wait(PATIENCE)
    log.info("outside")
    assert f"{job.id}/1: inside" in stream.getvalue()
    assert "-/-: outside" in stream.getvalue()


def test_no_message_in_json_controls_a_terminal(stream: StringIO) -> None:
    configure_logs("json", stream=stream)
    forged = "x\n{}\r\x1b]0;title\x07\x7f\x85\x9b31m\u2028\u202egnp.exe"
    log.warning("it failed: %s", forged, extra={"user": forged})
    [line] = stream.getvalue().splitlines()
    assert line.isprintable()
    assert json.loads(line)["message"] == f"it failed: {forged}"
    assert json.loads(line)["user"] == forged


@pytest.mark.parametrize("odd", [float("nan"), 10**400, "\ud800", {1, 2}, object(), {"deep": "\ud800"}])
def test_no_value_costs_a_line(odd: Any) -> None:
    record = logging.makeLogRecord({"msg": "odd", "odd": odd, "name": "shop"})
    assert json.loads(JsonFormatter().format(record))["message"] == "odd"


# -- events, operations, levels


def events(stream: StringIO) -> list[str]:
    return [line["event"] for line in lines(stream) if "event" in line]


def test_json_lines_name_their_event(app: Headrace, stream: StringIO) -> None:
    configure_logs("json", "INFO,headrace.worker=DEBUG", stream=stream)

    @app.task(retry=SOON)
    def flaky() -> None:
        if current_job().attempt == 1:
            raise OSError("away")

    with app.worker() as worker:
        flaky.enqueue().result(PATIENCE)
        worker.pause()
    found = events(stream)
    jobs = [event for event in found if event.startswith("job.")]
    assert sorted(jobs) == ["job.attempt_failed", "job.claimed", "job.claimed", "job.completed"]
    assert {"worker.started", "worker.paused", "worker.exchange", "worker.stopped"} <= set(found)
    failed = next(line for line in lines(stream) if line.get("event") == "job.attempt_failed")
    assert (failed["task"], failed["queue"], failed["worker"], failed["level"]) == (
        flaky.name,
        "default",
        worker.id,
        "WARNING",
    )


def test_text_lines_do_not_name_the_event(app: Headrace, stream: StringIO) -> None:
    configure_logs("human", stream=stream)
    with app.worker():
        pass
    log.info("bought", extra={"event": "shop.bought"})
    assert "worker.started" not in stream.getvalue()
    assert "event=shop.bought" in stream.getvalue()


@pytest.mark.parametrize("level", ["INFO", "INFO,headrace.store=DEBUG"])
def test_operations_of_the_store_are_logged_with_their_time(app: Headrace, stream: StringIO, level: str) -> None:
    configure_logs("json", level, stream=stream)
    app.enqueue("work")
    app.jobs.find()
    found = {line["operation"]: line for line in lines(stream) if line.get("event") == "store.operation"}
    if level == "INFO":
        assert found == {}
    else:
        assert {"insert", "queries.find"} <= found.keys()
        assert found["insert"]["ms"] > 0


def test_the_level_of_a_worker_is_changed_from_outside(app: Headrace, stream: StringIO) -> None:
    configure_logs("json", stream=stream)
    with app.worker() as worker:
        worker.pause()
        assert app.set_worker_log_level(worker.id, "WARNING,headrace.worker=INFO,headrace.store=DEBUG")
        eventually(lambda: "worker.log_level" in events(stream), "it logs at another level")
        assert logging.getLogger().level == logging.WARNING
        assert logging.getLogger("headrace.store").level == logging.DEBUG
        eventually(lambda: "store.operation" in events(stream), "operations are logged")
        assert app.workers()[0].state == "paused"
        assert app.set_worker_log_level(worker.id, "INFO")
        eventually(lambda: logging.getLogger("headrace.store").level == logging.NOTSET, "its own level again")
        assert logging.getLogger().level == logging.INFO
        assert not app.set_worker_log_level("nobody", "DEBUG")
        with pytest.raises(ConfigError, match="LOUD"):
            app.set_worker_log_level(worker.id, "LOUD")
