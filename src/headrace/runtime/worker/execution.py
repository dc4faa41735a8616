"""How a worker runs a claimed job: its function, its limits, and the outcome of its end."""

from __future__ import annotations

import asyncio
import logging
import random
import time
import traceback
from collections.abc import Awaitable, Callable
from types import FrameType, TracebackType
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from headrace.core.codec import codec
from headrace.core.codec.payload_refs import MARK as OUTSIDE
from headrace.core.codec.result_refs import UnfitResult, parents_text
from headrace.core.damaged_records import read_or
from headrace.core.jobs import outcomes
from headrace.core.jobs.records import Claim, ErrorInfo, Isolation, JobOptions, JobRow, Outcome
from headrace.core.jobs.steps import Suspended
from headrace.core.tasks.batches import BatchLimits
from headrace.core.tasks.failure import delay_after, outcome_after, outcome_requested
from headrace.core.tasks.retry import Delay, Retry, from_policy
from headrace.errors import (
    CorruptPayload,
    EngineUnavailable,
    InvalidJob,
    JobInterrupted,
    JobTimeout,
    PayloadStoreUnavailable,
    Snooze,
)
from headrace.runtime.jobs.async_twin import in_thread
from headrace.runtime.jobs.encryption import loaded_claim
from headrace.runtime.jobs.stored_result import lost_result
from headrace.runtime.jobs.task import Task
from headrace.runtime.jobs.tracing import Tracer
from headrace.runtime.payloads.payloads import Payloads
from headrace.runtime.worker.error_redaction import redactor_over
from headrace.runtime.worker.kept_logs import keeping_logs

log = logging.getLogger("headrace.worker")
_MAX_TRACEBACK_CHARS = 20_000
_MAX_MESSAGE_CHARS = 5_000
_OUTAGE_PAUSE = 15.0  # seconds until a job that needs the payload store is tried again
_RESULT_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 10.0)  # seconds between attempts to store a result
_options = msgspec.json.Decoder(JobOptions)


