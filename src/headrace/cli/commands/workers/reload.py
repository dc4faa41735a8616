"""`headrace worker --reload`: runs the worker as a child process and restarts it when a .py file changes.

For development only. It relies on two facts: SIGTERM asks a worker to finish, and a second SIGTERM cuts that short.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

from headrace.cli.output import remark

_POLL_INTERVAL = 0.5
_FINISH_TIMEOUT = 2.0  # seconds for running jobs; afterwards they are released and run again
_KILL_TIMEOUT = 5.0
_SKIPPED = frozenset({"__pycache__", "node_modules"})


def run_reloading(arguments: Sequence[str], folder: str) -> int:
    """Run the command, restarted on code changes, until SIGINT or SIGTERM."""
    return _Reloader([sys.executable, "-m", "headrace", *arguments], folder).run()


class _Reloader:
    def __init__(self, command: list[str], folder: str) -> None:
        self._command = command
        self._folder = folder
        self._signalled = threading.Event()
        self._signals = 0
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        old_handlers = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            remark(f"reloading on changes of .py files under {self._folder}")
            while not self._signals:
                self._run_once()
            return 0
        finally:
            self._end(0.0)
            for number, handler in old_handlers.items():
                signal.signal(number, handler)

    def _run_once(self) -> None:
        before = snapshot(self._folder)
        # In its own session: Ctrl-C reaches only this process, which forwards it once.
        self._child = subprocess.Popen(self._command, start_new_session=True)
        ended = False
        while not self._signals and snapshot(self._folder) == before:
            code = self._child.poll()
            if code is not None and not ended:
                ended = True
                remark(f"the worker ended with code {code}; waiting for a change")
            self._signalled.wait(_POLL_INTERVAL)
        if self._signals:
            self._forward_signals(self._child)
        else:
            remark("files changed; restarting the worker")
            self._end(_FINISH_TIMEOUT)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        # Only count: a signal may arrive before `self._child` is set.
        self._signals += 1
        self._signalled.set()

    def _forward_signals(self, child: subprocess.Popen[bytes]) -> None:
        """Forward every received signal to the child until it has exited."""
        sent = 0
        while child.poll() is None:
            while sent < self._signals:
                self._send(signal.SIGTERM)
                sent += 1
            self._signalled.clear()
            self._signalled.wait(_POLL_INTERVAL / 5)

    def _send(self, number: int) -> None:
        if self._child is not None and self._child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self._child.send_signal(number)

    def _end(self, timeout: float) -> None:
        """Stop the child: SIGTERM, a second SIGTERM after `timeout`, then SIGKILL."""
        if self._child is None:
            return
        for number, seconds in (
            (signal.SIGTERM, timeout),
            (signal.SIGTERM, _KILL_TIMEOUT),
            (signal.SIGKILL, _KILL_TIMEOUT),
        ):
            self._send(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(seconds)
                return


def snapshot(folder: str) -> dict[str, tuple[int, int]]:
    """Modification time and size of every .py file below the folder."""
    return {entry.path: _file_version(entry) for entry in _python_files(folder)}


def _file_version(entry: os.DirEntry[str]) -> tuple[int, int]:
    try:
        stat = entry.stat()
    except OSError:  # deleted meanwhile, which is also a change
        return 0, 0
    return stat.st_mtime_ns, stat.st_size


def _python_files(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith(".") and entry.name not in _SKIPPED:
                yield from _python_files(entry.path)
        elif entry.name.endswith(".py"):
            yield entry
