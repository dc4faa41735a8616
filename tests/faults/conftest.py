"""Real worker processes on a real store of each engine, killed for real."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.engines import KINDS

ROOT = Path(__file__).parents[2]
# What happens to a file, or to the one writer it may have.
ABOUT_SQLITE = {
    "test_a_full_disk_refuses_jobs_and_loses_none",
    "test_a_process_stopped_while_it_writes_makes_others_fail_not_hang",
}


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.function.__name__ in ABOUT_SQLITE:
        metafunc.definition.add_marker(pytest.mark.engines("sqlite"))


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGSTOP, and wait for it: until one thread has taken the signal, the others go on for some milliseconds."""
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)


def stop_while_it_does_not_write(process: subprocess.Popen[bytes], url: str) -> None:
    """The same. A process that is stopped in a write keeps everybody else from a SQLite file."""
    stop(process)
    while url.startswith("sqlite:///") and _is_locked(url.removeprefix("sqlite:///")):
        process.send_signal(signal.SIGCONT)
        time.sleep(0.02)
        stop(process)


def _is_locked(path: str) -> bool:
    with contextlib.closing(sqlite3.connect(path, timeout=0.5)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        db.rollback()
        return False


@pytest.fixture
def url(engine_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty store of this engine, which the worker processes find as well."""
    kind = KINDS[engine_name]
    address = kind.create(tmp_path)
    url = kind.url(address)
    monkeypatch.setenv("HEADRACE_URL", url)
    yield url
    kind.discard(address)


@pytest.fixture
def fleet(url: str, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """Starts worker processes and ends those that are left."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(stderr: int | None = None, **settings: object) -> subprocess.Popen[bytes]:
        # Whoever is hit by so many kills here is innocent, unless the test says otherwise.
        settings.setdefault("max_crashes", "none")
        extra = {f"HEADRACE_{name.upper()}": str(value) for name, value in settings.items()}
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.worker_app"],
            env={**os.environ, "HEADRACE_URL": url, "PYTHONPATH": path, **extra},
            cwd=tmp_path,
            stderr=stderr,
        )
        processes.append(process)
        return process

    yield SimpleNamespace(start=start, processes=processes)
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait()
