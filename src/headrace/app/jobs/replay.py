"""Runs a stored job here and now, as a developer wants to see it again. It claims nothing and stores nothing.

What earlier runs have recorded is read once, at its beginning: results of steps, ends of sleeps, events, answers and
patches.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
from bdb import BdbQuit
from collections.abc import Callable, Coroutine, Mapping
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from msgspec.structs import replace

from headrace.app.services import archived_jobs
from headrace.app.services.services import Services
from headrace.core.clock import to_datetime
from headrace.core.codec import codec
from headrace.core.events.stream import StreamLimits
from headrace.core.jobs.budgets import Spending
from headrace.core.jobs.compensations import KIND as COMPENSATION
from headrace.core.jobs.details import STREAM
from headrace.core.jobs.records import Claim, JobNote, JobRow, Lease
from headrace.core.jobs.steps import Step, suspension_in
from headrace.errors import HeadraceError, InvalidJob, ReplayStopped, UnknownTask
from headrace.runtime.context.current_job import JobContext, current, current_batch
from headrace.runtime.context.joined_steps import JoinedSteps
from headrace.runtime.context.replaying import ReplayEnd, Replaying
from headrace.runtime.jobs.encryption import decrypted_steps, loaded_claim
from headrace.runtime.jobs.job import ARCHIVED, SPOOLED, Job
from headrace.runtime.jobs.services import LogEntry
from headrace.runtime.payloads.payloads import limit_of
from headrace.runtime.worker.batch_call import BatchCall
from headrace.runtime.worker.claims import ClaimPlanner, Refusal
from headrace.runtime.worker.execution import RunSpec, RunSpecs
from headrace.runtime.worker.worker_scope import WorkerScope

log = logging.getLogger("headrace.replay")
WORKER = "headrace.replay"
_ONLY_RECORDED = "it would run without recorded_only (--recorded-only)"
_SAME = tuple(name for name in Claim.__struct_fields__ if name not in ("ref", "attempt"))  # as in the row
_BETWEEN = frozenset({"headrace", "asyncio", "concurrent", "threading"})  # packages between a caller and a task


def replay_of(
    services: Services,
    job: Job[Any],
    *,
    debugger: bool = False,
    recorded_only: bool = False,
    on_line: Callable[[LogEntry], object] | None = None,
    on_error: Callable[[str], object] = lambda text: None,
) -> Replay:
    """The replay of this job, before it runs.

    `on_line` gets each line that the job logs, `on_error` the traceback of the task with the job's secrets masked.
    """
    if debugger and not (sys.stdin is not None and sys.stdin.isatty()):
        raise InvalidJob("debugger: stdin is not a terminal, and pdb needs one; run this in a terminal", value=True)
    row = services.row(job.id, light=False)
    claim, plan = _planned(services, row)
    replaying = Replaying(_ONLY_RECORDED if recorded_only else None)
    outside = Outside(on_line or _logging(job), on_error, debugger)
    return Replay(services, claim, plan, _steps(services, row), replaying, outside)


def _planned(services: Services, row: JobRow) -> tuple[Claim, RunSpec]:
    """What a worker would run."""
    settings = services.settings
    limit = limit_of(services.payloads, settings)
    run_specs = RunSpecs(services.task, settings.timeout, limit, services.payloads)
    [planned] = ClaimPlanner(services.engine, run_specs).planned([_claim(row)])
    if planned is None:
        raise UnknownTask(
            f"job {row.id} is for task {row.task!r}, which this app does not know; "
            "name the app that registers it, or import its module there"
        )
    if isinstance(planned, Refusal):
        raise planned.error
    claim, plan = planned
    return loaded_claim(services.payloads, claim), plan


def _claim(row: JobRow) -> Claim:
    """The claim of the job's last attempt, or of its first one if it has not run. No store has made it."""
    same: dict[str, Any] = {name: getattr(row, name) for name in _SAME}
    return Claim(**same, ref=0, attempt=max(row.attempt, 1))


def _steps(services: Services, row: JobRow) -> list[Step]:
    """The recorded steps. One that was undone counts: a replay shows what was. The last of several results does."""
    steps = decrypted_steps(services.cipher, row.id, _stored_steps(services, row))
    last = {step.name: step for step in sorted(steps, key=lambda step: step.number) if step.kind == "step"}
    others = [step for step in steps if step.kind not in ("step", COMPENSATION)]
    return [*others, *(replace(step, number=1) for step in last.values())]


def _stored_steps(services: Services, row: JobRow) -> list[Step]:
    if row.seq == SPOOLED:
        return []
    if row.seq == ARCHIVED:
        archived = archived_jobs.archived_job(services.archive, row.id, row.created_at)
        return [] if archived is None else archived.steps
    return services.engine.queries.details(row.id, history=False, logs=0).steps


