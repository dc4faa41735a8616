"""What a running job keeps over all its runs: its steps, sleeps, events, compensations and patches."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any, ParamSpec, TypeVar, overload

from headrace.core.codec import codec
from headrace.core.jobs.records import Claim
from headrace.errors import HeadraceError, LeaseLost
from headrace.runtime.context.log_line import log_line
from headrace.runtime.context.questions import answer_of, question_of
from headrace.runtime.context.replaying import Replaying
from headrace.runtime.context.spawn import check_call
from headrace.runtime.context.steps import StepLog, refuse_awaitable, refuse_coroutines, result_of
from headrace.runtime.context.worker_link import WorkerLink
from headrace.runtime.jobs.async_twin import in_thread
from headrace.runtime.jobs.flow_run import FlowRun
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.task import Call

P = ParamSpec("P")
R = TypeVar("R")
_making = threading.Lock()


class DurableSteps:
    """The part of a job's context that is kept over all its runs."""

    __slots__ = ("_claim", "_in_batch", "_link", "_replaying", "_step_log", "_stop_reason")

    def __init__(
        self, claim: Claim, link: WorkerLink, in_batch: bool = False, replaying: Replaying | None = None
    ) -> None:
        self._claim = claim
        self._link = link
        self._in_batch = in_batch
        self._replaying = replaying
        self._step_log: StepLog | None = None
        self._stop_reason: str | None = None

    @property
    def id(self) -> str:
        return self._claim.id

    def compensate(self, name: str, call: Call[Any]) -> None:
        """Undo the step of this name with this call if the job fails for good, is cancelled, expires or is deleted.

        Compensations run as jobs of their own, one after the other, the last registered first.
        """
        check_call("compensate", call)
        if self._replaying is not None:
            return
        submit = partial(call.task.submits.children.submit_compensation, call, self.id, name, self._link.now())
        self._step_store().compensate(name, lambda earlier: submit(earlier).id)

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

        Each wait gets one event, in the order in which they came. TimeoutError if none has come in `timeout` seconds
        from the first run that came here; an event that comes later is for the next wait.

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

    def wait_first(self, *names: str, timeout: float | timedelta | None = None) -> tuple[str, Any]:
        """The name and the data of the first event to come of these names; the job is suspended meanwhile.

        It takes one event, as wait_event() does: those of the other names remain for later waits. TimeoutError if none
        has come in `timeout` seconds from the first run that came here.
        """
        return self._step_store().wait_first(names, timeout)

    async def await_first(self, *names: str, timeout: float | timedelta | None = None) -> tuple[str, Any]:
        """Like wait_first(), in a coroutine."""
        return await in_thread(self._step_store().wait_first, names, timeout)

    def patched(self, name: str) -> bool:
        """Whether to run the changed code: False if an earlier run of this job was past this point with the old code.

        The answer is stored, so it is the same in every run of the job.
        """
        return self._step_store().patched(name)

    async def apatched(self, name: str) -> bool:
        """Like patched(), without blocking the event loop."""
        return await in_thread(self.patched, name)

    def _remind(self, name: str, text: str | None) -> None:
        fields = codec.encode({"event": name})
        message = f"still waits for an answer: {text}"
        self._link.note(log_line(self._claim, self._link.now(), "warning", message, fields))

    def _refuse_if_stopped(self) -> None:
        if self._stop_reason is not None:
            raise LeaseLost(f"job {self.id}: {self._stop_reason}; stop working on it", job_id=self.id)

    def _step_store(self) -> StepLog:
        self._refuse_if_stopped()
        if self._in_batch:
            raise HeadraceError("a job of a batch can't have steps, sleep or wait; return Snooze(...) as its result")
        with _making:
            if self._step_log is None:
                self._step_log = StepLog(self._claim, self._link, self._replaying)
            return self._step_log
