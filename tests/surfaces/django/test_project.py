"""Checks, tables and the management command of a Django project."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.django.conftest import PROJECT, Run

pytestmark = [pytest.mark.slow, pytest.mark.engines("sqlite")]
Script = Callable[..., Any]


def test_migrate_makes_the_tables(manage: Run, script: Script) -> None:
    manage("migrate", "--verbosity", "0")
    assert script("told['schema'] = get_app().engine.migrate(dry_run=True)[:2]")["schema"] == [1, 1]


def test_a_sound_project_passes_its_checks(manage: Run) -> None:
    assert "no issues" in manage("check").stdout


@pytest.mark.parametrize(
    ("options", "of", "words"),
    [
        ({"concurency": 4}, None, "did you mean concurrency"),
        ({"url": "mysql://somewhere"}, None, "mysql"),
        ({"database": "elsewhere"}, None, "elsewhere"),
        ({}, {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}, "no worker sees them"),
    ],
)
def test_a_wrong_setting_is_told_by_the_checks(
    manage: Run, options: dict[str, Any], of: dict[str, Any] | None, words: str
) -> None:
    more = {"SHOP_DATABASE": json.dumps(of)} if of else {}
    done = manage("check", "--fail-level", "WARNING", code=1, SHOP_OPTIONS=json.dumps(options), **more)
    assert words in done.stderr
    assert "headrace.W001" in done.stderr or "headrace.E001" in done.stderr


@pytest.mark.usefixtures("project")
def test_several_processes_of_a_worker_know_the_tasks(
    environment: dict[str, str], script: Script, tmp_path: Path
) -> None:
    ids = script("told['ids'] = [add.enqueue(n, 1).id for n in range(4)]")["ids"]
    command = [sys.executable, str(PROJECT / "manage.py"), "headrace", "worker", "--processes", "2"]
    with (tmp_path / "worker.log").open("w") as log:
        worker = subprocess.Popen(command, env=environment, stderr=log)
    found = f"[add.get_result(id) for id in {ids!r}]"
    try:
        wait = f"for result in {found}: get_app().jobs.get(result.id).wait(60)\n"
        told = script(f"{wait}told['values'] = [result.return_value for result in {found}]")
    finally:
        worker.terminate()
        code = worker.wait(60)
    assert told["values"] == [1, 2, 3, 4]
    assert code == 0, (tmp_path / "worker.log").read_text()


@pytest.mark.usefixtures("project")
def test_the_command_ends_with_the_code_of_headrace(manage: Run) -> None:
    assert "no such command" in manage("headrace", "nonsense", code=2).stderr.lower()


@pytest.mark.usefixtures("project")
def test_jobs_may_be_in_a_store_of_their_own(manage: Run, script: Script, tmp_path: Path) -> None:
    options = json.dumps({"url": f"sqlite:///{tmp_path}/jobs.db", "concurrency": 3})
    told = script(
        """
try:
    with transaction.atomic():
        add.enqueue(1, 2)
        raise RuntimeError
except RuntimeError:
    pass
told |= {'jobs': get_app().jobs.count(), 'concurrency': get_app().settings.concurrency}
""",
        SHOP_OPTIONS=options,
    )
    assert told == {"jobs": 1, "concurrency": 3}
    assert (tmp_path / "jobs.db").exists()
