"""The demo's environment: a temporary folder and store, and real worker processes.

At the end it stops its processes and removes its folder, whatever happened. It is independent of the tour's steps.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from headrace.app.app import Headrace
from headrace.errors import HeadraceError

_PACKAGES = Path(__file__).parents[2]
TIMEOUT = 60.0  # seconds; the steps take a moment, unless the machine pauses
_POLL_INTERVAL = 0.02


class DemoFailed(HeadraceError):
    """A step had an unexpected outcome."""


class DemoEnvironment:
    """The folder, the store's URL and the worker processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'demo.db'}"
        self._workers: list[subprocess.Popen[bytes]] = []

    def start_worker(self, app: Headrace, name: str = "headrace.cli.demo.tasks:app") -> int:
        """Start `headrace worker` for the app of this name and wait until it has registered; return its process id."""
        command = [sys.executable, "-m", "headrace", "--app", name, "worker", "-c", "4"]
        with self._log_path(len(self._workers) + 1).open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self._workers.append(process)

        def registered() -> bool:
            if process.poll() is not None:
                raise DemoFailed(f"a worker ended with code {process.returncode} instead of starting")
            return any(worker.pid == process.pid for worker in app.workers())

        wait_until(registered, "a worker registers")
        return process.pid

    def kill(self, pid: int) -> None:
        """kill -9: the worker can't clean up."""
        process = next(process for process in self._workers if process.pid == pid)
        process.kill()
        process.wait()
        self._workers.remove(process)

    def stop_workers(self) -> list[int]:
        """Send SIGTERM to all workers; return their exit codes."""
        for process in self._workers:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(TIMEOUT) for process in self._workers]
        self._workers.clear()
        return codes

    def kill_workers(self) -> None:
        """Kill the workers that still run."""
        for process in self._workers:
            process.kill()
            process.wait()
        self._workers.clear()

    def log_tails(self) -> str:
        """The tail of every worker's log, for a failed demo."""
        return "\n".join("\n".join(log.read_text("utf-8", "replace").splitlines()[-8:]) for log in self._log_paths())

    def _log_path(self, number: int) -> Path:
        while (path := self.folder / f"worker-{number}.log").exists():
            number += 1
        return path

    def _log_paths(self) -> list[Path]:
        return sorted(self.folder.glob("worker-*.log"))


@contextlib.contextmanager
def open_environment(keep: bool) -> Iterator[DemoEnvironment]:
    """An environment that neither reads nor changes the user's settings and files."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
    demo_environment = DemoEnvironment(folder)
    before = dict(os.environ)
    environment = {name: value for name, value in before.items() if not name.startswith("HEADRACE_")}
    environment |= {"HEADRACE_URL": demo_environment.url, "PYTHONPATH": _python_path()}
    try:
        _replace_environment(environment)
        with contextlib.chdir(folder):
            yield demo_environment
    finally:
        demo_environment.kill_workers()
        _replace_environment(before)
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _replace_environment(values: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(values)


def _python_path() -> str:
    """Lets the workers, which start in another folder, import the same headrace."""
    given = [os.path.abspath(part) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    installed = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    return os.pathsep.join(given if _PACKAGES in installed else [str(_PACKAGES), *given])


def wait_until(condition: Callable[[], bool], what: str, timeout: float = TIMEOUT) -> float:
    """Wait for a condition and return the seconds it took. Raises DemoFailed after `timeout`."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > timeout:
            raise DemoFailed(f"timed out after {timeout:g} s waiting until {what}")
        time.sleep(_POLL_INTERVAL)
    return time.monotonic() - started
