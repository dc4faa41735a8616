"""`current_job()`: a task's view of its own job while it runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from msgspec import structs

from headrace.core.clock import to_datetime
from headrace.core.codec import codec
from headrace.core.events.stream import StreamLimits
from headrace.core.jobs.budgets import budgets_of
from headrace.core.jobs.details import STREAM
from headrace.core.jobs.records import Claim, JobNote, Outcome
from headrace.core.queues.rates import check_units
from headrace.core.tasks.other_libraries import CONTEXT_ATTRIBUTES, unknown_attribute
from headrace.core.tasks.trace_context import correlation_of, decoded
from headrace.errors import BudgetExceeded, HeadraceError, InvalidJob, LeaseLost
from headrace.runtime.context.costs import CostReports
from headrace.runtime.context.durable_steps import DurableSteps
from headrace.runtime.context.log_line import LEVELS, log_line
from headrace.runtime.context.replaying import Replaying
from headrace.runtime.context.spawn import Spawning, check_part
from headrace.runtime.context.steps import StepStore
from headrace.runtime.context.stream import StreamWriter
from headrace.runtime.context.worker_link import WorkerLink
from headrace.runtime.jobs.async_twin import in_thread
from headrace.runtime.jobs.call_tree import CallTree
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.task import Call

P = ParamSpec("P")
R = TypeVar("R")
_LOOK_EVERY = 0.5  # seconds after which a stream that waits for room looks whether its run is over
_making = threading.Lock()


class JobContext(DurableSteps):
    """The running job: its identity, its reports, and requests to stop."""

    __slots__ = ("_costs", "_deadline_ms", "_is_over_time", "_spawning", "_stream_writer", "_units", "exceeded")

    def __init__(
        self,
        claim: Claim,
        deadline_ms: int | None,
        link: WorkerLink,
        in_batch: bool = False,
        replaying: Replaying | None = None,
    ) -> None:
        super().__init__(claim, link, in_batch, replaying)
        self._deadline_ms = deadline_ms
        self._is_over_time = False
        self._spawning: Spawning | None = None
        self._stream_writer: StreamWriter | None = None
        self._units: int | None = None
        self._costs: CostReports | None = None
        self.exceeded: BudgetExceeded | None = None  # of a job of a batch, until its call ends

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
        return to_datetime(self._deadline_ms)

    @property
    def cancel_requested(self) -> bool:
        """Whether to stop: the job was cancelled or timed out, its lease is lost, or the worker shuts down."""
        return self._is_over_time or self._stop_reason is not None

    @property
    def cancel_reason(self) -> str | None:
        return self._stop_reason or ("timed out" if self._is_over_time else None)

    def progress(self, value: float | Mapping[str, Any]) -> None:
        """Report progress: a share from 0 to 1, or a dict of your own."""
        if isinstance(value, bool) or not isinstance(value, int | float | Mapping):
            raise InvalidJob(f"progress: expected a number from 0 to 1 or a dict, got {value!r}", value=value)
        if isinstance(value, int | float) and not 0 <= value <= 1:
            raise InvalidJob(f"progress: {value!r} is not a share from 0 to 1", value=value)
        text = codec.encode(dict(value) if isinstance(value, Mapping) else value)
        self._link.note(JobNote(self.id, self._claim.version, self._link.now(), progress=text))

    def report_cost(self, units: int) -> None:
        """Report the units that this run uses in all: when it ends, rates give back or charge the rest of its cost.

        With a budget, of the job or of its flow, the report is stored at once; BudgetExceeded if that has no more left.
        In a batch, the job fails with it when the call has ended, and the others go on.
        """
        self._units = check_units("units", units, 0)
        if (budgets := budgets_of(self._claim.options)) is None or self._replaying is not None:
            return
        with _making:
            if self._costs is None:
                self._costs = CostReports(self._claim, self._link, budgets)
        try:
            self._costs.report(units, self._link.now())
        except BudgetExceeded as error:
            if not self._in_batch:
                raise
            self.exceeded = error

    async def areport_cost(self, units: int) -> None:
        """Like report_cost(), without blocking the event loop."""
        await in_thread(self.report_cost, units)

    def log(self, message: str, level: str = "info", **fields: Any) -> None:
        """Add a line to the job's own log."""
        if level not in LEVELS:
            raise InvalidJob(f"log level: expected one of {', '.join(LEVELS)}, got {level!r}", value=level)
        self.add_line(level, message, codec.encode(fields) if fields else None)

    def add_line(self, level: str, message: str, fields: str | None) -> None:
        """For the worker: add a line whose level is checked and whose fields are encoded."""
        self._link.note(log_line(self._claim, self._link.now(), level, message, fields))

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

    @property
    def claim(self) -> Claim:
        """For the worker."""
        return self._claim

    @claim.setter
    def claim(self, loaded: Claim) -> None:
        self._claim = loaded

    @property
    def step_store(self) -> StepStore:
        """For the worker: the store of the job's steps, for its sandbox."""
        return self._link

    @property
    def stream_limits(self) -> StreamLimits:
        """For the worker: the limits of the job's stream, for its sandbox."""
        return self._link.stream_limits

    @overload
    def spawn(self, call: Call[R], *, at_once: bool = False, inherit: bool = False) -> Job[R]: ...
    @overload
    def spawn(self, call: CallTree, *, at_once: bool = False, inherit: bool = False) -> list[Job[Any]]: ...
    def spawn(self, call: Call[Any] | CallTree, *, at_once: bool = False, inherit: bool = False) -> Any:
        """Enqueue another job that this one waits for before it completes; returns its handle.

        The store inserts it together with this job's success, or not at all. With `at_once` it is inserted now, and a
        later attempt that spawns in the same order finds it. If it does not complete, this job is cancelled, unless the
        call says `using(on_parent_failure="run")`, or "hold". With `inherit` it has the priority, tags, concurrency key
        and rate key of this job, unless its task or the call has its own. Of a chain or a group, all jobs are enqueued
        and returned.
        """
        if self._replaying is not None:
            check_part(call)
            what = f"a job of {call.task.name!r}" if isinstance(call, Call) else "a chain or a group"
            self._replaying.end(f"it spawns {what}, and a replay stores nothing")
        with _making:  # two threads of a job must share one
            if self._spawning is None:
                self._spawning = Spawning(self._claim)
        return self._spawning.spawn(call, self._link.now(), at_once, inherit)

    @overload
    async def aspawn(self, call: Call[R], *, at_once: bool = False, inherit: bool = False) -> Job[R]: ...
    @overload
    async def aspawn(self, call: CallTree, *, at_once: bool = False, inherit: bool = False) -> list[Job[Any]]: ...
    async def aspawn(self, call: Call[Any] | CallTree, *, at_once: bool = False, inherit: bool = False) -> Any:
        """Like spawn(), without blocking the event loop."""
        return await in_thread(self.spawn, call, at_once=at_once, inherit=inherit)

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

    def note_timeout(self) -> None:
        """For the worker: the task is interrupted at its timeout, and may report until it has ended."""
        self._is_over_time = True

    def add_stop_reason(self, reason: str) -> None:
        """For the worker: request that the task stops."""
        self._stop_reason = self._stop_reason or reason

    if not TYPE_CHECKING:
        __getattr__ = unknown_attribute("current_job()", CONTEXT_ATTRIBUTES)

    def __repr__(self) -> str:
        return f"<JobContext {self.id} {self.task} attempt {self.attempt}>"


current: ContextVar[JobContext] = ContextVar("headrace_job")
current_batch: ContextVar[tuple[JobContext, ...]] = ContextVar("headrace_batch", default=())


def current_job() -> JobContext:
    """The job that runs here. Raises outside of a job, so that a missing worker does not go unnoticed."""
    try:
        return current.get()
    except LookupError:
        if jobs := current_batch.get():
            text = f"current_job() was called in a batch of {len(jobs)}; current_jobs() has each of its jobs"
            raise HeadraceError(text) from None
        raise HeadraceError("current_job() was called outside of a running job") from None


def current_jobs() -> list[JobContext]:
    """The jobs that run here: those of a batch in the order of their arguments, or the only one."""
    return list(current_batch.get()) or [current_job()]
