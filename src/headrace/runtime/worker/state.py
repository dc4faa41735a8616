"""The state that a worker's threads share: waiting claims, running attempts, outcomes to settle.

Deques and dicts are used for operations that the interpreter makes atomic, so a no-op job takes no lock. The thread
that removes a run from `running` first ends it: its runner, or the heartbeat on a timeout. The other's outcome is
dropped.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from headrace.core.clock import Clock
from headrace.core.jobs.records import Claim, JobNote, Outcome
from headrace.engines.protocol.core import WorkerLiveness
from headrace.runtime.context.current_job import JobContext, WorkerLink
from headrace.runtime.context.logs import about
from headrace.runtime.jobs.tracing import Traced
from headrace.runtime.process.liveness import ThreadLiveness
from headrace.runtime.worker.execution import RunSpec
from headrace.runtime.worker.tracing import begin_span, end_span

NEVER = float("inf")
_numbers = itertools.count(1)


class Attempt:
    """One attempt under way."""

    __slots__ = (
        "abort",
        "claim",
        "context",
        "deadline",
        "ended",
        "error",
        "lost",
        "number",
        "place",
        "plan",
        "slot",
        "started",
        "thread",
        "trace",
    )

    def __init__(self, claim: Claim, plan: RunSpec, slot: int, link: WorkerLink) -> None:
        self.number = next(_numbers)
        self.claim = claim
        self.plan = plan
        self.slot = slot
        self.place: int | None = None  # in the liveness file
        self.started = time.monotonic()
        self.ended = 0.0
        timeout = plan.timeout
        self.deadline = NEVER if timeout is None else self.started + timeout
        self.context = JobContext(claim, None if timeout is None else link.now() + int(timeout * 1000), link)
        self.thread: int | None = None
        self.lost = False
        self.error: BaseException | None = None  # what the task raised
        self.abort: Callable[[str], Any] | None = None
        self.trace: Traced | None = None if plan.tracer is None else begin_span(plan.tracer, claim, self.context.log)

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return (self.ended or time.monotonic()) - self.started

    @property
    def about(self) -> dict[str, Any]:
        """The `extra` of a log line."""
        return about(self.claim, self.context.worker)

    def stop(self, reason: str) -> None:
        """Request that the task stops, and abort it where that is possible."""
        self.context.add_stop_reason(reason)
        abort = self.abort
        if abort is not None:
            abort(reason)


class WorkerState:
    """The shared state of one worker."""

    def __init__(self, concurrency: int, clock: Clock, ring: Callable[[], None], link: WorkerLink) -> None:
        self.concurrency = concurrency
        self._pid = os.getpid()
        self.now = clock.now
        self.ring = ring
        self.link = link
        self.ready: deque[tuple[Claim, RunSpec]] = deque()
        self.ready_async: deque[tuple[Claim, RunSpec]] = deque()
        self.running: dict[int, Attempt] = {}
        self.done: deque[Outcome] = deque()
        self.notes: deque[JobNote] = deque()
        self.begun: deque[Attempt] = deque()
        self.slots: list[int] = list(range(concurrency))
        self.slots_for_loop: deque[int] = deque()  # slots that threads left to the event loop; no thread takes them
        self.loop_responded = threading.Event()  # set when the loop has run since a thread last handed a slot over
        self.loop_responded.set()
        self.liveness: WorkerLiveness | None = None
        # Begun and not settled, by id and version. Not all of these are held: the outcome of a run with a lost lease is
        # sent as well.
        self.open_attempts: dict[tuple[str, int], Attempt] = {}
        self.low_water = 0
        self.began = 0
        self.cancelled_coroutines: set[int] = set()  # and not ended yet; only their loop changes it
        self.next_check = NEVER
        self.check_soon: Callable[[], None] = lambda: None
        self.wake_loop: Callable[[], None] = lambda: None
        self.work = threading.Condition()
        self.loop_liveness = ThreadLiveness("worker loop")

    # -- runs

    def begin(self, claim: Claim, plan: RunSpec, slot: int) -> Attempt:
        run = Attempt(claim, plan, slot, self.link)
        self.running[run.number] = run
        self.begun.append(run)
        self.began += 1
        if self.liveness is not None:
            run.place = self.liveness.begin(claim.ref)
        self.open_attempts[claim.id, claim.version] = run
        if run.deadline < self.next_check:
            self.check_soon()
        if self.done and self.waiting <= self.low_water:
            self.ring()  # runs that ended while this one was queued did not ring, and this one may take long
        return run

    def end(self, run: Attempt, outcome: Outcome | None) -> bool:
        """Queue the outcome of a run; False if another thread ended the run before.

        The outcome of a run with a lost lease is sent as well: the store decides by version whether it counts, and
        records a refusal in the job's history.
        """
        if os.getpid() != self._pid:  # a task that forked returned twice, and this is the copy
            os._exit(0)
        if self.running.pop(run.number, None) is None:
            if run.lost and outcome is not None:
                self.done.append(outcome)
                self.ring()
            elif run.lost:
                self.settled(run.claim)
            return False
        if run.trace is not None:
            end_span(run.trace, outcome)
        if outcome is not None:
            run.ended = time.monotonic()
            if run.place is not None and self.liveness is not None:
                self.liveness.ended(run.place, run.claim.ref)
            self.done.append(outcome)
        elif not run.lost:
            self.settled(run.claim)
        if self.waiting <= self.low_water:
            self.ring()
        return True

    def settled(self, lease: Claim | Outcome) -> Attempt | None:
        """Forget a run that the store has settled or refused. None if it never began."""
        run = self.open_attempts.pop((lease.id, lease.version), None)
        if run is not None and run.place is not None and self.liveness is not None:
            self.liveness.settled(run.place)
        return run

    # -- slots: each run takes one, so `concurrency` bounds threads and coroutines together

    def take_slot(self) -> int | None:
        try:
            return self.slots.pop() if self.slots else None
        except IndexError:  # another runner was quicker
            return None

    def free_slot(self, slot: int) -> None:
        self.return_slot(slot)
        if self.ready_async:
            self.wake_loop()

    def return_slot(self, slot: int) -> None:
        """Free a slot from inside the event loop, which needs no wake-up."""
        self.slots.append(slot)
        if self.ready:
            with self.work:
                self.work.notify()

    # -- claims

    def place(self, planned: Iterable[tuple[Claim, RunSpec]]) -> None:
        """Hand claims to the runners."""
        threads, coroutines = 0, 0
        for claim, plan in planned:
            if plan.isolation == "async":
                self.ready_async.append((claim, plan))
                coroutines += 1
            else:
                self.ready.append((claim, plan))
                threads += 1
        if coroutines:
            self.wake_loop()
        if threads:
            with self.work:
                self.work.notify(threads)

    def withdraw_unstarted(self) -> list[Claim]:
        """The claims that no runner has begun."""
        claims = []
        for waiting in (self.ready, self.ready_async):
            while waiting:
                try:
                    claims.append(waiting.popleft()[0])
                except IndexError:  # a runner was quicker
                    break
        return claims

    def has_jobs(self) -> bool:
        return bool(self.running or self.waiting)

    @property
    def waiting(self) -> int:
        return len(self.ready) + len(self.ready_async)
