"""The main loop of a sandbox process: it takes jobs from its pipe, runs them, and answers with outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import importlib
import os
import queue
import signal
import threading
from collections.abc import Callable, Coroutine, Mapping
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from headrace.core.clock import SystemClock
from headrace.core.codec.secret_names import WORDS
from headrace.core.events.stream import StreamLimits
from headrace.core.jobs.budgets import Spending
from headrace.core.jobs.records import Claim, JobNote, Lease, Outcome
from headrace.core.jobs.steps import Step
from headrace.core.tasks.options import Options
from headrace.core.tasks.retry import Retry
from headrace.engines.shared.shield import shielded
from headrace.errors import ConfigError, EngineUnavailable, InvalidJob
from headrace.runtime.context.current_job import JobContext, current
from headrace.runtime.context.joined_steps import JoinedSteps
from headrace.runtime.context.logs import configure_child
from headrace.runtime.jobs.hooks import Hooks
from headrace.runtime.jobs.task import Task
from headrace.runtime.worker.execution import RunSpec, RunSpecs, run_inline
from headrace.runtime.worker.runners.interruption import (
    CoroutineInterruption,
    SignalInterruption,
    receive_interruptions,
)
from headrace.runtime.worker.worker_scope import WorkerScope

_clock = SystemClock()


class SandboxTask(msgspec.Struct, frozen=True):
    """One job: its claim, where to find its function, the worker's time and the worker's id."""

    claim: Claim
    module: str
    qualname: str
    max_result: int
    timeout: float | None
    now: int
    worker: str
    keep_logs: bool = False
    interrupt: int | msgspec.UnsetType = msgspec.UNSET
    stream_limits: StreamLimits = StreamLimits()


class _Parent:
    """The pipe to the worker; also the WorkerLink of a job's context."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._sending = threading.Lock()
        self.deliveries: queue.SimpleQueue[SandboxTask | None] = queue.SimpleQueue()  # None: the worker stops
        self._requesting = threading.Lock()
        self._answers: queue.SimpleQueue[tuple[bytes, bytes]] = queue.SimpleQueue()
        self._clock_offset = 0
        self.largest = 0
        self.stream_limits = StreamLimits()
        self.worker = ""
        self.interruption: tuple[Lease, Callable[[], bool]] | None = None  # of the job that runs
        self.over_time: Lease | None = None  # of the job that was to be interrupted last

    def listen(self) -> None:
        """Read the worker's messages. Exit when the worker is gone."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                message = self._pipe.recv_bytes()
                kind, body = message[:1], message[1:]
                if kind == b"J":
                    self.deliveries.put(msgspec.json.decode(body, type=SandboxTask))
                elif kind == b"Q":
                    self.deliveries.put(None)
                elif kind == b"T":
                    self._interrupt(msgspec.json.decode(body, type=Lease))
                else:
                    self._answers.put((kind, body))
        end_group(os.getpid())
        os._exit(1)

    def _interrupt(self, lease: Lease) -> None:
        self.over_time = lease
        if self.interruption is not None and self.interruption[0] == lease:
            self.interruption[1]()

    def interruptible(self, lease: Lease, interrupt: Callable[[], bool]) -> None:
        """The job of this lease runs now, and is interrupted by this call."""
        self.interruption = (lease, interrupt)
        if self.over_time == lease:  # since before the line above
            interrupt()

    @shielded
    def send(self, kind: bytes, body: bytes = b"") -> None:
        with self._sending:
            self._pipe.send_bytes(kind + body)

    @shielded
    def request(self, kind: bytes, body: bytes = b"") -> bytes:
        """Send a request and wait for its answer; threads of the job do so one after the other."""
        with self._requesting:
            self.send(kind, body)
            reply_kind, answer = self._answers.get()
        if reply_kind == b"x":
            raise EngineUnavailable(answer.decode())
        return answer

    def prepare(self, delivery: SandboxTask) -> None:
        """Use the worker's clock, which is the store's: a sleep that is over there must be over here."""
        self._clock_offset = delivery.now - _clock.now()
        self.largest = delivery.max_result
        self.stream_limits = delivery.stream_limits
        self.worker = delivery.worker

    def now(self) -> int:
        return _clock.now() + self._clock_offset

    def note(self, note: JobNote) -> None:
        self.send(b"N", msgspec.json.encode(note))

    def has_stream_room(self, lease: Lease, wait: float) -> bool:
        return True  # a full pipe blocks note(): the worker reads on when it has stored enough

    def renew(self, claim: Claim) -> bool:
        return self.request(b"R") == b"true"

    def steps(self, claim: Claim) -> list[Step]:
        return msgspec.json.decode(self.request(b"S"), type=list[Step])

    def save_step(self, claim: Claim, step: Step) -> bool:
        return self.request(b"K", msgspec.json.encode((claim.lease, step))) == b"true"

    def charge(self, claim: Claim, flow: str, runs: Mapping[int, int]) -> Spending | None:
        body = msgspec.json.encode((claim.lease, flow, runs))
        return msgspec.json.decode(self.request(b"B", body), type=Spending | None)

    @property
    def joined(self) -> JoinedSteps:
        raise InvalidJob("step_in: a task with isolation='process' can't reach the store; use step()")


def end_group(leader: int) -> None:
    """Kill this sandbox and all processes its jobs have started, except those that left its process group."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def serve(pipe: Connection, logs: bytes = b"") -> None:
    """The child's main function: run jobs until the pipe closes."""
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
        os.register_at_fork(after_in_child=pipe.close)  # processes that a job forks must not talk to the worker
    pid = os.getpid()
    # Ctrl-C reaches the whole group; the worker decides what to do with the job.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    receive_interruptions()
    parent = _Parent(pipe)
    threading.Thread(target=parent.listen, daemon=True).start()
    while (delivery := parent.deliveries.get()) is not None:
        try:
            task = _find(delivery)
        except Exception as error:  # report whatever the import of user code raises
            parent.send(b"E", f"the sandbox can't load the task: {type(error).__name__}: {error}".encode())
            continue
        configure_child(logs)  # after the user's code, which may set up logging itself
        tracer = task.submits.tracer
        with contextlib.nullcontext() if tracer is None else tracer.inside(delivery.claim):
            outcome = _run(delivery, task, parent)
        if os.getpid() != pid:  # the job forked, and this is the copy
            os._exit(0)
        parent.send(b"O", msgspec.json.encode(outcome))
        if tracer is not None:
            tracer.flush()
    for scope in _scopes.values():
        scope.close()
    end_group(pid)
    os._exit(0)


