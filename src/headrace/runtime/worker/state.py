"""The state that a worker's threads share: its attempts, those that wait for a runner, those that wait to be settled.

Deques are used for operations that the interpreter makes atomic. A lock guards the stages alone: of two threads that
end one attempt, its runner and the heartbeat on a timeout, the second one's outcome is dropped.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from headrace.core.clock import Clock
from headrace.core.codec.encryption import Cipher
from headrace.core.jobs.details import STREAM
from headrace.core.jobs.outcomes import cancel
from headrace.core.jobs.records import Claim, JobNote, Lease, Outcome
from headrace.engines.protocol.core import WorkerLiveness
from headrace.engines.shared.shield import shielded
from headrace.runtime.context.worker_link import WorkerLink
from headrace.runtime.jobs.encryption import encrypted_note
from headrace.runtime.process.liveness import ThreadLiveness
from headrace.runtime.worker.attempt import NEVER, Attempt, Batch, Stage
from headrace.runtime.worker.cancel_requests import CancelRequest
from headrace.runtime.worker.gathering import Gathering
from headrace.runtime.worker.stream_buffer import StreamBuffer
from headrace.runtime.worker.tracing import end_span

log = logging.getLogger("headrace.worker")

CLAIMED, STARTED, ABANDONED, ENDED, SETTLED, LOST = Stage  # a lookup in the class is slow


class WorkerState:
    """The shared state of one worker."""

    def __init__(
        self, concurrency: int, clock: Clock, ring: Callable[[], None], link: WorkerLink, cipher: Cipher | None = None
    ) -> None:
        self.concurrency = concurrency
        self._pid = os.getpid()
        self.now = clock.now
        self.ring = ring
        self.link = link
        self.attempts: dict[Lease, Attempt] = {}  # claimed and not settled; a job may come back while its last run ends
        self._moving = threading.Lock()
        self.running = 0  # how many are started
        self.ready: deque[Attempt] = deque()
        self.ready_async: deque[Attempt] = deque()
        self.done: deque[Attempt] = deque()
        self.notes: deque[JobNote] = deque()
        self.streams = StreamBuffer(ring, cipher)
        self._cipher = cipher
        self.begun: deque[Attempt] = deque()  # whose start no event has reported
        self.slots: list[int] = list(range(concurrency))
        self.slots_for_loop: deque[int] = deque()  # slots that threads left to the event loop; no thread takes them
        self.loop_responded = threading.Event()  # set when the loop has run since a thread last handed a slot over
        self.loop_responded.set()
        self.liveness: WorkerLiveness | None = None
        self.low_water = 0
        self.began = 0
        self.cancelled_coroutines: set[Attempt] = set()  # and not ended yet; only their loop changes it
        self.next_check = NEVER
        self.check_soon: Callable[[], None] = lambda: None
        self.wake_loop: Callable[[], None] = lambda: None
        self.work = threading.Condition()
        self.loop_liveness = ThreadLiveness("worker loop")
        self.gathering = Gathering()

    # -- stages

    def claimed(self, claims: Iterable[Claim]) -> list[Attempt]:
        """Hold these claims."""
        attempts = [Attempt(claim) for claim in claims]
        for attempt in attempts:
            self.attempts[attempt.lease] = attempt
        return attempts

    def begin(self, attempt: Attempt, slot: int) -> bool:
        """Start an attempt, or its batch, in this slot; False if its lease was lost meanwhile."""
        if attempt.batch is not None:
            return self._begin_batch(attempt.batch, slot)
        attempt.prepare(slot, self.link)
        if not self._move(attempt, CLAIMED, STARTED):
            if attempt.trace is not None:
                end_span(attempt.trace, None)
            return False
        self._begun(attempt)
        return True

    def _begin_batch(self, batch: Batch, slot: int) -> bool:
        """Start those that still have their lease, all before one of them can end."""
        for attempt in batch.attempts:
            attempt.prepare(slot, self.link)
        with self._moving:
            started = [attempt for attempt in batch.attempts if attempt.stage is CLAIMED]
            lost = [attempt for attempt in batch.attempts if attempt.stage is not CLAIMED]
            for attempt in started:
                attempt.stage = STARTED
            batch.attempts, batch.open = started, len(started)
            self.running += bool(started)
        for attempt in lost:
            if attempt.trace is not None:
                end_span(attempt.trace, None)
        for attempt in started:
            self._begun(attempt)
        return bool(started)

    def _begun(self, attempt: Attempt) -> None:
        self.begun.append(attempt)
        self.began += 1
        if self.liveness is not None:
            attempt.place = self.liveness.begin(attempt.claim.ref)
        if attempt.deadline < self.next_check:
            self.check_soon()
        if self.done and self.waiting <= self.low_water:
            self.ring()  # runs that ended while this one was queued did not ring, and this one may take long

    def end(self, attempt: Attempt, outcome: Outcome, *, rings: bool = True) -> bool:
        """Queue the outcome of a run; False if another thread ended or abandoned the run before.

        The outcome of an abandoned run is sent as well: the store decides by version whether it counts, and records a
        refusal in the job's history.
        """
        if os.getpid() != self._pid:  # a task that forked returned twice, and this is the copy
            os._exit(0)
        if not self._move(attempt, STARTED, ENDED):
            if self.end_without_slot(attempt, outcome, ABANDONED):
                self.ring()
            return False
        if attempt.trace is not None:
            end_span(attempt.trace, outcome)
        attempt.outcome, attempt.ended = self._effective(attempt, outcome), time.monotonic()
        if attempt.place is not None and self.liveness is not None:
            self.liveness.ended(attempt.place, attempt.claim.ref)
        self.done.append(attempt)
        if rings and self.waiting <= self.low_water:
            self.ring()
        return True

    def end_batch(self, batch: Batch, outcomes: Mapping[Attempt, Outcome]) -> bool:
        """Queue the outcomes of a batch; False if another thread ended the last attempt, and thereby its slot."""
        ended = [attempt for attempt in batch.attempts if self.end(attempt, outcomes[attempt], rings=False)]
        self.ring()
        if ended:
            task, seconds = ended[0].claim.task, ended[0].seconds
            log.debug("a batch of %d jobs (%s) took %.3f s", len(ended), task, seconds, extra={"event": "batch.ended"})
        return batch.last in ended

    def end_without_slot(self, attempt: Attempt, outcome: Outcome, stage: Stage = CLAIMED) -> bool:
        """Queue the outcome of an attempt that takes no slot; False if it is not in this stage any more."""
        if not self._move(attempt, stage, ENDED):
            return False
        attempt.outcome = self._effective(attempt, outcome)
        self.done.append(attempt)
        return True

    def _effective(self, attempt: Attempt, outcome: Outcome) -> Outcome:
        """The outcome, or the cancellation that the store has asked for: it would refuse everything else."""
        return outcome if attempt.cancelled is None else cancel(attempt.lease, attempt.cancelled, self.now())

    def abandon(self, attempt: Attempt) -> bool:
        """Let a run without its lease go on, outside its slot; False if it has ended."""
        if not self._move(attempt, STARTED, ABANDONED):
            return False
        if attempt.trace is not None:
            end_span(attempt.trace, None)
        if self.waiting <= self.low_water:
            self.ring()
        return True

    def cancel(self, attempt: Attempt, request: CancelRequest) -> bool:
        """The store wants the attempt to end: it holds the lease of the request from now on, and is cancelled when it
        has ended. False if it has ended before.
        """
        with self._moving:
            if attempt.stage not in (CLAIMED, STARTED):
                return False
            self._take_lease(attempt, request)
        if self.end_without_slot(attempt, cancel(request.lease, request.reason, self.now())):
            self.ring()
        return True

    def cancel_ended(
        self, done: list[Attempt], refused: list[Outcome], requests: Mapping[Lease, CancelRequest]
    ) -> tuple[list[Attempt], list[Outcome]]:
        """The same for those of these ended attempts whose outcome the store has refused for that; the others."""
        cancelled = {attempt for attempt in done if attempt.lease in requests}
        for attempt in cancelled:
            self._take_lease(attempt, requests[attempt.lease])
            attempt.outcome = self._effective(attempt, attempt.outcome)
            self.done.append(attempt)
            self.ring()
        return (
            [attempt for attempt in done if attempt not in cancelled],
            [outcome for outcome in refused if outcome.lease not in requests],
        )

    def _take_lease(self, attempt: Attempt, request: CancelRequest) -> None:
        self.attempts.pop(attempt.lease, None)
        attempt.lease, attempt.cancelled = request
        self.attempts[attempt.lease] = attempt

    def lose(self, attempt: Attempt) -> None:
        """The lease of an attempt is lost: renew it no more, and do not start it."""
        attempt.lost = True
        if self._move(attempt, CLAIMED, LOST):
            self.attempts.pop(attempt.lease, None)

    def settled(self, attempt: Attempt) -> None:
        """Forget an attempt that the store has settled or refused."""
        attempt.stage = SETTLED
        self.attempts.pop(attempt.lease, None)
        if attempt.place is not None and self.liveness is not None:
            self.liveness.settled(attempt.place)

    def _move(self, attempt: Attempt, source: Stage, target: Stage) -> bool:
        """Move an attempt from one stage to another; False if it is not in that stage."""
        with self._moving:
            if attempt.stage is not source:
                return False
            attempt.stage = target
            if target is STARTED:
                self.running += 1
            elif source is STARTED:
                self.running -= attempt.batch is None or attempt.batch.close(attempt)
            return True

    def started(self) -> list[Attempt]:
        """The attempts that run now."""
        return [attempt for attempt in list(self.attempts.values()) if attempt.stage is STARTED]

    def held(self) -> list[Attempt]:
        """The attempts whose lease is to be renewed."""
        return [attempt for attempt in list(self.attempts.values()) if not attempt.lost]

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

    # -- attempts that wait for a runner

    def place(self, attempts: Sequence[Attempt]) -> None:
        """Hand claimed attempts to the runners."""
        threads, coroutines = 0, 0
        for attempt in attempts:
            if attempt.plan.isolation == "async":
                self.ready_async.append(attempt)
                coroutines += 1
            else:
                self.ready.append(attempt)
                threads += 1
        if coroutines:
            self.wake_loop()
        if threads:
            with self.work:
                self.work.notify(threads)

    def withdraw_unstarted(self) -> list[Attempt]:
        """The attempts that no runner has begun."""
        attempts = self.gathering.withdraw()
        for waiting in (self.ready, self.ready_async):
            while waiting:
                try:
                    attempts += waiting.popleft().together
                except IndexError:  # a runner was quicker
                    break
        return attempts

    # -- what runs report

    @shielded
    def note(self, note: JobNote) -> None:
        if note.level == STREAM:
            self.streams.add(note)
        else:
            self.notes.append(encrypted_note(self._cipher, note))

    # -- counts

    def has_jobs(self) -> bool:
        return bool(self.running or self.waiting)

    @property
    def waiting(self) -> int:
        return len(self.ready) + len(self.ready_async)
