"""`headrace from-celery` reads the source of a Celery project and says what becomes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.cli.from_celery import rules
from headrace.cli.from_celery.source import uses_in
from headrace.contrib import celery
from headrace.contrib.celery import options, signals
from headrace.contrib.celery.conf import _DEFAULTS
from tests.support.command_line import Shell

SOURCE = """\
from celery import Celery, chain, bootsteps
from celery.signals import before_task_publish, task_failure
from celery.schedules import crontab
import celery.bin

app = Celery("shop", broker="amqp://")
app.conf.beat_schedule = {"a": {"task": "send", "schedule": crontab(day_of_week=1, day_of_month=2)}}
app.conf.update(worker_concurrency=4, task_always_eager=True, unknown=1)

@app.task(bind=True, rate_limit="10/m", routing_key="a", cost=3)
def send(self, to):
    raise self.retry(countdown=5)

@app.task
async def later(): ...

"text".replace("t", "x")
chain(send.s(1), send.si(2)).apply_async(countdown=3, exchange="x")
app.control.inspect()
"""


@pytest.fixture
def project(shell: Shell) -> Path:
    folder = Path(shell.folder) / "celery_shop"
    folder.mkdir()
    (folder / "__init__.py").write_text("", "utf-8")
    (folder / "tasks.py").write_text(SOURCE, "utf-8")
    return folder


def test_each_use_is_judged_with_its_line(project: Path) -> None:
    found = {use.what: use for use in uses_in(project / "tasks.py")}
    assert {what: (use.line, use.verdict) for what, use in found.items()} == {
        "from celery import Celery": (1, "changes"),
        "from celery import chain": (1, "changes"),
        "from celery import bootsteps": (1, "does not"),
        "from celery.signals import before_task_publish": (2, "does not"),
        "from celery.signals import task_failure": (2, "changes"),
        "from celery.schedules import crontab": (3, "changes"),
        "import celery.bin": (4, "changes"),
        "Celery(...)": (6, "changes"),
        "conf.beat_schedule": (7, "carries over"),
        "crontab(...)": (7, "does not"),
        "conf.worker_concurrency": (8, "changes"),
        "conf.task_always_eager": (8, "carries over"),
        "conf.unknown": (8, "changes"),
        "task send": (11, "carries over"),
        "task send: bind": (10, "carries over"),
        "task send: rate_limit": (10, "changes"),
        "task send: routing_key": (10, "does not"),
        "task send: cost": (10, "carries over"),
        "self.retry()": (12, "carries over"),
        "task later": (15, "does not"),
        "chain(...)": (18, "carries over"),
        "send.s()": (18, "carries over"),
        "send.si()": (18, "carries over"),
        ".apply_async()": (18, "carries over"),
        "apply_async: countdown": (18, "carries over"),
        "apply_async: exchange": (18, "does not"),
        "control.inspect()": (19, "does not"),
    }
    assert all(use.note for use in found.values() if use.verdict != "carries over")


def test_the_command_lists_what_needs_work_and_ends_with_a_verdict(shell: Shell, project: Path) -> None:
    done = shell("from-celery", "celery_shop.tasks:app")
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[-1].startswith("11 carry over, 9 change, 7 do not: replace what does not")
    assert any("celery_shop/tasks.py:1 " in line and "bootsteps" in line for line in lines)
    assert not any("send.si()" in line for line in lines)
    assert "send.si()" in shell("from-celery", "celery_shop", "--all").out


def test_json_has_all_uses(shell: Shell, project: Path) -> None:
    report: Any = shell("from-celery", str(project / "tasks.py"), "--json").json
    assert report["counts"] == {"changes": 9, "does not": 7, "carries over": 11}
    assert report["uses"][0].keys() == {"file", "line", "what", "verdict", "note"}
    assert report["verdict"].startswith("11 carry over")


def test_a_project_that_carries_over_exits_with_0(shell: Shell, project: Path) -> None:
    (project / "tasks.py").write_text("from celery import shared_task\n@shared_task\ndef a(): ...\n", "utf-8")
    done = shell("from-celery", "celery_shop")
    assert (done.code, done.out.splitlines()[-1]) == (
        0,
        "1 carry over, 1 change, 0 do not: change the imports to headrace.contrib.celery and the module runs",
    )
    (project / "tasks.py").write_text("x = 1\n", "utf-8")
    assert shell("from-celery", "celery_shop").out == "no use of Celery was found\n"


def test_what_can_not_be_read_is_an_error(shell: Shell, project: Path) -> None:
    assert "there is no module, file or folder 'nowhere'" in shell("from-celery", "nowhere").err
    (project / "tasks.py").write_text("def (", "utf-8")
    assert "can't be read as Python" in shell("from-celery", "celery_shop").err


def test_the_rules_agree_with_the_facade() -> None:
    """What a rule says to carry over must be there, and what is refused must be there with a verdict."""
    names = {name for name, rule in rules.NAMES.items() if rule == rules.SAME}
    assert names <= set(celery.__all__)
    assert {name for name, value in vars(signals).items() if isinstance(value, signals.Signal)} == rules.SIGNALS
    assert set(_DEFAULTS) <= set(rules.SETTINGS)
    for name, rule in rules.CALL_OPTIONS.items():
        known = name in options._CALL or name in options.WITHOUT_EFFECT or name in ("args", "kwargs", "serializer")
        assert known or name.startswith("link") or rule.verdict == "does not", name
    for name, rule in rules.TASK_OPTIONS.items():
        if rule.verdict == "carries over" and rule.note == "" and name not in ("name", "bind", "base"):
            assert hasattr(celery.Task, name), name


def test_settings_of_a_module_for_config_from_object_are_judged(tmp_path: Path) -> None:
    config = tmp_path / "celeryconfig.py"
    config.write_text(
        'task_serializer = "json"\nresult_serializer = "pickle"\nCELERY_TASK_ACKS_LATE = True\n'
        'CELERY_TASK_SERIALIZER = "yaml"\ntimezone = "UTC"\nsize = 3\nif size:\n    beat_schedule = {}\n'
    )
    assert [(use.line, use.what, use.verdict) for use in uses_in(config)] == [
        (1, "conf.task_serializer", "carries over"),
        (2, "conf.result_serializer", "does not"),
        (3, "conf.task_acks_late", "carries over"),
        (4, "conf.task_serializer", "does not"),
    ]
