"""A Django project, and scripts that run in it. Django's settings are of one process, so each script has its own."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support import servers

PROJECT = Path(__file__).with_name("project")
Run = Callable[..., subprocess.CompletedProcess[str]]

SETUP = """
import json
import django
django.setup()
from django.db import transaction
from django.contrib.auth.models import User
from headrace.contrib.django import get_app
from shop.tasks import *
told = {}

def error_of(act):
    try:
        act()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""


def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture
def database(engine_name: str, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Django's settings of an empty database."""
    if engine_name == "sqlite":
        yield {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "shop & co.db")}
        return
    url = servers.postgres_url(own_database=True)
    parts = urlsplit(url)
    host = parse_qs(parts.query).get("host", [parts.hostname or ""])[0]
    yield {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.strip("/"),
        "USER": parts.username or "",
        "PASSWORD": parts.password or "",
        "HOST": host,
        "PORT": str(parts.port or ""),
    }
    servers.drop(url)


@pytest.fixture
def environment(database: dict[str, Any]) -> dict[str, str]:
    paths = os.pathsep.join([str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        **os.environ,
        "SHOP_DATABASE": json.dumps(database),
        "DJANGO_SETTINGS_MODULE": "shop.settings",
        "PYTHONPATH": paths,
    }


@pytest.fixture
def manage(environment: dict[str, str]) -> Run:
    """Runs a command of manage.py."""

    def run(*args: str, code: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(PROJECT / "manage.py"), *args]
        done = _run(command, {**environment, **more})
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def script(environment: dict[str, str], tmp_path: Path) -> Callable[..., Any]:
    """Runs statements in the project; what they put into `told` is returned."""

    def run(text: str, **more: str) -> Any:
        answer = tmp_path / "told.json"
        lines = f"{SETUP}\n{text}\nopen({str(answer)!r}, 'w').write(json.dumps(told))\n"
        done = _run([sys.executable, "-c", lines], {**environment, **more})
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(answer.read_text())

    return run


@pytest.fixture
def project(manage: Run, engine_name: str, database: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    """The project, with its tables; on SQLite a copy of the first one's file."""
    first = tmp_path_factory.getbasetemp() / "first.sqlite3"
    if engine_name == "sqlite" and first.exists():
        shutil.copy(first, database["NAME"])
        return
    manage("migrate", "--verbosity", "0")
    if engine_name == "sqlite":
        with closing(sqlite3.connect(database["NAME"])) as db, closing(sqlite3.connect(first)) as copy:
            db.backup(copy)
