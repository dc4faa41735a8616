"""The app itself: settings, routes, Beat's schedules, signals, discovery and the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import Headrace
from headrace.cli.app_loader import load_app
from headrace.contrib.celery import Celery, CeleryError, Task, crontab, get_task_logger, schedule, signals
from headrace.contrib.celery.schedules import solar
from headrace.errors import ConfigError
from headrace.testing import VirtualClock, drain
from tests.support.waiting import PATIENCE

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)


@pytest.fixture
def app() -> Iterator[Celery]:
    with Headrace("memory://", clock=VirtualClock(NOON)) as headrace:
        yield Celery.from_headrace(headrace, "shop")


@pytest.fixture(autouse=True)
def _no_receivers(monkeypatch: pytest.MonkeyPatch) -> None:
    for signal in (value for value in vars(signals).values() if isinstance(value, signals.Signal)):
        monkeypatch.setattr(signal, "receivers", [])
    monkeypatch.setattr(signals, "_begun_in", [])


# -- Beat


def test_beat_schedule_becomes_declared_schedules(app: Celery) -> None:
    ran: list[Any] = []

    @app.task(name="report")
    def report(kind: str, to: str = "ann") -> None:
        ran.append((kind, to))

    app.conf.timezone = "Europe/Vienna"
    app.conf.beat_schedule = {
        "every morning": {"task": "report", "schedule": crontab(minute=30, hour=7), "args": ("morning",)},
        "often": {
            "task": "report",
            "schedule": timedelta(minutes=10),
            "kwargs": {"kind": "often", "to": "bob"},
            "options": {"queue": "reports", "priority": 4},
        },
    }
    app.conf.beat_schedule["seconds"] = {"task": "elsewhere", "schedule": 3600.0}
    drain(app.headrace)
    found = {known.id: known for known in app.headrace.schedules.list()}
    assert set(found) == {"every-morning", "often", "seconds"}
    assert found["every-morning"].next_run == datetime(2030, 6, 2, 5, 30, tzinfo=UTC)
    del app.conf.beat_schedule["seconds"]
    app.headrace.schedules.delete("seconds")
    app.headrace.clock.advance(600)  # type: ignore[attr-defined]  # the virtual one
    job = app.headrace.schedules.run_now("often")
    assert (job.queue, job.priority) == ("reports", 4)
    app.headrace.jobs.cancel(task="elsewhere")


def test_a_changed_entry_is_declared_again(app: Celery) -> None:
    app.task(name="report")(lambda: None)
    app.conf.beat_schedule = {"r": {"task": "report", "schedule": 60}}
    assert app.headrace.schedules.declared == ("r",)
    app.conf.beat_schedule = {"r": {"task": "report", "schedule": 120}}
    app.headrace.schedules.sync()
    assert app.headrace.schedules.get("r").every == timedelta(seconds=120)


def test_add_periodic_task_sees_tasks_that_are_defined_later(app: Celery) -> None:
    @app.on_after_configure.connect
    def set_up(sender: Celery, **_: Any) -> None:
        sender.add_periodic_task(30.0, later.s("hello"), name="half a minute")
        sender.add_periodic_task(crontab(minute="*/5"), later.s("world"))

    @app.task(name="later")
    def later(text: str) -> None: ...

    assert app.headrace.schedules.declared == ("half-a-minute", "later-*/5-*-*-*-*".replace(" ", "-"))


@pytest.mark.parametrize(
    ("given", "expression"),
    [
        (crontab(), "* * * * *"),
        (crontab(0, 9, day_of_week="mon-fri"), "0 9 * * mon-fri"),
        (crontab(minute="*/15", hour=[8, 12, 18]), "*/15 12,18,8 * * *"),
        (crontab(minute=0, hour=0, day_of_month="1,15", month_of_year=3), "0 0 1,15 3 *"),
    ],
)
def test_a_crontab_is_a_cron_expression(given: crontab, expression: str) -> None:
    assert given.expression == expression


def test_schedules_that_mean_something_else_here_are_refused(app: Celery) -> None:
    app.task(name="report")(lambda: None)
    for given, told in (
        ({"task": "report", "schedule": crontab(day_of_week=1, day_of_month=1)}, "where both match"),
        ({"task": "report", "schedule": "daily"}, "a number of seconds or a timedelta"),
        ({"schedule": 5}, "expected a dict with `task`"),
        ({"task": "report", "schedule": crontab(minute=1.5)}, "crontab: expected a number"),
    ):
        app.conf.beat_schedule = {"x": given}
        with pytest.raises(CeleryError, match=told):
            _ = app.headrace
    with pytest.raises(CeleryError, match="expected a dict"):
        app.conf.beat_schedule = []
    with pytest.raises(CeleryError, match="no solar schedules"):
        solar("sunset", 1, 2)
    app.conf.beat_schedule = {"x": {"task": "report", "schedule": schedule(90)}}
    assert app.headrace.schedules.declared == ("x",)


# -- settings


def test_task_routes_choose_the_queue_unless_the_task_or_the_call_does(app: Celery) -> None:
    def route(name: str, args: Any, kwargs: Any, options: Any, task: Any = None) -> Any:
        return {"queue": "routed", "priority": 7} if name == "special" else None

    for name, options in {"feed.read": {}, "feed.own": {"queue": "own"}, "special": {}, "mail": {}, "x1": {}}.items():
        app.task(name=name, **options)(lambda: None)
    app.conf.task_routes = (
        route,
        {"feed.*": {"queue": "feeds"}, "mail": "post"},
        (re.compile("x[0-9]"), {"queue": "x"}),
    )
    queues = {name: task.delay().job for name, task in app.tasks.items()}
    found = {name: job.queue for name, job in queues.items() if job}
    assert found == {"feed.read": "feeds", "feed.own": "own", "special": "routed", "mail": "post", "x1": "x"}
    sent = app.tasks["mail"].apply_async(queue="other").job
    assert sent is not None
    assert sent.queue == "other"
    assert app.send_task("feed.unknown").job.queue == "feeds"


def test_settings_are_read_from_objects_and_dicts(app: Celery, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    app.config_from_object(
        SimpleNamespace(CELERY_TASK_DEFAULT_QUEUE="mine", CELERY_TIMEZONE="UTC", OTHER=1), namespace="CELERY"
    )
    app.config_from_object({"task_ignore_result": True, "broker_pool_limit": 3})
    app.conf["result_expires"] = 60
    (tmp_path / "celery_settings.py").write_text("import os\ntask_time_limit = 9\nPRIVATE = 1\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    app.config_from_object("celery_settings")
    task = app.task(name="t")(lambda: None)
    options = task.headrace_task.options
    assert (options.queue, options.keep_result, options.timeout) == ("mine", False, 9000)
    assert (app.conf.get("result_expires"), app.conf["broker_pool_limit"], "PRIVATE" in app.conf) == (60, 3, False)
    assert app.conf.CELERY_ROUTES is None
    with pytest.raises(AttributeError, match="has no 'nothing'"):
        _ = app.conf.nothing
    for setting, value in (
        ("task_serializer", "pickle"),
        ("accept_content", ["json", "yaml"]),
        ("task_annotations", {"*": {"rate_limit": "1/s"}}),
    ):
        with pytest.raises(CeleryError, match=setting):
            app.conf.update({setting: value})
    with pytest.raises(CeleryError, match="config_from_object"):
        app.config_from_object("no.such.module")


# -- signals


def test_signals_are_sent_around_each_attempt(app: Celery) -> None:
    seen: list[tuple[str, Any]] = []

    @app.task(bind=True, name="work", max_retries=1, default_retry_delay=0)
    def work(self: Task, how: str) -> str:
        if how == "fail":
            raise ValueError(how)
        if how == "retry" and not self.request.retries:
            raise self.retry()
        return how

    names = ("task_prerun", "task_postrun", "task_success", "task_failure", "task_retry")
    for name in names:
        getattr(signals, name).connect(lambda name=name, **about: seen.append((name, about)), weak=False)

    @signals.task_success.connect(sender=work)
    def broken(sender: Any = None, **_: Any) -> None:
        raise RuntimeError("a receiver that fails changes nothing")

    def kinds(how: str) -> list[str]:
        seen.clear()
        work.delay(how)
        while drain(app.headrace):
            app.headrace.clock.advance(1)  # type: ignore[attr-defined]  # the virtual one
        return [name.removeprefix("task_") for name, _ in seen]

    assert kinds("ok") == ["prerun", "success", "postrun"]
    assert (seen[1][1]["result"], seen[2][1]["state"], seen[2][1]["retval"]) == ("ok", "SUCCESS", "ok")
    assert (seen[0][1]["sender"], seen[0][1]["task"], seen[0][1]["args"]) == (work, work, ("ok",))
    assert kinds("fail") == ["prerun", "failure", "postrun"]
    assert isinstance(seen[1][1]["exception"], ValueError)
    assert kinds("retry") == ["prerun", "retry", "postrun", "prerun", "success", "postrun"]
    assert signals.task_success.disconnect(broken, sender=work)
    assert not signals.task_success.disconnect(broken, sender=work)


def test_worker_signals_are_sent_in_the_process_of_the_worker() -> None:
    seen: list[str] = []
    for name in ("worker_init", "worker_process_init", "worker_ready", "worker_shutdown"):
        getattr(signals, name).connect(lambda name=name, **_: seen.append(name), dispatch_uid=name)
    with Celery("w", broker="memory://") as app:

        @app.task
        def work() -> list[str]:
            return list(seen)

        with app.headrace.worker(concurrency=1):
            assert work.delay().get(PATIENCE)[:2] == ["worker_init", "worker_process_init"]
    assert seen == ["worker_init", "worker_process_init", "worker_ready", "worker_shutdown"]


def test_signals_that_do_not_carry_over_name_their_equal() -> None:
    with pytest.raises(AttributeError, match=r"job\.enqueued"):
        _ = signals.before_task_publish
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = signals.nonsense


# -- discovery and the command line


def test_tasks_are_discovered_when_a_worker_asks_for_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "celery_orders"
    package.mkdir()
    (package / "__init__.py").write_text("", "utf-8")
    (package / "celery.py").write_text(
        "from headrace.contrib.celery import Celery\n"
        "app = Celery('orders', broker='memory://')\n"
        "app.autodiscover_tasks(['celery_orders', 'celery_orders.empty'])\n",
        "utf-8",
    )
    (package / "empty.py").write_text("", "utf-8")
    (package / "tasks.py").write_text(
        "from headrace.contrib.celery import shared_task\n@shared_task\ndef order(n): return n\n", "utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("celery_orders.celery:app", "celery_orders.celery"):
        headrace = load_app(name, "from a test")
        assert "celery_orders.tasks.order" in headrace.tasks
    headrace.close()


def test_a_name_that_is_no_app_is_still_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "no_celery.py").write_text("import headrace\nx = 1\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("no_celery:x", "no_celery"):
        with pytest.raises(ConfigError, match="it has no app"):
            load_app(name, "from a test")


def test_without_packages_discovery_needs_django_or_names(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "django.apps", None)
    with pytest.raises(CeleryError, match="name the packages"):
        app.autodiscover_tasks(force=True)


def test_rates_are_set_by_control(app: Celery) -> None:
    app.control.rate_limit("send", "10/m")
    assert app.headrace.task_rules()["send"].rate is not None
    app.control.rate_limit("send", 0)
    assert app.headrace.task_rules() == {}


def test_the_logger_of_tasks_is_a_plain_one() -> None:
    assert get_task_logger("shop").name == "shop"
