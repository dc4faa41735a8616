"""One attempt, from its claim until the store has settled it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from headrace.core.jobs.records import Claim, Lease, Outcome
from headrace.runtime.context.current_job import JobContext
from headrace.runtime.context.logs import about
from headrace.runtime.context.worker_link import WorkerLink
from headrace.runtime.jobs.tracing import Traced
from headrace.runtime.worker.execution import RunSpec
from headrace.runtime.worker.tracing import begin_span

NEVER = float("inf")


class Stage(Enum):
    """How far an attempt is, and what may follow. The thread that makes a move first decides; a later one fails."""

    CLAIMED = "claimed"  # held, and not started: STARTED, LOST, or ENDED if it is released or refused
    STARTED = "started"  # ENDED, or ABANDONED
    ABANDONED = "abandoned"  # its lease was lost, and its function goes on: ENDED
    ENDED = "ended"  # its outcome is not settled yet: SETTLED
    SETTLED = "settled"  # the store has accepted or refused the outcome
    LOST = "lost"  # its lease was lost before it started


_CLAIMED = Stage.CLAIMED  # a lookup in the class is slow


class Attempt:
    """Everything a worker knows of one attempt. `WorkerState` moves it from stage to stage."""

    __slots__ = (
        "abort",
        "batch",
        "began_at",
        "cancelled",
        "claim",
        "context",
        "deadline",
        "ended",
        "error",
        "interrupt",
        "is_interrupted",
        "lease",
        "lost",
        "outcome",
        "place",
        "plan",
        "slot",
        "stage",
        "started",
        "thread",
        "trace",
    )
    plan: RunSpec  # from its planning on
    context: JobContext  # these two from its start on
    slot: int
    outcome: Outcome  # from its end on

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.lease = Lease(claim.id, claim.version)
        self.stage = _CLAIMED
        self.cancelled: str | None = None  # why the store wants it to end; its lease is that of the request then
        self.lost = False  # whether the lease is; the outcome is sent all the same, and the store decides
        self.started = self.ended = 0.0
        self.began_at = 0  # as its events say it
        self.deadline = NEVER
        self.place: int | None = None  # in the liveness file
        self.thread: int | None = None
        self.error: BaseException | None = None  # what the task raised
        self.abort: Callable[[str], Any] | None = None
        self.interrupt: Callable[[], bool] | None = None  # raises inside the task; False if its function is over
        self.is_interrupted = False  # at its timeout
        self.trace: Traced | None = None
        self.batch: Batch | None = None

    def prepare(self, slot: int, link: WorkerLink) -> None:
        """Set what a run needs, before it starts."""
        self.slot = slot
        self.started = time.monotonic()
        timeout, tracer = self.plan.timeout, self.plan.tracer
        if timeout is not None:
            self.deadline = self.started + timeout
        deadline = None if timeout is None else link.now() + int(timeout * 1000)
        self.context = JobContext(self.claim, deadline, link, self.batch is not None)
        if tracer is not None:
            self.trace = begin_span(tracer, self.claim, self.context.log)

    def load(self) -> None:
        """Load the call if it is in the payload store. What masks secrets in errors and logs needs it, too."""
        if self.plan.is_outside(self.claim):
            self.claim = self.context.claim = self.plan.loaded(self.claim)

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return (self.ended or time.monotonic()) - self.started

    @property
    def about(self) -> dict[str, Any]:
        """The `extra` of a log line."""
        return about(self.claim, self.context.worker)

    @property
    def together(self) -> Sequence[Attempt]:
        """The attempts that its call runs: those of its batch, or itself."""
        return (self,) if self.batch is None else self.batch.attempts

    def stop(self, reason: str) -> None:
        """Request that the task stops, and abort it where that is possible."""
        self.context.add_stop_reason(reason)
        abort = self.abort
        if abort is not None:
            abort(reason)


class Batch:
    """Attempts that one call runs in one slot. `WorkerState` counts how many are open; the last one frees the slot."""

    __slots__ = ("attempts", "last", "open")

    def __init__(self, attempts: list[Attempt]) -> None:
        self.attempts = attempts
        self.open = 0
        self.last: Attempt | None = None  # that ended, or lost its lease
        for attempt in attempts:
            attempt.batch = self

    def load(self) -> dict[Attempt, Exception]:
        """Load their calls; the errors of those that can't be loaded."""
        failed: dict[Attempt, Exception] = {}
        for attempt in self.attempts:
            try:
                attempt.load()
            except Exception as error:
                failed[attempt] = error
        return failed

    def close(self, attempt: Attempt) -> bool:
        """An attempt is over; True if no other one is open."""
        self.open -= 1
        if self.open == 0:
            self.last = attempt
        return self.open == 0
