"""Real worker processes on a real file, killed for real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]


def until(condition: Callable[[], object], seconds: float = 30.0, what: str = "the condition") -> None:
    """Wait for something that another process does, and fail loudly if it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come true within {seconds:g} s")
        time.sleep(0.01)


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path}/jobs.db"
    monkeypatch.setenv("HEADRACE_URL", url)
    return url


@pytest.fixture
def fleet(url: str, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """Starts worker processes and ends those that are left."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(stderr: int | None = None, **settings: object) -> subprocess.Popen[bytes]:
        extra = {f"HEADRACE_{name.upper()}": str(value) for name, value in settings.items()}
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.crew_app"],
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