def _run(delivery: SandboxTask, task: Task[..., Any, Any], parent: _Parent) -> Outcome:
    parent.prepare(delivery)
    hooks = task.submits.hooks
    # Its values live as long as the sandbox.
    scope = _scopes.setdefault(hooks, WorkerScope(hooks, _run_on_loop))
    limits = (delivery.timeout, delivery.max_result)
    function = scope.function_of(task)
    plan = RunSpecs(lambda name: task, *limits, function_of=lambda task: function).plan(delivery.claim)
    assert plan is not None
    deadline = None if delivery.timeout is None else parent.now() + int(delivery.timeout * 1000)
    context = JobContext(delivery.claim, deadline, parent)
    token = current.set(context)
    try:
        if task.is_async:
            cancellation = CoroutineInterruption()
            call = _blocking(plan, cancellation, is_hooked=function is not task.function)
            parent.interruptible(delivery.claim.lease, _noting(context, cancellation.interrupt))
            return context.enclosed(run_inline(plan, delivery.claim, call, parent.now))
        interruption = SignalInterruption()
        with interruption.installed():
            parent.interruptible(delivery.claim.lease, _noting(context, interruption.interrupt))
            return context.enclosed(run_inline(plan, delivery.claim, plan.function, parent.now))
    finally:
        parent.interruption = None
        current.reset(token)


def _noting(context: JobContext, interrupt: Callable[[], bool]) -> Callable[[], bool]:
    def call() -> bool:
        context.note_timeout()
        return interrupt()

    return call


def _blocking(plan: RunSpec, cancellation: CoroutineInterruption, *, is_hooked: bool) -> Any:
    # The values that hooks made stay on their event loop; other tasks get a loop of their own each time.
    run = _run_on_loop if is_hooked else asyncio.run
    return lambda *args, **kwargs: run(cancellation.run(plan.function(*args, **kwargs)))


_scopes: dict[Hooks, WorkerScope] = {}


@functools.cache
def _runner() -> asyncio.Runner:
    return asyncio.Runner()


def _run_on_loop(coroutine: Coroutine[Any, Any, Any], context: contextvars.Context | None = None) -> Any:
    """Run it on the loop of this process, in the context of the current job unless another is given."""
    return _runner().run(coroutine, context=context or contextvars.copy_context())


def _find(delivery: SandboxTask) -> Task[..., Any, Any]:
    name, module, qualname = delivery.claim.task, delivery.module, delivery.qualname
    if "<locals>" in qualname:
        raise ConfigError(f"task {name!r} is defined inside a function; isolation='process' needs a module-level one")
    found: Any = functools.reduce(getattr, qualname.split("."), importlib.import_module(module))
    found = getattr(found, "headrace_task", found)  # the task behind that of another API, such as contrib.celery's
    return (
        found
        if isinstance(found, Task)
        else Task(found, name, Options(keep_logs=delivery.keep_logs, interrupt=delivery.interrupt), _NoApp())
    )


class _NoApp:
    """A plain function has no app to submit to."""

    tracer = None
    hooks = Hooks()
    words = WORDS
    encrypts = False
    retry = Retry()

    def submit(self, call: Any) -> Any:
        raise ConfigError("this function is not a task of an app")

    def mapped(self, task: Any, items: Any, at_most: int | None) -> Any:
        self.submit(task)

    async def asubmit(self, call: Any) -> Any:
        self.submit(call)

    @property
    def children(self) -> Any:
        self.submit(None)
