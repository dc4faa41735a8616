"""A server's process, in a folder of its own, both gone for sure when whoever started it is gone.

Must not know which server it is.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support.waiting import PATIENCE

# It waits for the end of the process that made it. A word before that means that all is cleared up; an end without
# a word (kill -9, a test over its time limit) means that this is left to do. To every server SIGINT is an orderly end.
_KEEPER = """
read -r word && exit
pid=$(cat "$1/pid") && kill -INT "$pid" && for tenth in $(seq 100); do kill -0 "$pid" || break; sleep 0.1; done
kill -KILL "$pid"
rm -rf "$1"
"""


class ServerFailed(RuntimeError):
    """A server that is needed can't be had; the message says why, or what to do."""


class Daemon:
    """Starts one program, any number of times, and clears up behind it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = _short_folder(f"hr-{name}-")
        self.process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        # In a session of its own, as the server itself: Ctrl-C is for us, who have tests to tear down.
        self._step_store = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, "keeper", str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,
        )
        self._closed = False

    @property
    def said(self) -> str:
        """The end of what it wrote, all starts together."""
        log = self.folder / "log"
        return log.read_text(errors="replace")[-2000:] if log.exists() else ""

    def run(self, command: Sequence[str | Path], ready: Callable[[], bool], **how: Any) -> None:
        """Start it and wait until it serves."""
        assert self.process is None, f"{self.name} was started already"
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **how,
            )
        (self.folder / "pid").write_text(str(self.process.pid))
        deadline = time.monotonic() + PATIENCE
        while not ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.end(signal.SIGKILL)
                raise ServerFailed(f"{self.name} did not start. It said:\n{self.said}")
            time.sleep(0.01)

    def end(self, how: signal.Signals) -> None:
        """Send the signal and wait for the end, which nothing may put off for ever."""
        if self.process is None or self._owner != os.getpid():
            return
        self.process.send_signal(how)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None
        (self.folder / "pid").unlink(missing_ok=True)

    def close(self) -> None:
        """End the process and remove its folder. A forked child owns neither, and leaves them alone."""
        if self._closed or self._owner != os.getpid():
            return
        self._closed = True
        self.end(signal.SIGINT)
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(BrokenPipeError):
            self._step_store.communicate(b"done\n")


def free_port() -> int:
    """A loopback port nobody listens at.

    Not one of those that the system gives to clients: while a server is down, one of its own clients could be
    given its port and so connect to itself, and the server could not come back.
    """
    for port in random.SystemRandom().sample(range(18_000, 32_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise ServerFailed("no free port was found between 18000 and 32000")


def _short_folder(prefix: str) -> Path:
    """A private folder. A Unix socket's name has room for about 100 characters, which $TMPDIR alone may take."""
    usual = Path(tempfile.gettempdir())
    short = usual if len(str(usual)) < 60 and open_to_all(usual) else Path("/tmp")
    return Path(tempfile.mkdtemp(prefix=prefix, dir=short))


def open_to_all(path: Path) -> bool:
    """Whether another user can get there."""
    return all(place.stat().st_mode & 0o001 for place in (path, *path.parents))
