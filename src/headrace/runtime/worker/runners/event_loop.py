"""Runs `async def` tasks on one event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import importlib
import logging
import threading
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from headrace.core.jobs.outcomes import release
from headrace.core.jobs.records import Outcome
from headrace.runtime.context.current_job import current
from headrace.runtime.jobs.async_twin import in_thread
from headrace.runtime.jobs.tracing import Traced
from headrace.runtime.worker.attempt import Attempt, Batch, Stage
from headrace.runtime.worker.batch_call import BatchCall
from headrace.runtime.worker.execution import backoff_failed, settle_delay
from headrace.runtime.worker.state import WorkerState
from headrace.runtime.worker.tracing import link_predecessors

log = logging.getLogger("headrace.worker")

T = TypeVar("T")

_GRACE = 5.0  # seconds for a coroutine to end after its cancellation


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed: its timers and wake-ups need less processor time."""
    try:
        module = importlib.import_module("uvloop")
    except ImportError:
        module = asyncio
    loop: asyncio.AbstractEventLoop = module.new_event_loop()
    return loop


class EventLoop:
    """The event loop of one worker."""

    def __init__(self, worker_state: WorkerState) -> None:
        self._worker_state = worker_state
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: dict[asyncio.Task[None], Attempt] = {}
        self._pinged_at = 0.0
        self._responded_at = 0.0
        self._stopping = False
        self._ending_tasks: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        """Start waiting claims; the first call also starts the loop."""
        with self._lock:
            if self._loop is None:
                self._loop = new_event_loop()
                self._thread = threading.Thread(target=self._run_once, name="headrace-loop", daemon=True)
                self._thread.start()
        self._loop.call_soon_threadsafe(self._fill)

    def run(self, coroutine: Coroutine[Any, Any, T], context: contextvars.Context) -> T:
        """Run a coroutine of a hook on the loop, in this context, and wait for it in this thread."""
        self.wake()
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(_in_context(coroutine, context), self._loop).result()

    def stop(self, timeout: float) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._stopping = True
        with contextlib.suppress(RuntimeError):  # already closed
            loop.call_soon_threadsafe(self._cancel_all)
            loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout)

    # -- for the watchdog

    def blocked_for(self) -> float:
        """Seconds since which the loop has not responded."""
        if self._loop is None or not self._tasks:
            return 0.0
        now = time.monotonic()
        if self._pinged_at > self._responded_at:
            return now - self._pinged_at
        self._pinged_at = now
        self._loop.call_soon_threadsafe(self._respond)
        return 0.0

    def blocker(self) -> tuple[Attempt | None, int | None]:
        """The run that the loop is executing now, and the loop's thread."""
        task = asyncio.current_task(self._loop) if self._loop else None
        return self._tasks.get(task) if task else None, self._thread.ident if self._thread else None

    def _respond(self) -> None:
        self._responded_at = time.monotonic()

    # -- inside the loop's thread

    def _run_once(self) -> None:
        loop = self._loop
        assert loop is not None
        asyncio.set_event_loop(loop)
        try:
            self._run_until_stopped(loop)
            if self._tasks:
                loop.run_until_complete(asyncio.wait(list(self._tasks), timeout=1.0))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    def _run_until_stopped(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stopping:
            try:
                loop.run_forever()
            except BaseException:  # a SystemExit or KeyboardInterrupt of a job's subtask; other jobs go on
                log.exception("a job's subtask tried to end the event loop")

    def _fill(self) -> None:
        worker_state = self._worker_state
        if not worker_state.loop_responded.is_set():
            worker_state.loop_responded.set()  # before slots_for_loop is read: it may have the slot of a waiting thread
        while worker_state.ready_async and (slot := self._next_slot()) is not None:
            try:
                run = worker_state.ready_async.popleft()
            except IndexError:  # taken back by the worker
                worker_state.free_slot(slot)
                break
            if worker_state.begin(run, slot):
                self._start(run)
            else:
                worker_state.return_slot(slot)
        while (slot := self._handed_slot()) is not None:
            worker_state.return_slot(slot)  # its coroutine was taken back meanwhile

    def _next_slot(self) -> int | None:
        """A slot that a thread left to the loop, or one that no waiting thread job needs.

        Threads leave their slot after each job while coroutines wait. The loop does the same: otherwise it would take
        its own slot again before any thread woke up, and a backlog of coroutines would starve all other jobs.
        """
        worker_state = self._worker_state
        if (slot := self._handed_slot()) is not None:
            return slot
        return worker_state.take_slot() if len(worker_state.slots) > len(worker_state.ready) else None

    def _handed_slot(self) -> int | None:
        try:
            return self._worker_state.slots_for_loop.popleft() if self._worker_state.slots_for_loop else None
        except IndexError:  # too late: the thread took it back
            return None

    def _start(self, run: Attempt) -> None:
        task = asyncio.get_running_loop().create_task(self._perform(run), name=f"headrace-{run.claim.id}")
        self._tasks[task] = run
        # Bind the task alone: a reference from the run to itself would be left to the garbage collector, for each job.
        for each in run.together:
            each.abort = partial(self._abort, task)
        task.add_done_callback(self._over)

    def _abort(self, task: asyncio.Task[None], reason: str) -> None:
        """Cancel the task from any thread, and make sure that its slot is freed."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._cancel, task, reason)

    def _cancel(self, task: asyncio.Task[None], reason: str) -> None:
        run = self._tasks.get(task)
        if run is not None:  # not over meanwhile
            self._worker_state.cancelled_coroutines.add(run)
            task.cancel(reason)
            asyncio.get_running_loop().call_later(_GRACE, self._abandon, task)

    def _over(self, task: asyncio.Task[None]) -> None:
        run = self._tasks.pop(task, None)
        if run is None:
            return  # abandoned meanwhile
        self._end_abandoned(run, task)
        for each in run.together:
            each.abort = None  # the run still waits to be settled; its task can be freed now
            if each.stage is Stage.STARTED:  # it ended without an outcome
                cancelled = asyncio.CancelledError("the coroutine was cancelled by user code")
                error = cancelled if task.cancelled() else task.exception() or cancelled
                last = asyncio.get_running_loop().create_task(self._end_failed(each, error))
                self._ending_tasks.add(last)
                last.add_done_callback(self._ending_tasks.discard)
        self._return_slot(run)

    def _end_abandoned(self, run: Attempt, _: asyncio.Task[None]) -> None:
        """End a run that lost its lease, or was to end, and has no outcome; else the worker would never forget it."""
        for each in run.together:
            if each.stage is Stage.ABANDONED or (each.stage is Stage.STARTED and each.cancelled):
                self._worker_state.end(each, release(each.claim, "its lease was lost", self._worker_state.now()))

    async def _end_failed(self, run: Attempt, error: BaseException) -> None:
        self._worker_state.end(run, await self._failure(run, error))

    def _abandon(self, task: asyncio.Task[None]) -> None:
        """Free the slot of a coroutine that ignores its cancellation."""
        run = self._tasks.pop(task, None)
        if run is not None:
            text = "job %s (%s) ignores its cancellation; its slot is freed"
            log.error(text, run.claim.id, run.claim.task, extra=run.about)
            task.add_done_callback(partial(self._end_abandoned, run))
            self._return_slot(run)

    def _return_slot(self, run: Attempt) -> None:
        if run in self._worker_state.cancelled_coroutines:
            self._worker_state.cancelled_coroutines.discard(run)
            self._worker_state.ring()  # a slot is free again
        self._worker_state.return_slot(run.slot)
        self._fill()

    def _cancel_all(self) -> None:
        for task in list(self._tasks):
            task.cancel("the worker stops")

    async def _perform(self, run: Attempt) -> None:
        if run.batch is not None:
            self._worker_state.end_batch(run.batch, await self._batch_outcomes(run.batch))
            return
        current.set(run.context)
        outcome = await (self._outcome(run) if run.trace is None else self._outcome_traced(run, run.trace))
        self._worker_state.end(run, outcome)

    async def _outcome_traced(self, run: Attempt, trace: Traced) -> Outcome:
        if trace.has_past:
            await in_thread(link_predecessors, trace)
        with trace:
            return await self._outcome(run)

    async def _outcome(self, run: Attempt) -> Outcome:
        plan, now = run.plan, self._worker_state.now
        try:
            if plan.is_outside(run.claim):
                await in_thread(run.load)
            args, kwargs = plan.arguments(run.claim)
            value = await plan.function(*args, **kwargs)
            return run.context.enclosed(await plan.asuccess(run.claim, value, now()))
        except asyncio.CancelledError as error:
            if run.context.cancel_requested:
                raise  # ended by the worker, which has recorded the reason
            return await self._failure(run, error)
        except BaseException as error:  # SystemExit of a task must not end the worker
            return await self._failure(run, error)

    async def _batch_outcomes(self, batch: Batch) -> dict[Attempt, Outcome]:
        for run in batch.attempts:
            if run.trace is not None and run.trace.has_past:
                await in_thread(link_predecessors, run.trace)
        is_outside = any(run.plan.is_outside(run.claim) for run in batch.attempts)
        call = BatchCall(batch.attempts, await in_thread(batch.load) if is_outside else {})
        if call.items:
            try:
                call.returned(await batch.attempts[0].plan.function(call.items))
            except BaseException as error:
                if isinstance(error, asyncio.CancelledError) and not batch.open:
                    raise  # as above
                call.raised(error)
        return {run: await self._outcome_of_value(run, call.values[run]) for run in batch.attempts}

    async def _outcome_of_value(self, run: Attempt, value: Any) -> Outcome:
        try:
            if not isinstance(value, BaseException):
                outcome = await run.plan.asuccess(run.claim, value, self._worker_state.now())
                return run.context.enclosed(outcome)
        except BaseException as error:
            value = error
        return await self._failure(run, value)

    async def _failure(self, run: Attempt, error: BaseException) -> Outcome:
        plan, now = run.plan, self._worker_state.now
        run.error = error
        try:
            outcome = plan.failure(run.claim, error, await settle_delay(plan.delay(run.claim, error)), now())
        except Exception as broken:
            outcome = backoff_failed(plan, run.claim, error, broken, now())
        return run.context.enclosed(outcome)


async def _in_context(coroutine: Coroutine[Any, Any, T], context: contextvars.Context) -> T:
    return await asyncio.get_running_loop().create_task(coroutine, context=context)