class RunSpec(Struct, frozen=True):
    """A task with the options of one job. `timeout` is in seconds."""

    task: Task[..., Any, Any]
    function: Callable[..., Any]  # the task's own, or inside the app's hooks
    isolation: Isolation
    timeout: float | None
    retry: Retry
    keep_result: bool
    max_result: int
    preemptible: bool = False
    removes: bool = False  # whether the job is removed on finish
    payloads: Payloads | None = None
    tracer: Tracer | None = None
    batch: BatchLimits | None = None
    interrupt: float = 0.0  # the seconds to end in after an interrupt; 0 for a task that is not interrupted

    def arguments(self, claim: Claim) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call's arguments decoded for the task, or CorruptPayload."""
        if self.payloads is None:
            codec.verify(claim.payload, claim.checksum)
        else:
            claim = self.loaded(claim)
        args, kwargs = codec.decode_call(claim.payload)
        try:
            return self.task.signature.rebuild(args, kwargs)
        except CorruptPayload as error:
            parents = parents_text(claim.payload)
            if parents is None:
                raise
            raise UnfitResult(f"{error}, or {parents} does not fit") from error.__cause__

    def is_outside(self, claim: Claim) -> bool:
        """Whether the call, or a result in it, is in the payload store, so that `loaded` may take long."""
        return self.payloads is not None and OUTSIDE in claim.payload

    def loaded(self, claim: Claim) -> Claim:
        """The claim with its call loaded and decrypted; Snooze while the payload store is unavailable."""
        try:
            return loaded_claim(self.payloads, claim)
        except PayloadStoreUnavailable as error:
            raise Snooze(_OUTAGE_PAUSE, str(error)) from None

    def success(self, claim: Claim, value: Any, now: int) -> Outcome:
        """The outcome of a run that returned."""
        if not self.keep_result or value is None:
            return outcomes.succeed(claim, None, None, now)
        return self.stored(claim, self._encoded(value), now)

    async def asuccess(self, claim: Claim, value: Any, now: int) -> Outcome:
        """The same in a coroutine: a large result is stored in a thread."""
        if self.payloads is None or self.payloads.files is None or not self.keep_result or value is None:
            return self.success(claim, value, now)
        text = self._encoded(value)
        if self.payloads.is_large(text):
            return await in_thread(self.stored, claim, text, now)
        return self.stored(claim, text, now)

    def stored(self, claim: Claim, text: str | None, now: int) -> Outcome:
        """The outcome of a run whose result is already encoded."""
        if self.payloads is not None and text is not None:
            text = self._outside(self.payloads, claim, text)
        return outcomes.succeed(claim, text, None if text is None else codec.checksum(text), now)

    def with_stored_result(self, claim: Claim, outcome: Outcome) -> Outcome:
        """The outcome of a sandbox with its result as it is stored."""
        if self.payloads is None or outcome.result is None:
            return outcome
        result = self._outside(self.payloads, claim, outcome.result)
        return msgspec.structs.replace(outcome, result=result, result_checksum=codec.checksum(result))

    def _outside(self, payloads: Payloads, claim: Claim, text: str) -> str:
        # The work is done: while the payload store is unavailable, the run waits for it rather than run again.
        why = ""
        for pause in _RESULT_PAUSES:
            try:
                return payloads.stored(text, "result", claim.id, claim.id)
            except EngineUnavailable as error:
                why = str(error)
            log.warning("job %s: can't store its result: %s; trying again", claim.id, why)
            time.sleep(pause)
        return payloads.stored(lost_result(f"its result could not be stored: {why}"), "result", claim.id, claim.id)

    def _encoded(self, value: Any) -> str:
        # The work is done: a result that can't be stored must not make the job run again.
        try:
            return codec.encode(value, models=True, limit=self.max_result, where="result")
        except InvalidJob as error:
            return lost_result(str(error))

    def delay(self, claim: Claim, error: BaseException) -> Delay | Awaitable[Delay]:
        """The time until the next attempt, None for no retry, or an awaitable of either."""
        return delay_after(claim, self.retry, error, random.random())

    def error_info(self, claim: Claim, error: BaseException) -> ErrorInfo:
        """The error as it is stored and shown, with the job's secrets masked."""
        return self.masked(claim, describe(error))

    def masked(self, claim: Claim, error_info: ErrorInfo) -> ErrorInfo:
        """The error with the job's secrets masked."""
        redactor = redactor_over(claim, self.task, self.payloads)
        if not redactor.secrets:
            return error_info
        return msgspec.structs.replace(
            error_info, message=redactor.over(error_info.message), traceback=redactor.over(error_info.traceback)
        )

    def failure(self, claim: Claim, error: BaseException, delay: Delay, now: int) -> Outcome:
        """The outcome of a run that raised, with the delay that `delay()` returned."""
        requested = outcome_requested(claim, error, lambda error: describe(error).message, now)
        return requested or outcome_after(claim, self.retry, error, self.error_info(claim, error), delay, now)


def describe(error: BaseException) -> ErrorInfo:
    """The type, message and traceback of an error with its whole chain, of bounded length."""
    try:
        text = "".join(traceback.format_exception(type(error), error, own_frames(error.__traceback__)))
        message = str(error)
    except BaseException as broken:  # an exception whose own __str__ raises anything
        text, message = "", f"<{type(error).__name__} that can't be shown: {type(broken).__name__}>"
    return ErrorInfo(
        _clean(type(error).__qualname__, 200), _clean(message, _MAX_MESSAGE_CHARS), _clean(text, _MAX_TRACEBACK_CHARS)
    )


