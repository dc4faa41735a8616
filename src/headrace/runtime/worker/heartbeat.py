"""The worker's heartbeat: a thread that user code can't block.

It renews all leases in one write, ends runs past their timeout, stops runs whose lease is lost, applies an operator's
commands to the worker, and logs a job that blocks the event loop or a worker loop that hangs.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import traceback
from typing import Protocol

from headrace.core.health.probes import Health, health_of
from headrace.core.jobs import outcomes
from headrace.core.jobs.records import Claim, Lease, Outcome, WorkerRow
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable, JobTimeout
from headrace.runtime.process.liveness import StallDetector, ThreadLiveness
from headrace.runtime.process.memory import resident_megabytes
from headrace.runtime.process.outage_log import outage_log
from headrace.runtime.process.stacks import frame_of
from headrace.runtime.worker.attempt import NEVER, Attempt, Stage
from headrace.runtime.worker.cancel_requests import cancel_requests
from headrace.runtime.worker.execution import is_worker_frame, outcome_of_error, timeout_error
from headrace.runtime.worker.runners.event_loop import EventLoop
from headrace.runtime.worker.runners.threads import Threads
from headrace.runtime.worker.state import WorkerState

log = logging.getLogger("headrace.worker")

_CHECK_EVERY = 0.5  # how often to check runs while there are any
_BLOCKED = 1.0
_AGAIN = 1.0  # seconds until a failed renewal is repeated


class HeartbeatHost(Protocol):
    """The worker, as its heartbeat needs it."""

    def describe(self) -> WorkerRow: ...
    def apply_command(self, command: str, requested_at: float) -> None: ...
    def leases_end(self, next_expiry: int | None) -> None: ...
    def store_lost(self) -> None: ...


class Heartbeat:
    """The heartbeat of one worker."""

    def __init__(
        self,
        engine: Engine,
        worker_state: WorkerState,
        threads: Threads,
        loop: EventLoop,
        host: HeartbeatHost,
        lease: float,
        heartbeat: float,
    ) -> None:
        self._engine = engine
        self._outage_log = outage_log(engine)
        self._worker_state = worker_state
        self._threads = threads
        self._loop = loop
        self._host = host
        self._lease = lease
        self._lease_ms = int(lease * 1000)
        self._heartbeat = heartbeat
        self._renewed_at = time.monotonic()
        self._logged: Attempt | None = None
        self._stopping = threading.Event()
        self._stall_detector: StallDetector | None = None
        self._loop_liveness = ThreadLiveness("heartbeat")
        self._store_answers = True
        self._bell = engine.listen("commands")
        self._thread = threading.Thread(target=self._run, name="headrace-heartbeat", daemon=True)
        worker_state.check_soon = self._bell.ring

    def watch_threads(self, *liveness: ThreadLiveness) -> None:
        """Also detect stalls of these loops."""
        self._stall_detector = StallDetector(self._engine, self._host.describe().id, liveness, self._lease)

    def is_stalled(self, thread: ThreadLiveness) -> bool:
        """Whether a stall of this loop was reported, and has lasted one more lease since."""
        is_reported = self._stall_detector is not None and self._stall_detector.has_logged(thread)
        return is_reported and thread.overdue > 2 * self._lease

    def health(self, worker: str, state: str, thread: ThreadLiveness) -> Health:
        """The health of a worker in this state with this loop. It does not ask the store."""
        overdue = {each.part: each.overdue for each in (thread, self._loop_liveness)}
        return health_of(worker, state, overdue, 2 * self._lease, store_answers=self._store_answers)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._bell.ring()
        self._loop_liveness.stop_watching()
        if self._thread.ident is not None:  # else the worker failed to start
            self._thread.join(5)
        self._bell.close()
        if self._stall_detector is not None:
            self._stall_detector.close()

    def renew_one(self, claim: Claim) -> bool:
        """Renew a single lease at the request of its job."""
        try:
            return not self._engine.renew(self._host.describe(), (claim.lease,), self._lease_ms).lost
        except EngineUnavailable:
            return True  # not known to be lost; the regular heartbeats count the failures

    # -- the thread

    def _run(self) -> None:
        next_beat = time.monotonic() + self._heartbeat
        while not self._stopping.is_set():
            now = time.monotonic()
            # A run that begins during this scan must ring, whatever its deadline.
            self._worker_state.next_check = NEVER
            earliest = min((run.deadline for run in self._worker_state.started()), default=NEVER)
            check_at = now + _CHECK_EVERY if self._worker_state.running else NEVER
            self._worker_state.next_check = min(next_beat, earliest, check_at)
            self._loop_liveness.expect_within(max(self._worker_state.next_check - now, 0))
            ordered = self._bell.wait(max(self._worker_state.next_check - now, 0))
            if self._stopping.is_set():
                return
            try:
                self._check_runs()
                if self._stall_detector is not None:
                    self._stall_detector.check()
                if ordered or time.monotonic() >= next_beat:
                    pause = self._heartbeat if self._beat() else min(self._heartbeat, _AGAIN)
                    next_beat = time.monotonic() + pause
            except Exception:
                log.exception("heartbeat iteration failed; continuing")

    def _check_runs(self) -> None:
        now = time.monotonic()
        for run in self._worker_state.started():
            if run.deadline <= now:
                self._time_out(run)
        if self._worker_state.notes:
            self._worker_state.ring()
        self._check_loop()

    # -- leases

    def _beat(self) -> bool:
        """Renew every lease; False if the store is unavailable."""
        leases = [attempt.lease for attempt in self._worker_state.held()]
        reported = self._host.describe()
        begun = time.monotonic()
        try:
            renewal = self._engine.renew(reported, leases, self._lease_ms)
        except EngineUnavailable as error:
            self._renewal_failed(error)
            return False
        self._renewed_at, self._store_answers = begun, True
        self._outage_log.worked()
        if log.isEnabledFor(logging.DEBUG):
            self._log_health(reported)
        if renewal.lost:
            cancelled = self._cancel_requested(renewal.lost, reported.id)
            self._drop_lost(renewal.lost - cancelled, "the job was cancelled or its lease is lost")
        self._host.apply_command(renewal.command, begun)
        self._host.leases_end(renewal.next_expiry)
        if self._host.describe().state != reported.state:
            self._bell.ring()  # so that the operator sees the new state now, not at the next heartbeat
        return True

    def _log_health(self, row: WorkerRow) -> None:
        log.debug(
            "worker %s is %s: %d of %d busy, %d completed, %d failed, up for %d s, uses %d MB",
            *(row.id, row.state, row.running, row.concurrency, row.completed, row.failed),
            (row.seen_at - row.started_at) // 1000,
            resident_megabytes(),
            extra={"worker": row.id, "event": "worker.health"},
        )

    def _renewal_failed(self, error: EngineUnavailable) -> None:
        """Give up the leases once they must have expired; the number of failed renewals does not matter."""
        self._host.store_lost()
        self._store_answers = False
        silent_for = time.monotonic() - self._renewed_at
        if silent_for < self._lease:
            self._outage_log.failed(error, f"the leases hold for another {self._lease - silent_for:.1f} s")
            return
        leases = frozenset(attempt.lease for attempt in self._worker_state.held())
        log.error("no lease renewal for %.0f s: %s; giving up %d leases", silent_for, error, len(leases))
        self._drop_lost(leases, f"no lease renewal for {silent_for:.0f} s")

    def _cancel_requested(self, lost: frozenset[Lease], worker: str) -> set[Lease]:
        """Stop the runs that newer calls want to end, and hold their jobs until they have; the leases of these."""
        cancelled = set()
        requests = cancel_requests(self._engine.queries, worker, lost)
        for attempt in self._worker_state.held() if requests else ():
            lease = attempt.lease
            if (request := requests.get(lease)) is not None and self._worker_state.cancel(attempt, request):
                cancelled.add(lease)
                self._stop(attempt, request.reason)
        if cancelled:
            self._withdraw_ended()
        return cancelled

    def _stop(self, run: Attempt, reason: str) -> None:
        if run.stage is not Stage.STARTED:
            return
        log.info("job %s (%s) is asked to stop: %s", run.claim.id, run.claim.task, reason, extra=run.about)
        if any(each.stage is Stage.STARTED and each.cancelled is None for each in run.together):
            run.context.add_stop_reason(reason)  # the call goes on for the other jobs of the batch
        else:
            run.stop(reason)

    def _drop_lost(self, lost: frozenset[Lease], reason: str) -> None:
        attempts = [attempt for attempt in self._worker_state.held() if attempt.lease in lost]
        for attempt in attempts:  # all, before the end of one frees its slot for the next
            self._worker_state.lose(attempt)
        self._withdraw_ended()
        for run in attempts:
            if run.stage is Stage.STARTED:
                log.warning(
                    "job %s (%s) lost its lease: %s; its result is refused if the job has moved on",
                    run.claim.id,
                    run.claim.task,
                    reason,
                    extra={**run.about, "event": "job.lease_lost"},
                )
                self._end(run, None, reason)

    def _withdraw_ended(self) -> None:
        """Remove prefetched jobs that must not start any more: they count as waiting."""
        for waiting in (self._worker_state.ready, self._worker_state.ready_async):
            for attempt in [one for one in list(waiting) if all(each.lost or each.cancelled for each in one.together)]:
                with contextlib.suppress(ValueError, IndexError):  # a runner was quicker
                    waiting.remove(attempt)
        if self._worker_state.ready_async:
            self._worker_state.wake_loop()  # it may have left a slot for a job that is gone now

    # -- runs that must end

    def _time_out(self, run: Attempt) -> None:
        if self._is_interrupted(run):
            return
        error = timeout_error(run.plan)
        where = self._where(run)
        if where:
            error.add_note(f"Its stack at the timeout:\n{where}")
        if callable(run.plan.retry.backoff):  # a user's function must not block the heartbeat
            run.deadline = NEVER
            threading.Thread(target=self._record_timeout, args=(run, error), daemon=True).start()
        else:
            self._record_timeout(run, error)

    def _is_interrupted(self, run: Attempt) -> bool:
        """Interrupt the task of a run that may have some more seconds to end in; False if it has had them."""
        interrupt = run.interrupt
        if interrupt is None or run.is_interrupted:
            return False
        run.is_interrupted = True
        run.context.note_timeout()
        if not interrupt():
            return False
        run.deadline = time.monotonic() + run.plan.interrupt
        text = "job %s (%s): %s; it is interrupted, and has %g s to end"
        extra = {**run.about, "event": "job.interrupted"}
        log.warning(text, run.claim.id, run.claim.task, timeout_error(run.plan), run.plan.interrupt, extra=extra)
        return True

    def _record_timeout(self, run: Attempt, error: JobTimeout) -> None:
        extra = {**run.about, "event": "job.timed_out"}
        log.warning("job %s (%s): %s", run.claim.id, run.claim.task, error, extra=extra)
        outcome = outcome_of_error(run.plan, run.claim, error, self._worker_state.now)
        self._end(run, run.context.enclosed(outcome), "timed out")

    def _end(self, run: Attempt, outcome: Outcome | None, reason: str) -> None:
        end_run(self._worker_state, self._threads, run, outcome, reason)

    def _where(self, run: Attempt) -> str:
        return stack_of(run.thread) if run.thread else ""

    # -- the event loop watchdog

    def _check_loop(self) -> None:
        seconds = self._loop.blocked_for()
        if seconds < _BLOCKED:
            self._logged = None
            return
        run, thread = self._loop.blocker()
        if run is not None and run is not self._logged:
            self._logged = run
            log.warning(
                "job %s (%s) has blocked the event loop for %.1f s; use `def`, asyncio.to_thread or "
                "isolation='process' for blocking work. Its stack:\n%s",
                run.claim.id,
                run.claim.task,
                seconds,
                stack_of(thread) or "(unknown)",
                extra=run.about,
            )


def stack_of(thread: int | None) -> str:
    """The stack of a thread, from the task's own code on."""
    frame = frame_of(thread)
    frames = [(each, line) for each, line in traceback.walk_stack(frame)] if frame else []
    outer = next((n for n, (each, _) in enumerate(frames) if is_worker_frame(each)), len(frames))
    return "".join(traceback.StackSummary.extract(reversed(frames[:outer])).format())


def end_run(worker_state: WorkerState, threads: Threads, run: Attempt, outcome: Outcome | None, reason: str) -> None:
    """End a run from outside: record the outcome, if any counts; stop its task, and free its slot."""
    if not (worker_state.abandon(run) if outcome is None else worker_state.end(run, outcome)):
        return
    if run.batch is not None and run.batch.last is not run:
        run.context.add_stop_reason(reason)  # the call goes on for the other jobs of the batch
        return
    run.stop(reason)
    if run.plan.isolation != "async":  # a coroutine frees its slot when its cancellation is done
        threads.abandon_one()
        worker_state.free_slot(run.slot)
        threads.ensure()


def release_runs(worker_state: WorkerState, threads: Threads) -> None:
    """Release the jobs that still run, as the worker stops."""
    for run in worker_state.started():
        extra = {**run.about, "event": "job.released"}
        log.warning("job %s (%s) did not finish in time; released", run.claim.id, run.claim.task, extra=extra)
        outcome = outcomes.release(run.claim, "its worker was stopped", worker_state.now())
        end_run(worker_state, threads, run, outcome, "the worker stops")
