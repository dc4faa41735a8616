"""Runs `def` tasks in threads of this process, and passes `isolation="process"` tasks to a sandbox.

Threads start on demand and take claims from the shared deque, so no job waits behind another. A thread past its timeout
can't be stopped: its result is fenced off, another thread replaces it, and it ends when its function returns. Before
that, a task with `interrupt` gets an exception.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import threading
from typing import Any

from headrace.core.jobs.outcomes import fail, release
from headrace.core.jobs.records import ErrorInfo, Outcome
from headrace.errors import JobTimeout
from headrace.runtime.context.current_job import current
from headrace.runtime.jobs.tracing import Traced
from headrace.runtime.worker.attempt import Attempt, Batch, Stage
from headrace.runtime.worker.batch_call import BatchCall
from headrace.runtime.worker.execution import as_failure, outcome_of_error
from headrace.runtime.worker.runners.interruption import Interruption, can_interrupt
from headrace.runtime.worker.runners.sandbox import Sandboxes
from headrace.runtime.worker.state import WorkerState
from headrace.runtime.worker.tracing import link_predecessors

log = logging.getLogger("headrace.worker")

_LATE = 0.05  # seconds in which an unblocked loop takes a slot


class Threads:
    """The threads of one worker."""

    def __init__(self, worker_state: WorkerState, sandboxes: Sandboxes) -> None:
        self._worker_state = worker_state
        self._sandboxes = sandboxes
        self._lock = threading.Lock()
        self._alive = 0
        self._idle = 0
        self._made = 0
        self._stuck = 0
        self._is_short = False
        self._stopping = False

    def ensure(self) -> None:
        """Start as many threads as there are jobs and slots for."""
        with self._lock:
            needed = min(len(self._worker_state.ready) - self._idle, self._worker_state.concurrency - self._alive)
            for _ in range(needed):
                if not self._start_one():
                    return  # the next exchange tries again

    def _start_one(self) -> bool:
        """Start a thread, if the system allows one more; otherwise jobs wait for the existing ones."""
        thread = threading.Thread(target=self._work, name=f"headrace-{self._made + 1}", daemon=True)
        self._alive += 1  # before it starts: it may end at once
        try:
            thread.start()
        except RuntimeError as error:
            self._alive -= 1
            if not self._is_short:
                log.error(
                    "can't start a thread for a job: %s; %d run. See `ulimit -u` and pids.max", error, self._alive
                )
            self._is_short = True
            return False
        self._made += 1
        self._is_short = False
        return True

    def abandon_one(self) -> None:
        """Leave a thread to a job past its timeout or without its lease, and let another thread replace it."""
        with self._lock:
            self._alive -= 1
            self._stuck += 1
            if self._stuck >= 2 * self._worker_state.concurrency and self._stuck % self._worker_state.concurrency == 0:
                log.error(
                    "%d threads still run abandoned jobs and hold memory until these end. Use isolation='process' for "
                    "tasks that may hang: there they can be killed",
                    self._stuck,
                )

    def stop(self) -> None:
        self._stopping = True
        with self._worker_state.work:
            self._worker_state.work.notify_all()

    def _work(self) -> None:
        while (slot := self._next_slot()) is not None:
            if not self._use(slot):
                with self._lock:
                    self._stuck -= 1
                return  # abandoned and replaced meanwhile, its slot freed
        with self._lock:
            self._alive -= 1

    def _use(self, slot: int) -> bool:
        """Run jobs until none is ready or a coroutine needs the slot; False if the last one was abandoned."""
        worker_state = self._worker_state
        while True:
            try:
                run = worker_state.ready.popleft()
            except IndexError:
                break
            if worker_state.ready_async and len(worker_state.slots) > len(worker_state.ready):
                worker_state.wake_loop()  # it left a slot for this job, which no longer needs it
            # In a context of its own: a context variable that the job sets must not reach the next one.
            if worker_state.begin(run, slot) and not (
                worker_state.end(run, contextvars.copy_context().run(self._outcome, run))
                if run.batch is None
                else worker_state.end_batch(run.batch, contextvars.copy_context().run(self._batch_outcomes, run.batch))
            ):
                return False
            if worker_state.ready_async and worker_state.loop_responded.is_set():
                self._hand_over(slot)
                return True
        worker_state.free_slot(slot)
        return True

    def _hand_over(self, slot: int) -> None:
        """Leave the slot to a waiting coroutine, where threads can't take it: they would be quicker.

        A loop that does not take it is blocked by one of its coroutines. That must not cost the threads a slot, so the
        thread takes it back, and hands over none until the loop runs again.
        """
        worker_state = self._worker_state
        worker_state.slots_for_loop.append(slot)
        worker_state.loop_responded.clear()  # after the append: a loop that runs from now on finds the slot
        worker_state.wake_loop()
        if not worker_state.loop_responded.wait(_LATE):
            with contextlib.suppress(ValueError):  # the loop took it at the last moment
                worker_state.slots_for_loop.remove(slot)
                worker_state.free_slot(slot)  # this wakes the loop again: it may have looked for the slot just now

    def _next_slot(self) -> int | None:
        worker_state = self._worker_state
        with worker_state.work:
            self._idle += 1
            try:
                while not self._stopping:
                    if worker_state.ready and (slot := worker_state.take_slot()) is not None:
                        return slot
                    worker_state.work.wait()
            finally:
                self._idle -= 1
        return None

    def _outcome(self, run: Attempt) -> Outcome:
        try:
            return self._perform(run) if run.trace is None else self._perform_traced(run, run.trace)
        except BaseException as error:  # a bug in headrace; the thread, its slot and the job must survive it
            return self._broken(run, error)

    def _broken(self, run: Attempt, error: BaseException) -> Outcome:
        text = "job %s (%s): the runner itself failed"
        log.error(text, run.claim.id, run.claim.task, extra=run.about, exc_info=error)
        error_info = ErrorInfo(type(error).__name__, "the worker could not run it; see its log")
        return fail(run.claim, "worker_error", error_info, run.plan.retry.max_attempts, self._worker_state.now())

    def _perform_traced(self, run: Attempt, trace: Traced) -> Outcome:
        link_predecessors(trace)
        with trace:
            return self._perform(run)

    def _perform(self, run: Attempt) -> Outcome:
        worker_state, plan = self._worker_state, run.plan
        if plan.isolation == "process":
            return self._sandboxes.perform(run, worker_state.now)
        run.thread = threading.get_ident()
        current.set(run.context)
        return self._called(run) if not plan.interrupt else self._called_interruptibly(run)

    def _called_interruptibly(self, run: Attempt) -> Outcome:
        if not can_interrupt():
            return self._called(run)
        interruption = Interruption()
        with interruption.installed():
            run.interrupt = interruption.interrupt
            run.abort = lambda reason: interruption.interrupt()
            if run.context.cancel_requested:  # since before the line above
                interruption.interrupt()
            outcome = self._called(run)
        if run.stage is Stage.ABANDONED and isinstance(run.error, JobTimeout):  # it was interrupted
            return release(run.claim, "its lease was lost", self._worker_state.now())
        return outcome

    def _called(self, run: Attempt) -> Outcome:
        worker_state, plan = self._worker_state, run.plan
        try:
            run.load()
            args, kwargs = plan.arguments(run.claim)
            return run.context.enclosed(plan.success(run.claim, plan.function(*args, **kwargs), worker_state.now()))
        except BaseException as raised:  # SystemExit of a task must not end the worker
            error = as_failure(plan, raised)
            run.error = error
            return run.context.enclosed(outcome_of_error(plan, run.claim, error, worker_state.now))

    def _batch_outcomes(self, batch: Batch) -> dict[Attempt, Outcome]:
        try:
            return self._perform_batch(batch)
        except BaseException as error:  # as above
            return {run: self._broken(run, error) for run in batch.attempts}

    def _perform_batch(self, batch: Batch) -> dict[Attempt, Outcome]:
        for run in batch.attempts:
            run.thread = threading.get_ident()
            if run.trace is not None:
                link_predecessors(run.trace)
        call = BatchCall(batch.attempts, batch.load())
        if call.items:
            try:
                call.returned(batch.attempts[0].plan.function(call.items))
            except BaseException as error:
                call.raised(error)
        return {run: self._outcome_of_value(run, call.values[run]) for run in batch.attempts}

    def _outcome_of_value(self, run: Attempt, value: Any) -> Outcome:
        now = self._worker_state.now
        try:
            if not isinstance(value, BaseException):
                return run.context.enclosed(run.plan.success(run.claim, value, now()))
        except BaseException as error:
            value = error
        run.error = value
        return run.context.enclosed(outcome_of_error(run.plan, run.claim, value, now))