def _logging(job: Job[Any]) -> Callable[[LogEntry], object]:
    def show(line: LogEntry) -> None:
        fields = "".join(f" {name}={value!r}" for name, value in job.redacted(line.fields).items())
        log.log(logging.getLevelNamesMapping()[line.level.upper()], "%s%s", line.message, fields)

    return show


class Outside(NamedTuple):
    """What the caller sees of a replay."""

    on_line: Callable[[LogEntry], object]
    on_error: Callable[[str], object]
    debugger: bool


class Replay:
    """A replay of one job. It is also the worker link of the job's context, and stores nothing."""

    def __init__(
        self, services: Services, claim: Claim, plan: RunSpec, steps: list[Step], replaying: Replaying, outside: Outside
    ) -> None:
        self.claim = claim
        self.plan = plan
        self.context = JobContext(claim, None, self, plan.batch is not None, replaying)
        # Decoded before the run: damaged arguments are no error of the task. A batch decodes its own.
        self._arguments = ((), {}) if plan.batch is not None else plan.arguments(claim)
        self._clock = services.clock
        self._limits = StreamLimits(services.settings.max_chunk, services.settings.max_stream)
        self._largest = services.settings.max_payload
        self._steps = steps
        self._outside = outside
        self._runner = asyncio.Runner()  # it opens its event loop on first use

    def run(self) -> Any:
        """What the task returns. Raises what it raises, or ReplayStopped."""
        return contextvars.copy_context().run(self._run)

    def _run(self) -> Any:
        # Its values live as long as the replay.
        scope = WorkerScope(self.plan.task.submits.hooks, self._run_on_loop)
        try:
            return self._call(scope.function_of(self.plan.task))
        except BaseException as error:
            if (end := suspension_in(error)) is not None:
                why = end.reason if isinstance(end, ReplayEnd) else f"it {end.reason}; a worker suspends the job here"
                text = f"the replay of job {self.claim.id} stopped{_place(end.__traceback__)}: {why}"
                raise ReplayStopped(text, job_id=self.claim.id) from error
            if not isinstance(error, KeyboardInterrupt | BdbQuit):
                self._show(error)
            raise
        finally:
            scope.close()
            self._runner.close()

    def _show(self, error: BaseException) -> None:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None and _is_between(trace.tb_frame):
            trace = trace.tb_next
        self._outside.on_error(self.plan.error_info(self.claim, error.with_traceback(trace)).traceback)
        if self._outside.debugger:
            import pdb  # deferred: only this replay needs it

            pdb.post_mortem(trace)

    def _call(self, function: Callable[..., Any]) -> Any:
        if self.plan.batch is not None:
            return self._call_batch(function)
        current.set(self.context)
        args, kwargs = self._arguments
        return self._returned(function(*args, **kwargs))

    def _call_batch(self, function: Callable[..., Any]) -> Any:
        """Call it with the one item of this job."""
        current_batch.set(())
        call = BatchCall([self])
        if call.items:
            call.returned(self._returned(function(call.items)))
        value = call.values[self]
        if isinstance(value, BaseException):
            raise value
        return value

    def _returned(self, value: Any) -> Any:
        return self._run_on_loop(value, contextvars.copy_context()) if self.plan.task.is_async else value

    def _run_on_loop(self, coroutine: Coroutine[Any, Any, Any], context: contextvars.Context) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._runner.run(coroutine, context=context)
        coroutine.close()
        raise HeadraceError("an event loop runs in this thread already; use `await app.jobs.areplay(...)`")

    # -- the worker link of the context

    worker = WORKER

    def now(self) -> int:
        return self._clock.now()

    def note(self, note: JobNote) -> None:
        if note.level is not None and note.level != STREAM:
            at, fields = to_datetime(note.at), codec.decode(note.fields) if note.fields else {}
            assert at is not None
            self._outside.on_line(LogEntry(at, self.claim.attempt, note.level, note.message or "", fields))

    @property
    def largest(self) -> int:
        return self._largest

    @property
    def stream_limits(self) -> StreamLimits:
        return self._limits

    def has_stream_room(self, lease: Lease, wait: float) -> bool:
        return True

    def steps(self, claim: Claim) -> list[Step]:
        return self._steps

    def save_step(self, claim: Claim, step: Step) -> bool:
        return True

    def charge(self, claim: Claim, flow: str, runs: Mapping[int, int]) -> Spending | None:
        return None

    @property
    def joined(self) -> JoinedSteps:
        raise ReplayEnd("it stores a step in a transaction of its own, and a replay stores nothing")

    def renew(self, claim: Claim) -> bool:
        return True


def _place(trace: TracebackType | None) -> str:
    """Where the task's own code was."""
    place = ""
    while trace is not None:
        if not _is_between(trace.tb_frame):
            place = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _is_between(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN
