"""Child processes for `isolation="process"`: a job in one can be killed at its timeout, or crash, and harms no other.

A child imports the task's module, takes one job at a time over a pipe and answers with the outcome. It never touches
the store. It exits when its pipe closes, so a killed worker leaves none behind. A message is a type byte and JSON.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import multiprocessing
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.core.jobs.records import JobNote, JobOptions, Lease, Outcome
from headrace.core.jobs.steps import Step
from headrace.errors import ConfigError, HeadraceError
from headrace.runtime.context.logs import config_for_child
from headrace.runtime.worker.attempt import Attempt
from headrace.runtime.worker.execution import outcome_of_error
from headrace.runtime.worker.runners.sandbox_child import SandboxTask, end_group, serve

log = logging.getLogger("headrace.sandbox")
_CHECK_EVERY = 1.0
_PATIENCE = 2.0  # seconds for idle sandboxes to close their values when the worker stops
_spawn = multiprocessing.get_context("spawn")
_outcome = msgspec.json.Decoder(Outcome)
_note = msgspec.json.Decoder(JobNote)
_options = msgspec.json.Decoder(JobOptions)
_step = msgspec.json.Decoder(tuple[Lease, Step])
_charge = msgspec.json.Decoder(tuple[Lease, str, dict[int, int]])


class SandboxCrashed(HeadraceError):
    """The process that ran the job ended by itself: a crash, an exit, or the OOM killer."""


class _EndedEarly(Exception):
    """The run was ended while its process was still starting."""


class Sandbox:
    """One child process."""

    def __init__(self) -> None:
        self._pipe, child_pipe = _spawn.Pipe()
        self._process = _spawn.Process(target=serve, args=(child_pipe, config_for_child()), name="headrace-sandbox")
        self._process.start()
        child_pipe.close()
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._run: Attempt | None = None
        self._to_interrupt: Attempt | None = None
        self.reason: str | None = None

    def perform(self, run: Attempt) -> Outcome:
        """Run the job in the child. It can be killed only until this returns."""
        with self._lock:
            self._run = run
        run.abort = functools.partial(self._kill_during, run)
        if run.plan.interrupt:
            run.interrupt = functools.partial(self._interrupt_during, run)
        try:
            if run.context.cancel_requested:
                raise _EndedEarly
            return self._exchange_messages(run)
        finally:
            with self._lock:
                self._run = self._to_interrupt = None

    def _exchange_messages(self, run: Attempt) -> Outcome:
        """Send the job, and forward its notes and renewals until its outcome arrives."""
        self._send(b"J" + msgspec.json.encode(_sandbox_task(run)))
        while True:
            # Not only at the pipe's end: a process that the job started may hold the pipe open after the job has died.
            while not self._pipe.poll(_CHECK_EVERY):
                if not self._process.is_alive():
                    raise EOFError
            message = self._pipe.recv_bytes()
            kind, body = message[:1], message[1:]
            if kind == b"O":
                outcome = _outcome.decode(body)
                if outcome.lease != run.claim.lease:
                    self.reason = f"it answered with the outcome of another job, {outcome.id}"
                    raise EOFError
                return run.plan.with_stored_result(run.claim, outcome)
            if kind == b"N":
                run.context.relay(_note.decode(body))
            elif kind == b"R":
                self._send(b"a" + (b"true" if run.context.still_held() else b"false"))
            elif kind in (b"S", b"K", b"B"):
                self._send(_answer(run, kind, body))
            elif kind == b"E":
                raise ConfigError(body.decode())

    def _send(self, message: bytes) -> None:
        with self._sending:
            self._pipe.send_bytes(message)
        self._send_interrupt()

    def _interrupt_during(self, run: Attempt) -> bool:
        """Ask the child to raise JobInterrupted in the job; False if it is over."""
        with self._lock:
            if self._run is not run:
                return False
            self._to_interrupt = run
            with contextlib.suppress(OSError):  # the child has died
                self._send_interrupt()
            return True

    def _send_interrupt(self) -> None:
        """Send the request that is due. If another thread sends a message now, it sends this one afterwards."""
        while (run := self._to_interrupt) is not None and self._sending.acquire(blocking=False):
            try:
                if self._to_interrupt is run:
                    self._to_interrupt = None
                    self._pipe.send_bytes(b"T" + msgspec.json.encode(run.claim.lease))
            finally:
                self._sending.release()

    def _kill_during(self, run: Attempt, reason: str) -> None:
        # A late kill would hit the next job of this process.
        with self._lock:
            if self._run is run:
                self.reason = reason
                self._kill()

    def _kill(self) -> None:
        self._process.kill()  # it may not have its own group yet
        if self._process.pid is not None:
            end_group(self._process.pid)

    @property
    def is_fit(self) -> bool:
        return self.reason is None and self._process.is_alive()

    def ask_to_end(self) -> None:
        """Ask the idle child to close its values and to exit."""
        with contextlib.suppress(OSError):
            self._pipe.send_bytes(b"Q")

    def ended(self, deadline: float) -> None:
        """Wait until the child has exited, or until the deadline."""
        self._process.join(max(deadline - time.monotonic(), 0))

    def reap(self) -> int | None:
        """End the child, wait for it and return its exit code. Safe to call twice."""
        with self._lock:  # two threads closing one pipe could close another file that reuses its number
            self._kill()
            self._process.join(5)
            if self._run is None:  # else the thread that listens there sees its end, and reaps it
                self._pipe.close()
            return self._process.exitcode


def _answer(run: Attempt, kind: bytes, body: bytes) -> bytes:
    """The answer to a job's request. Messages from a thread of an earlier job are ignored."""
    try:
        if kind == b"S":
            return b"a" + msgspec.json.encode(run.context.step_store.steps(run.claim))
        if kind == b"B":
            _, flow, runs = _charge.decode(body)
            return b"a" + msgspec.json.encode(run.context.step_store.charge(run.claim, flow, runs))
        lease, step = _step.decode(body)
        held = lease == run.lease and run.context.step_store.save_step(run.claim, step)
        return b"a" + msgspec.json.encode(held)
    except HeadraceError as error:
        return b"x" + str(error).encode()


def _sandbox_task(run: Attempt) -> SandboxTask:
    plan, claim = run.plan, run.claim
    function: Any = plan.task.function
    retry = None if callable(plan.retry.backoff) else plan.retry.policy()
    given = _options.decode(claim.options) if claim.options else JobOptions()
    options = JobOptions(
        timeout=None if plan.timeout is None else int(plan.timeout * 1000),
        keep_result=plan.keep_result,
        retry=retry or msgspec.UNSET,
        redact=(*given.redact, *(plan.task.options.redact or ())),  # the child masks secrets in its errors
        redact_args=given.redact_args,
        budget=given.budget,
        flow_budget=given.flow_budget,
    )
    run.load()
    # Decrypted: a child gets no keys, as its job could read them.
    loaded = plan.loaded(run.claim)
    stored = msgspec.structs.replace(loaded, options=msgspec.json.encode(options).decode())
    return SandboxTask(
        stored if run.trace is None else run.trace.handed_on(stored),
        function.__module__,
        function.__qualname__,
        plan.max_result,
        plan.timeout,
        run.context.step_store.now(),
        run.context.worker,
        plan.task.options.keep_logs is True,
        plan.task.options.interrupt,
        run.context.stream_limits,
    )


class Sandboxes:
    """The children of one worker; idle ones wait for the next job."""

    def __init__(self) -> None:
        self._idle: list[Sandbox] = []
        self._all: set[Sandbox] = set()
        self._lock = threading.Lock()
        self._stopped = False
        atexit.register(self.stop)

    def perform(self, run: Attempt, now: Callable[[], int]) -> Outcome:
        try:
            sandbox = self._take()
        except Exception as error:  # no memory or handles for another process, or none allowed here
            return outcome_of_error(run.plan, run.claim, error, now)
        try:
            outcome = sandbox.perform(run)
        except (EOFError, OSError):
            return self._crashed(sandbox, run, now)
        except Exception as error:  # the task can't be sent or loaded there; its job fails
            outcome = outcome_of_error(run.plan, run.claim, error, now)
        self._keep(sandbox)
        return outcome

    def stop(self) -> None:
        atexit.unregister(self.stop)
        with self._lock:
            self._stopped = True
            left, idle = list(self._all), list(self._idle)
            self._all.clear()
            self._idle.clear()
        for sandbox in idle:
            sandbox.ask_to_end()
        deadline = time.monotonic() + _PATIENCE
        for sandbox in idle:
            sandbox.ended(deadline)
        for sandbox in left:
            sandbox.reap()

    def _take(self) -> Sandbox:
        with contextlib.suppress(IndexError):
            while True:
                sandbox = self._idle.pop()
                if sandbox.is_fit:
                    return sandbox
                self._discard(sandbox)
        sandbox = Sandbox()
        with self._lock:
            if not self._stopped:
                self._all.add(sandbox)
                return sandbox
        sandbox.reap()  # otherwise this process would wait for it at exit, forever
        raise _EndedEarly

    def _keep(self, sandbox: Sandbox) -> None:
        with self._lock:
            if not self._stopped and sandbox.is_fit:
                self._idle.append(sandbox)
                return
        self._discard(sandbox)

    def _discard(self, sandbox: Sandbox) -> int | None:
        self._all.discard(sandbox)
        return sandbox.reap()

    def _crashed(self, sandbox: Sandbox, run: Attempt, now: Callable[[], int]) -> Outcome:
        code = self._discard(sandbox)
        why = sandbox.reason or f"its process ended with {_exit_text(code)}"
        return outcome_of_error(run.plan, run.claim, SandboxCrashed(why), now)


def _exit_text(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
