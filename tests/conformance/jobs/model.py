"""The small model: what a store must do, as a dictionary and a few lines for each operation.

Written from the contract alone and as plainly as possible; `test_machine` holds every engine against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headrace.core.jobs.records import Claim, JobRow, JobUpdate, NewJob, Outcome
from headrace.core.jobs.states import FINAL, NOT_STARTED, State, Trigger, sources

PUT_OFF = (State.SCHEDULED, State.RETRYING)


@dataclass
class ModelJob:
    """The part of a job's row that transitions touch."""

    id: str
    seq: int
    queue: str
    state: State
    priority: int
    rank: int
    run_at: int
    max_attempts: int
    expires_at: int | None
    version: int = 1
    attempt: int = 0
    crashes: int = 0
    releases: int = 0
    lease_until: int | None = None
    finished: bool = False

    def go(self, state: State) -> None:
        self.state = state
        self.version += 1
        self.lease_until = None
        self.finished = state in FINAL

    def set_time(self, run_at: int) -> None:
        self.run_at = run_at
        self.rank = -run_at if self.rank < 0 else run_at

    def looks_like(self, row: JobRow) -> bool:
        own = (self.queue, self.state, self.priority, self.rank, self.run_at, self.max_attempts, self.expires_at)
        counted = (self.version, self.attempt, self.crashes, self.releases, self.lease_until, self.finished)
        return own == (
            row.queue,
            row.state,
            row.priority,
            row.rank,
            row.run_at,
            row.max_attempts,
            row.expires_at,
        ) and counted == (
            row.version,
            row.attempt,
            row.crashes,
            row.releases,
            row.lease_until,
            row.finished_at is not None,
        )


class Model:
    """All jobs and all pauses."""

    def __init__(self) -> None:
        self.jobs: dict[str, ModelJob] = {}
        self.paused: set[str] = set()
        self._seq = 0

    def those(self, *states: State) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.state in states]

    def insert(self, new: NewJob) -> bool:
        if new.id in self.jobs:
            return False
        self._seq += 1
        self.jobs[new.id] = ModelJob(
            new.id,
            self._seq,
            new.queue,
            new.state,
            new.priority,
            new.rank,
            new.run_at,
            new.max_attempts,
            new.expires_at,
            new.version,
        )
        return True

    def pass_time(self, now: int) -> None:
        """What a claim does first: lapse what expired, then promote what is due."""
        for job in self.those(*NOT_STARTED):
            if job.expires_at is not None and job.expires_at <= now:
                job.go(State.CANCELLED)
        for job in self.those(*PUT_OFF):
            if job.run_at <= now:
                job.go(State.PENDING)

    def claimable(self, queue: str) -> list[str]:
        if queue in self.paused:
            return []
        waiting = [job for job in self.those(State.PENDING) if job.queue == queue]
        return [job.id for job in sorted(waiting, key=lambda job: (-job.priority, job.rank, job.seq))]

    def claim(self, claimed: Claim, until: int) -> None:
        job = self.jobs[claimed.id]
        job.go(State.RUNNING)
        job.attempt += 1
        job.lease_until = until
        assert (claimed.version, claimed.attempt) == (job.version, job.attempt)

    def settle(self, outcome: Outcome) -> bool:
        job = self.jobs.get(outcome.id)
        if job is None or job.version != outcome.version:
            return False
        job.go(outcome.state)
        job.attempt -= outcome.attempt_refund
        job.releases += outcome.attempt_refund
        if outcome.event in {Trigger.RETRY, Trigger.SNOOZE}:  # a run that came to an end: no crash loop
            job.crashes = 0
        if outcome.run_at is not None:
            job.set_time(outcome.run_at)
        return True

    def renew(self, job_id: str, version: int, until: int, now: int) -> bool:
        job = self.jobs.get(job_id)
        if job is None or job.version != version or job.lease_until is None or job.lease_until <= now:
            return False
        job.lease_until = until
        return True

    def overdue(self, now: int) -> set[str]:
        return {job.id for job in self.those(State.RUNNING) if (job.lease_until or 0) <= now}

    def reap(self, job_id: str) -> State:
        job = self.jobs[job_id]
        job.go(State.PENDING if job.attempt < job.max_attempts else State.FAILED)
        job.crashes += 1
        return job.state

    def move(self, which: Callable[[ModelJob], bool], event: Trigger, limit: int, now: int) -> list[str]:
        found = [job for job in self.those(*sources(event)) if which(job)]
        found = sorted(found, key=lambda job: job.seq)[:limit]
        for job in found:
            self._move(job, event, now)
        return [job.id for job in found]

    def _move(self, job: ModelJob, event: Trigger, now: int) -> None:
        if event is Trigger.DELETE:
            del self.jobs[job.id]
            return
        job.go(State.CANCELLED if event is Trigger.CANCEL else State.PENDING)
        if event in {Trigger.REVIVE, Trigger.PROMOTE_NOW}:
            job.set_time(now)
        if event is Trigger.REVIVE:
            job.attempt = job.crashes = 0
            job.expires_at = None

    def update(self, job_id: str, changes: JobUpdate, now: int) -> bool:
        job = self.jobs.get(job_id)
        if job is None or job.state not in NOT_STARTED:
            return False
        state = job.state
        if changes.run_at is not None:
            job.set_time(changes.run_at)
            late = State.RETRYING if state is State.RETRYING else State.SCHEDULED
            state = late if changes.run_at > now else State.PENDING
        job.go(state)
        job.priority = job.priority if changes.priority is None else changes.priority
        job.queue = job.queue if changes.queue is None else changes.queue
        return True

    def open(self) -> Iterable[ModelJob]:
        return [job for job in self.jobs.values() if job.state not in FINAL]
