"""Other processes at the same store: an actor, which knows nothing of ours, and a child, which was forked."""

from __future__ import annotations

import functools
import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing import Pipe, forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[2]


@functools.cache
def _starter(_: int) -> ForkServerContext:
    """What starts other processes fast: a server with all modules loaded, which forks. One for each test process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.actor"])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{ROOT / 'src'}{os.pathsep}{ROOT}"  # the server does not take over our sys.path
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return context


class Actor:
    """Another process at the same store; see `tests.support.actor`."""

    def __init__(self, kind: str, address: str, act: str, *arguments: object) -> None:
        from tests.support.actor import perform  # it opens engines, which know of actors

        starter = _starter(os.getpid())
        self._pipe, theirs = starter.Pipe()
        self.process = starter.Process(target=perform, args=(theirs, kind, address, act, *arguments), daemon=True)
        self.process.start()
        theirs.close()

    def hear(self) -> Any:
        """The next thing it says; waits for it."""
        assert self._pipe.poll(PATIENCE), "the actor said nothing"
        try:
            return self._pipe.recv()
        except EOFError:
            self.process.join()
            raise AssertionError(f"the actor ended with code {self.process.exitcode} and said nothing") from None

    def go(self) -> None:
        self._pipe.send("go")

    def kill(self) -> None:
        """kill -9, and wait until the kernel has cleared up after it."""
        self.process.kill()
        self.process.join()

    def close(self) -> None:
        self.kill()
        self._pipe.close()


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


def is_gone(pid: int) -> bool:
    """Whether a process has ended, its parent waiting for it or not."""
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
