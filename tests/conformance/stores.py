"""Every engine there is, as the suite sees it: how to make an empty store, open it, and look behind the desk.

A new engine is one more entry in KINDS and nothing else; each conformance test then runs on it. This module is
also imported by `actor`, in other processes, and so does not know pytest.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack, closing
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from headrace.engines.protocol import Engine
from headrace.engines.sqlite.engine import SqliteEngine

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0  # seconds until something awaited counts as lost; never spent by a test that passes


class DeadLetter(NamedTuple):
    """What the suite asks of a dead letter, until the desk has a question for it."""

    job_id: str
    reason: str
    status: str
    snapshot: dict[str, Any]


class Kind(NamedTuple):
    """One engine. `create` takes an empty folder and returns the address of an empty store."""

    create: Callable[[Path], str]
    open: Callable[[str], Engine]
    dead_letters: Callable[[str], list[DeadLetter]]


def _open_sqlite(address: str) -> Engine:
    return SqliteEngine(Path(address), durability="off")


def _sqlite_dead_letters(address: str) -> list[DeadLetter]:
    with closing(sqlite3.connect(address)) as db:
        rows = db.execute("SELECT job_id, reason, status, snapshot FROM headrace_dead ORDER BY entered_at, job_id")
        return [
            DeadLetter(job_id, reason, status, msgspec.json.decode(snapshot))
            for job_id, reason, status, snapshot in rows.fetchall()
        ]


KINDS: dict[str, Kind] = {
    "sqlite": Kind(lambda folder: str(folder / "q.db"), _open_sqlite, _sqlite_dead_letters),
}


class Actor:
    """Another process at the same store; see `tests.conformance.actor`."""

    def __init__(self, kind: str, address: str, act: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.conformance.actor", kind, address, act, *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hear(self) -> Any:
        """The next thing it says; waits for it."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the actor ended with code {self.process.wait()} and said nothing"
        return msgspec.json.decode(line)

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """kill -9, and wait until the kernel has cleared up after it."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Child:
    """A forked process that runs one function, told when to go on and asked what it found."""

    def __init__(self, act: Callable[[Connection], object]) -> None:
        self.pipe, theirs = Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._live(act, theirs)
        theirs.close()

    @staticmethod
    def _live(act: Callable[[Connection], object], pipe: Connection) -> None:
        try:
            pipe.send(act(pipe))
        except BaseException:
            pipe.send(traceback.format_exc())
        finally:
            os._exit(0)  # nothing of the test runner may run twice

    def hear(self) -> object:
        assert self.pipe.poll(PATIENCE), "the child said nothing"
        return self.pipe.recv()

    def end(self) -> None:
        self.pipe.close()
        os.waitpid(self.pid, 0)


class StoreUnderTest:
    """One empty store, which any number of engines and processes may open."""

    def __init__(self, kind: str, folder: Path, at_end: ExitStack) -> None:
        self._kind = kind
        self._at_end = at_end
        self.folder = folder
        self.address = KINDS[kind].create(folder)

    def open(self) -> Engine:
        """One more engine on this store, with connections of its own."""
        engine = KINDS[self._kind].open(self.address)
        self._at_end.callback(engine.close)
        return engine

    def send(self, act: str, *arguments: object) -> Actor:
        """Start another process that does this act."""
        actor = Actor(self._kind, self.address, act, *arguments)
        self._at_end.callback(actor.close)
        return actor

    def dead_letters(self) -> list[DeadLetter]:
        return KINDS[self._kind].dead_letters(self.address)
