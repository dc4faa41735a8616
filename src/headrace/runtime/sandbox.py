"""Child processes for `isolation="process"`: a job in one can be killed at its timeout, or crash, and harms nobody.

A child imports the task's module, takes one job at a time over a pipe and answers with the outcome. It never touches
the store, and it ends when its pipe does, so a killed worker leaves none behind. Messages are one letter and JSON.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import multiprocessing
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.core.model import Claim, JobOptions, Note, Outcome
from headrace.errors import ConfigError, HeadraceError
from headrace.runtime.crew import Run
from headrace.runtime.plan import Plan, conclude
from headrace.runtime.sandbox_child import Errand, serve

log = logging.getLogger("headrace.sandbox")
_spawn = multiprocessing.get_context("spawn")
_outcome = msgspec.json.Decoder(Outcome)
_note = msgspec.json.Decoder(Note)


class SandboxCrashed(HeadraceError):
    """The process that ran the job ended on its own: a crash, an exit, or the system's memory killer."""


class Sandbox:
    """One child process."""

    def __init__(self) -> None:
        self._pipe, theirs = _spawn.Pipe()
        self._process = _spawn.Process(target=serve, args=(theirs,), name="headrace-sandbox")
        self._process.start()
        theirs.close()
        self.reason: str | None = None

    def perform(self, run: Run) -> Outcome:
        """Have the job run there. Its notes and renewals are passed on meanwhile."""
        self.reason = None
        run.abort = self.kill
        self._pipe.send_bytes(b"J" + msgspec.json.encode(_errand(run.plan, run.claim)))
        while True:
            message = self._pipe.recv_bytes()
            kind, body = message[:1], message[1:]
            if kind == b"O":
                return _outcome.decode(body)
            if kind == b"N":
                run.context.relay(_note.decode(body))
            elif kind == b"R":
                self._pipe.send_bytes(b"r" + (b"1" if run.context.still_held() else b"0"))
            elif kind == b"E":
                raise ConfigError(body.decode())

    def ask_to_stop(self, reason: str) -> None:
        with contextlib.suppress(OSError):
            self._pipe.send_bytes(b"C" + reason.encode())

    def kill(self, reason: str) -> None:
        self.reason = reason
        self._process.kill()

    def bury(self) -> int | None:
        """Wait for the dead child and return its exit code."""
        self._process.kill()
        self._process.join(5)
        self._pipe.close()
        return self._process.exitcode


def _errand(plan: Plan, claim: Claim) -> Errand:
    function: Any = plan.task.function
    retry = None if callable(plan.retry.backoff) else plan.retry.policy()
    options = JobOptions(
        timeout=None if plan.timeout is None else int(plan.timeout * 1000),
        keep_result=plan.keep_result,
        retry=retry or msgspec.UNSET,
    )
    stored = msgspec.structs.replace(claim, options=msgspec.json.encode(options).decode())
    return Errand(stored, function.__module__, function.__qualname__, plan.max_result, plan.timeout)


class Sandboxes:
    """The children of one worker; those that are idle wait for the next job."""

    def __init__(self) -> None:
        self._idle: list[Sandbox] = []
        self._all: set[Sandbox] = set()
        atexit.register(self.stop)

    def perform(self, run: Run, now: Callable[[], int]) -> Outcome:
        sandbox = self._take()
        try:
            outcome = sandbox.perform(run)
        except (EOFError, OSError):
            return self._crashed(sandbox, run, now)
        except ConfigError as error:
            self._idle.append(sandbox)
            return conclude(run.plan, run.claim, error, now)
        run.abort = None
        self._idle.append(sandbox)
        return outcome

    def stop(self) -> None:
        atexit.unregister(self.stop)
        for sandbox in list(self._all):
            sandbox.bury()
        self._all.clear()
        self._idle.clear()

    def _take(self) -> Sandbox:
        try:
            return self._idle.pop()
        except IndexError:
            sandbox = Sandbox()
            self._all.add(sandbox)
            return sandbox

    def _crashed(self, sandbox: Sandbox, run: Run, now: Callable[[], int]) -> Outcome:
        code = sandbox.bury()
        self._all.discard(sandbox)
        why = sandbox.reason or f"its process ended with {_exit_words(code)}"
        return conclude(run.plan, run.claim, SandboxCrashed(why), now)


def _exit_words(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
