"""`current_job()`: a task's view of its own job while it runs."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

from msgspec import structs

from headrace.core.clock import to_datetime
from headrace.core.codec import codec
from headrace.core.events.stream import StreamLimits
from headrace.core.jobs.details import STREAM
from headrace.core.jobs.records import Claim, JobNote, Outcome
from headrace.core.queues.rates import check_units
from headrace.core.tasks.other_libraries import CONTEXT_ATTRIBUTES, unknown_attribute
from headrace.core.tasks.trace_context import correlation_of, decoded
from headrace.core.text import storable
from headrace.errors import HeadraceError, InvalidJob, LeaseLost
from headrace.runtime.context.questions import answer_of, question_of
from headrace.runtime.context.spawn import Spawning, check_call
from headrace.runtime.context.steps import StepLog, StepStore, refuse_awaitable, refuse_coroutines, result_of
from headrace.runtime.context.stream import StreamLink, StreamWriter
from headrace.runtime.jobs.async_twin import in_thread
from headrace.runtime.jobs.flow_run import FlowRun
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.task import Call

P = ParamSpec("P")
R = TypeVar("R")
_LOOK_EVERY = 0.5  # seconds after which a stream that waits for room looks whether its run is over
LEVELS = ("debug", "info", "warning", "error")
_making = threading.Lock()


class WorkerLink(StepStore, StreamLink, Protocol):
    """How a context reaches its worker."""

    @property
    def worker(self) -> str: ...
    def renew(self, claim: Claim) -> bool:
        """Renew this one lease now; False if it is lost."""
        ...


class JobContext:
    """The running job: its identity, its reports, and requests to stop."""

    __slots__ = ("_claim", "_deadline", "_link", "_spawning", "_step_log", "_stop_reason", "_stream_writer", "_units")

    def __init__(self, claim: Claim, deadline_ms: int | None, link: WorkerLink) -> None:
        self._claim = claim
        self._deadline = deadline_ms
        self._link = link
        self._step_log: StepLog | None = None
        self._stop_reason: str | None = None
        self._spawning: Spawning | None = None
        self._stream_writer: StreamWriter | None = None
        self._units: int | None = None

    @property
    def id(self) -> str:
        return self._claim.id

    @property
    def task(self) -> str:
        return self._claim.task

    @property
    def queue(self) -> str:
        return self._claim.queue

    @property
    def attempt(self) -> int:
        """The number of this run, from 1."""
        return self._claim.attempt

    @property
    def lease_version(self) -> int:
        """The version of this attempt's lease; a later holder has a higher one. Use it as a fencing token."""
        return self._claim.version

    @property
    def metadata(self) -> Mapping[str, Any]:
        return decoded(self._claim.metadata)

    @property
    def correlation_id(self) -> str:
        """The id that links this job to everything with the same cause; jobs enqueued here inherit it."""
        return correlation_of(self._claim.metadata, self._claim.id)

    @property
    def worker(self) -> str:
        """The id of the worker that runs it."""
        return self._link.worker

    @property
    def deadline(self) -> datetime | None:
        """When this attempt times out; None without a timeout."""
        return to_datetime(self._deadline)

    @property
    def cancel_requested(self) -> bool:
        """Whether to stop: the job was cancelled or timed out, its lease is lost, or the worker shuts down."""
        return self._stop_reason is not None

    @property
    def cancel_reason(self) -> str | None:
        return self._stop_reason

    def progress(self, value: float | Mapping[str, Any]) -> None:
        """Report progress: a share from 0 to 1, or a dict of your own."""
        if isinstance(value, bool) or not isinstance(value, int | float | Mapping):
            raise InvalidJob(f"progress: expected a number from 0 to 1 or a dict, got {value!r}")
        if isinstance(value, int | float) and not 0 <= value <= 1:
            raise InvalidJob(f"progress: {value!r} is not a share from 0 to 1")
        text = codec.encode(dict(value) if isinstance(value, Mapping) else value)
        self._link.note(JobNote(self.id, self._claim.version, self._link.now(), progress=text))

    def report_cost(self, units: int) -> None:
        """Report the units that this run uses in all: when it ends, rates give back or charge the rest of its cost."""
        self._units = check_units("units", units, 0)

    def log(self, message: str, level: str = "info", **fields: Any) -> None:
        """Add a line to the job's own log."""
        if level not in LEVELS:
            raise InvalidJob(f"log level: expected one of {', '.join(LEVELS)}, got {level!r}")
        self.add_line(level, message, codec.encode(fields) if fields else None)

    def add_line(self, level: str, message: str, fields: str | None) -> None:
        """For the worker: add a line whose level is checked and whose fields are encoded."""
        now, text = self._link.now(), storable(message)
        self._link.note(JobNote(self.id, self._claim.version, now, level=level, message=text, fields=fields))

    def stream(self, chunk: Any) -> None:
        """Append a chunk, a text or plain data, to the job's stream, which Job.stream() reads while the job runs.

        The worker stores the chunks of a job a few times a second. If it has too many that are not stored, this waits.
        """
        self._stream().write(chunk)
        self._await_stream_room()

    async def astream(self, chunk: Any) -> None:
        """Like stream(), in a coroutine."""
        writer = self._stream()
        writer.write(chunk)
        if not writer.has_room():
            await in_thread(self._await_stream_room)

    def _stream(self) -> StreamWriter:
        self._refuse_if_stopped()
        with _making:
            if self._stream_writer is None:
                self._stream_writer = StreamWriter(self._claim, self._link)
            return self._stream_writer

    def _await_stream_room(self) -> None:
        while not self._link.has_stream_room(self._claim.lease, _LOOK_EVERY):
            self._refuse_if_stopped()

    def heartbeat(self) -> None:
        """Renew the lease now instead of at the next heartbeat; LeaseLost if it is no longer ours."""
        if not self.still_held():
            raise LeaseLost(
                f"job {self.id}: {self._stop_reason or 'the lease is lost'}; stop working on it", job_id=self.id
            )

    async def aheartbeat(self) -> None:
        """Like heartbeat(), without blocking the event loop."""
        await in_thread(self.heartbeat)

    # -- kept over all runs of the job

    def compensate(self, name: str, call: Call[Any]) -> None:
        """Undo the step of this name with this call if the job fails for good, is cancelled, expires or is deleted.

        Compensations run as jobs of their own, one after the other, the last registered first.
        """
        check_call("compensate", call)
        submit = partial(call.task.submits.children.submit_compensation, call, self.id, name, self._link.now())
        self._step_store().compensate(name, lambda later_than: submit(later_than).id)

    async def acompensate(self, name: str, call: Call[Any]) -> None:
        """Like compensate(), without blocking the event loop."""
        await in_thread(self.compensate, name, call)

    def step(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function and store its result; later runs of this job return the result without calling it.

        A step that was interrupted or raised is not stored and runs again. The result must be storable, like a task's.
        A name stands for one step of the job.
        """
        refuse_coroutines(name, function)
        step_log = self._step_store()
        if (known := step_log.begin(name)) is not None:
            value: R = result_of(known, function)
            return value
        try:
            value = function(*args, **kwargs)
            if not isinstance(value, Job | FlowRun):  # awaitable too, but a valid result
                refuse_awaitable(name, value)
        except BaseException:
            step_log.undo(name)
            raise
        finished: R = step_log.finish(name, function, value)
        return finished

    def step_in(self, connection: Any, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Like step(), with its result stored in the open transaction of your connection.

        What the function writes on it and the step are committed together, by you, or not at all. The connection is to
        the database of the jobs, as for `using(connection=...)`. LeaseLost if the job is another worker's by then.
        """
        refuse_coroutines(name, function)
        step_log = self._step_store()
        if (known := step_log.begin_in(connection, name)) is not None:
            value: R = result_of(known, function)
            return value
        try:
            value = function(*args, **kwargs)
            refuse_awaitable(name, value)
            finished: R = step_log.finish_in(connection, name, function, value)
        except BaseException:
            step_log.undo(name)
            raise
        return finished

    async def astep_in(
        self, connection: Any, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """Like step_in(), for a coroutine function and a connection of either kind."""
        step_log = self._step_store()
        if (known := await step_log.abegin_in(connection, name)) is not None:
            return result_of(known, function)
        try:
            value = function(*args, **kwargs)
            if inspect.isawaitable(value):
                value = await value
            return await step_log.afinish_in(connection, name, function, value)
        except BaseException:
            step_log.undo(name)
            raise

    @overload
    async def astep(
        self, name: str, function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    async def astep(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def astep(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Like step(), for a coroutine function, or for a plain function, which runs in a thread."""
        step_log = self._step_store()
        if (known := await in_thread(step_log.begin, name)) is not None:
            return result_of(known, function)
        try:
            plain = not inspect.iscoroutinefunction(function)
            value = await in_thread(function, *args, **kwargs) if plain else function(*args, **kwargs)
            # A handle is awaitable too; awaiting it here would hold this slot for as long as its job takes.
            if inspect.isawaitable(value) and not isinstance(value, Job | FlowRun):
                value = await value
        except BaseException:
            step_log.undo(name)
            raise
        return await in_thread(step_log.finish, name, function, value)

    def sleep(self, seconds: float | timedelta, name: str | None = None) -> None:
        """Suspend the job and free its slot; after this time, the worker calls the task again.

        The time counts from the first run that came here. Without a name, it is the first, second, … sleep of a run.
        """
        self._step_store().sleep(seconds, name)

    async def asleep(self, seconds: float | timedelta, name: str | None = None) -> None:
        """Like sleep(), in a coroutine."""
        await in_thread(self._step_store().sleep, seconds, name)

    def wait_event(
        self,
        name: str,
        timeout: float | timedelta | None = None,
        *,
        ask: str | None = None,
        answer: Any = bool,
        to: str | None = None,
        remind: float | timedelta | None = None,
    ) -> Any:
        """The data of the next event that `app.signal(job, name, data)` sends; the job is suspended meanwhile.

        The first wait of a run for a name gets the first event, the second one the second, whenever they came.
        TimeoutError if none has come in `timeout` seconds from the first run that came here.

        With `ask`, it is a question to people: `app.questions()`, the dashboard, REST and the command line list it with
        a form for the type `answer`, and return an answer of that type. `to` names who should answer. After each
        `remind` seconds without an answer, the job logs a warning.
        """
        question = question_of(ask, answer, to, remind)
        found = self._step_store().wait_event(name, timeout, question, lambda: self._remind(name, ask))
        return found if question is None else answer_of(name, answer, found)

    async def await_event(
        self,
        name: str,
        timeout: float | timedelta | None = None,
        *,
        ask: str | None = None,
        answer: Any = bool,
        to: str | None = None,
        remind: float | timedelta | None = None,
    ) -> Any:
        """Like wait_event(), in a coroutine."""
        return await in_thread(self.wait_event, name, timeout, ask=ask, answer=answer, to=to, remind=remind)

    def _remind(self, name: str, text: str | None) -> None:
        self.log(f"still waits for an answer: {text}", "warning", event=name)

    def _refuse_if_stopped(self) -> None:
        if self._stop_reason is not None:
            raise LeaseLost(f"job {self.id}: {self._stop_reason}; stop working on it", job_id=self.id)

    def _step_store(self) -> StepLog:
        self._refuse_if_stopped()
        with _making:
            if self._step_log is None:
                self._step_log = StepLog(self._claim, self._link)
            return self._step_log

    @property
    def claim(self) -> Claim:
        """For the worker."""
        return self._claim

    @property
    def step_store(self) -> StepStore:
        """For the worker: the store of the job's steps, for its sandbox."""
        return self._link

    @property
    def stream_limits(self) -> StreamLimits:
        """For the worker: the limits of the job's stream, for its sandbox."""
        return self._link.stream_limits

    def spawn(self, call: Call[R], *, at_once: bool = False) -> Job[R]:
        """Enqueue another job that this one waits for before it completes; returns its handle.

        The store inserts it together with this job's success, or not at all. With `at_once` it is inserted now, and a
        later attempt that spawns in the same order finds it. If it does not complete, this job is cancelled, unless the
        call says `using(on_parent_failure="run")`, or "hold".
        """
        with _making:  # two threads of a job must share one
            if self._spawning is None:
                self._spawning = Spawning(self._claim)
        return self._spawning.spawn(call, self._link.now(), at_once)

    async def aspawn(self, call: Call[R], *, at_once: bool = False) -> Job[R]:
        """Like spawn(), without blocking the event loop."""
        return await in_thread(self.spawn, call, at_once=at_once)

    def enclosed(self, outcome: Outcome) -> Outcome:
        """For the worker: the outcome with the spawned jobs and the reported units."""
        outcome = outcome if self._units is None else structs.replace(outcome, units=self._units)
        return outcome if self._spawning is None else self._spawning.enclosed(outcome)

    def relay(self, note: JobNote) -> None:
        """For the worker: pass on a note of the job's sandbox, which waits for this if its stream is too fast."""
        self._link.note(note)
        while note.level == STREAM and self._stop_reason is None:
            if self._link.has_stream_room(note.lease, _LOOK_EVERY):
                return

    def still_held(self) -> bool:
        """For the worker: renew the lease for the job's sandbox."""
        return self._stop_reason is None and self._link.renew(self._claim)

    def add_stop_reason(self, reason: str) -> None:
        """For the worker: request that the task stops."""
        self._stop_reason = self._stop_reason or reason

    if not TYPE_CHECKING:
        __getattr__ = unknown_attribute("current_job()", CONTEXT_ATTRIBUTES)

    def __repr__(self) -> str:
        return f"<JobContext {self.id} {self.task} attempt {self.attempt}>"


current: ContextVar[JobContext] = ContextVar("headrace_job")


def current_job() -> JobContext:
    """The job that runs here. Raises outside of a job, so that a missing worker does not go unnoticed."""
    try:
        return current.get()
    except LookupError:
        raise HeadraceError("current_job() was called outside of a running job") from None