def own_frames(tb: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of the worker that called the task."""
    while tb is not None and tb.tb_next is not None and is_worker_frame(tb.tb_frame):
        tb = tb.tb_next
    return tb


def is_worker_frame(frame: FrameType | None) -> bool:
    package = "" if frame is None else frame.f_globals.get("__package__") or ""
    return package == __package__ or package.startswith(f"{__package__}.")


def _clean(text: str, longest: int) -> str:
    if len(text) > longest:
        half = longest // 2
        text = f"{text[:half]}\n... {len(text) - longest} characters left out ...\n{text[-half:]}"
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


async def settle_delay(delay: Delay | Awaitable[Delay]) -> Delay:
    """The delay itself, if a backoff function returned an awaitable."""
    return await delay if isinstance(delay, Awaitable) else delay


class RunSpecs:
    """Finds the run spec of a claim; None if this worker does not know its task."""

    def __init__(
        self,
        find: Callable[[str], Task[..., Any, Any] | None],
        timeout: float | None,
        max_result: int,
        payloads: Payloads | None = None,
        function_of: Callable[[Task[..., Any, Any]], Callable[..., Any]] = lambda task: task.function,
    ) -> None:
        self._find = find
        self._function_of = function_of
        self._timeout = timeout
        self._max_result = max_result
        self.payloads = payloads
        self._plans: dict[tuple[str, str | None], RunSpec] = {}
        self.removing: set[str] = set()  # queues with such calls

    def plan(self, claim: Claim) -> RunSpec | None:
        key = (claim.task, claim.options)
        plan = self._plans.get(key)
        if plan is None:
            task = self._find(claim.task)
            if task is None:
                return None
            if len(self._plans) > 1000:
                self._plans.clear()
            plan = self._plans[key] = self._make(task, claim.options)
        if plan.removes:
            self.removing.add(claim.queue)
        return plan

    def knows(self, task: str) -> bool:
        """Whether the app knows this task by now."""
        return self._find(task) is not None

    def keeps_result(self, job: JobRow) -> bool:
        """Whether this job's result is stored, as far as this worker knows."""
        stored = read_or(_options.decode, job.options, JobOptions()).keep_result if job.options else UNSET
        task = self._find(job.task)
        return bool(_first(stored, UNSET if task is None else task.options.keep_result, True))

    def _make(self, task: Task[..., Any, Any], stored: str | None) -> RunSpec:
        options = _options.decode(stored) if stored else JobOptions()
        own, function = task.options, self._function_of(task)
        return RunSpec(
            task,
            keeping_logs(function, task, self.payloads) if own.keep_logs is True else function,
            _first(UNSET if task.batch else options.isolation, task.isolation),
            self._seconds(_first(options.timeout, own.timeout)),
            task.retry if options.retry is UNSET else from_policy(options.retry),
            _first(options.keep_result, own.keep_result, True),
            self._max_result,
            task.batch is None and _first(options.preemptible, own.preemptible, False),
            bool(_first(options.remove_on_complete, False) or _first(options.remove_on_fail, False)),
            self.payloads,
            task.submits.tracer,
            task.batch,
            _first(own.interrupt, 0) / 1000,
        )

    def _seconds(self, ms: Any) -> float | None:
        if ms is UNSET:
            return self._timeout
        return None if ms is None else ms / 1000


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not UNSET), UNSET)


def run_inline(plan: RunSpec, claim: Claim, call: Callable[..., Any], now: Callable[[], int]) -> Outcome:
    """Run the call here and now, and return its outcome."""
    try:
        args, kwargs = plan.arguments(claim)
        return plan.success(claim, call(*args, **kwargs), now())
    except (Exception, Suspended, BaseExceptionGroup, JobInterrupted) as error:
        return outcome_of_error(plan, claim, as_failure(plan, error), now)


def timeout_error(plan: RunSpec) -> JobTimeout:
    return JobTimeout(f"the attempt ran longer than its timeout of {plan.timeout or 0.0:g} s")


def as_failure(plan: RunSpec, error: BaseException) -> BaseException:
    """The error to record: the interruption of a task at its timeout is a JobTimeout."""
    return timeout_error(plan).with_traceback(error.__traceback__) if isinstance(error, JobInterrupted) else error


def outcome_of_error(plan: RunSpec, claim: Claim, error: BaseException, now: Callable[[], int]) -> Outcome:
    """The outcome of an error in a thread; a backoff coroutine gets its own event loop."""
    try:
        delay = plan.delay(claim, error)
        if isinstance(delay, Awaitable):
            delay = asyncio.run(settle_delay(delay))
        return plan.failure(claim, error, delay, now())
    except BaseException as broken:  # a backoff function may even try to exit
        return backoff_failed(plan, claim, error, broken, now())


def backoff_failed(plan: RunSpec, claim: Claim, error: BaseException, broken: BaseException, now: int) -> Outcome:
    """The outcome of an error whose backoff function raised another one."""
    error_info, why = plan.error_info(claim, error), plan.error_info(claim, broken)
    extra = f"{error_info.message} (and its backoff function raised {why.type}: {why.message})"
    return outcomes.fail(
        claim, "broken_backoff", msgspec.structs.replace(error_info, message=extra), plan.retry.max_attempts, now
    )
