"""The run's side of the conversation with its children. It ends only what it started itself."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec

import bench
import headrace
from bench.ground import Ground, Store

_PATIENCE = 600.0
_FAREWELL = 10.0
_ROOTS = [str(Path(package.__file__ or ".").parent.parent) for package in (bench, headrace)]


class ChildFailed(Exception):
    """A child ended or fell silent before it answered; its last words are in the message."""


class Timed(msgspec.Struct, frozen=True):
    """What a child reports: so many jobs in so many seconds, and so many of them on a processor."""

    jobs: int
    seconds: float
    processor: float

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds

    @property
    def effort(self) -> float:
        """Microseconds on a processor for each job: steadier than the rate where others use the machine too."""
        return self.processor / self.jobs * 1e6


def environment() -> dict[str, str]:
    """Ours, without settings that would change what is measured."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "BENCH_"))}
    return ours | {"PYTHONPATH": os.pathsep.join(_ROOTS)}


def free_port() -> int:
    """A port for a child that serves something."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


class Child:
    """One process that runs a module of `bench.children` on a store, from the start to the end of a `with` block."""

    def __init__(
        self, ground: Ground, store: Store, module: str, *arguments: object, python: str = sys.executable
    ) -> None:
        self._name = " ".join([module, *map(str, arguments[:2])])
        self._store = store
        self._log = ground.path(".log")
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [python, "-m", f"bench.children.{module}", *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ground.folder,  # no headrace.toml, no pyproject.toml
                env=environment() | _told(store),
                start_new_session=True,  # Ctrl-C is for the run, which then ends its children in order
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        if self._line() != "ready":
            raise self.failure("did not get ready")

    def go(self) -> None:
        pipe = _open(self._process.stdin)
        pipe.write("go\n")
        pipe.flush()

    def stop_waiting(self) -> None:
        """Tell a child that goes on until it is told, and then answers."""
        self.go()

    def answer(self) -> Timed:
        return msgspec.json.decode(self._line(), type=Timed)

    def failure(self, what: str) -> ChildFailed:
        words = self._store.hide_password(self._log.read_text()[-2000:].strip())
        return ChildFailed(f"{self._name} {what}{': ' if words else ''}{words}")

    def _line(self) -> str:
        pipe = _open(self._process.stdout)
        if not select.select([pipe], [], [], _PATIENCE)[0]:
            raise self.failure(f"said nothing for {_PATIENCE:g} s")
        line = pipe.readline().strip()
        if not line:
            raise self.failure("ended early")
        return line

    def terminate(self) -> None:
        """Tell a child that serves until it is told."""
        self._process.terminate()

    def check(self) -> None:
        """Raise if the child is gone."""
        if self._process.poll() is not None:
            raise self.failure(f"ended with code {self._process.returncode}")

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self._process.terminate()
        _open(self._process.stdin).close()  # for a child that works until it is told, this is the word
        for end in (self._process.terminate, self._process.kill):
            try:
                self._process.wait(_FAREWELL)
                break
            except subprocess.TimeoutExpired:
                end()
        self._process.wait()
        _open(self._process.stdout).close()
        self._log.unlink(missing_ok=True)


def _told(store: Store) -> dict[str, str]:
    return {"BENCH_STORE": store.url, "BENCH_DURABILITY": store.durability, "BENCH_TELLS": store.tells}


def time_in_child(ground: Ground, store: Store, module: str, *arguments: object, python: str = sys.executable) -> Timed:
    """Have a child do its work and report."""
    with Child(ground, store, module, *arguments, python=python) as child:
        child.wait_until_ready()
        child.go()
        return child.answer()


def _open(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
