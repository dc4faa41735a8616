"""The seam: what a store must do, each contract once, in sentences.

Engines are plain blocking classes, safe to call from any thread and, after a fork, from the child. Every method
that changes jobs is one atomic commit. `now` (milliseconds, UTC) is the store's own clock unless it is given.
An engine executes rows of `core.states.TRANSITIONS` and decides nothing else. Every transition expects a version
and leaves it one higher.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from headrace.core.model import (
    Changes,
    Depth,
    Exchanged,
    Filing,
    Filter,
    JobRow,
    Lease,
    LogLine,
    NewJob,
    Note,
    Outcome,
    Page,
    QueueRow,
    Reaped,
    Renewal,
    Want,
    WorkerRow,
)
from headrace.core.states import Event


class Bell(Protocol):
    """Wakes one listener. A ring between a read of the store and the wait after it is never lost."""

    def wait(self, timeout: float | None) -> bool:
        """Sleep until rung or until the timeout; True if rung. Rings that came before count, once."""
        ...

    def ring(self) -> None:
        """Wake this listener from within its own process."""
        ...

    def close(self) -> None: ...


class Presence(Protocol):
    """A worker's sign of life, which the store may use to notice its death before the lease runs out."""

    def starting(self, slot: int, ref: int) -> None:
        """Remember, beyond a kill -9, that the claim `ref` was begun in this slot (0 clears it)."""
        ...

    def close(self) -> None: ...


class HotEngine(Protocol):
    """The path every job takes."""

    def insert(self, jobs: Sequence[NewJob], *, whole: bool = False, now: int | None = None) -> list[bool]:
        """Store the jobs and ring for them; answer for each whether it is new (False: its id was taken).

        With `whole`, a taken id raises DuplicateJob and nothing at all is stored.
        """
        ...

    def exchange(
        self,
        outcomes: Sequence[Outcome],
        want: Want | None,
        notes: Sequence[Note] = (),
        now: int | None = None,
    ) -> Exchanged:
        """Store notes, settle outcomes and claim jobs, in this order and in one commit.

        An outcome whose version is not the job's changes nothing but leaves a `lease lost` entry in its history.
        A claim first lets lapse what expired and promotes what is due, skips paused queues, and takes jobs in the
        order priority (high first), due time, submission.
        """
        ...

    def renew(self, worker: WorkerRow, leases: Sequence[Lease], ttl: int, now: int | None = None) -> Renewal:
        """Extend the leases that are still held and not yet run out, and record the worker as alive.

        It answers with the leases that are lost, not with ids: the same job may be leased to this worker anew.
        """
        ...

    def reap(self, limit: int, now: int | None = None) -> list[Reaped]:
        """Take jobs from workers that died or let their lease run out.

        A begun attempt is spent: the job retries at once, or fails as `worker_lost` when none is left. A job that
        was only fetched ahead by a worker known to be dead gets its attempt back.
        """
        ...


class Desk(Protocol):
    """What operators and waiting callers ask, and what an operator may do."""

    def move(self, which: Filter, event: Event, limit: int, by: str | None = None, now: int | None = None) -> list[str]:
        """Apply CANCEL, REVIVE, HURRY or DELETE to at most `limit` matching jobs in a legal state; their ids."""
        ...

    def amend(self, job_id: str, changes: Changes, by: str | None = None, now: int | None = None) -> bool:
        """Change a job that has not started; False if it is not in such a state."""
        ...

    def get(self, ids: Sequence[str]) -> list[JobRow]:
        """The jobs that exist of these, in no particular order."""
        ...

    def finished(self, ids: Collection[str]) -> set[str]:
        """Which of these are in a final state or do not exist."""
        ...

    def find(self, which: Filter, limit: int, cursor: str | None = None) -> Page:
        """Matching jobs, newest first."""
        ...

    def peek(self, queue: str, limit: int) -> list[JobRow]:
        """The pending jobs of the queue in the order they will be claimed."""
        ...

    def count(self, which: Filter) -> int:
        """How many jobs match."""
        ...

    def depths(self) -> list[Depth]:
        """The number of jobs for each queue and state that has any."""
        ...

    def history(self, job_id: str) -> list[Filing]:
        """What was filed about the job, oldest first."""
        ...

    def logs(self, job_id: str, limit: int = 1000) -> list[LogLine]:
        """The newest `limit` lines the job logged, oldest first."""
        ...

    def queues(self) -> list[QueueRow]:
        """Every queue that ever had a job or a setting, by name."""
        ...

    def pause_queue(self, name: str, paused: bool) -> None:
        """Stop or restart claims from the queue, for every worker, from the next claim on."""
        ...

    def workers(self) -> list[WorkerRow]:
        """The workers that reported themselves and did not sign off, oldest first.

        `running` is told by the leases they hold, up to their concurrency: a report would be a heartbeat old.
        """
        ...

    def wish(self, worker_id: str, wish: str) -> bool:
        """Ask a worker to run, pause or stop; False if it is not known."""
        ...


class Engine(HotEngine, Protocol):
    """A store: the hot path, the desk, its workers, bells and tables."""

    @property
    def url(self) -> str: ...

    @property
    def desk(self) -> Desk: ...

    def attend(self, worker: WorkerRow) -> Presence:
        """Sign a worker on."""
        ...

    def sign_off(self, worker_id: str) -> None:
        """Forget a worker that ended in order."""
        ...

    def listen(self, topic: str) -> Bell:
        """A bell for "work" (jobs may be claimable), "done" (jobs finished) or "orders" (a worker is addressed)."""
        ...

    def ring(self, topic: str) -> None:
        """Wake every listener of the topic, in any process."""
        ...

    def schema(self) -> tuple[int, int]:
        """The version of the store's tables and the one this headrace works with."""
        ...

    def migrate(self) -> list[str]:
        """Bring the tables to the current version; the names of the migrations that ran."""
        ...

    def check(self) -> list[str]:
        """Inspect the store for damage and hazards; one sentence for each finding."""
        ...

    def facts(self) -> dict[str, str | int]:
        """What an operator should know of the store: file, sizes, versions, settings."""
        ...

    def disconnect(self) -> None:
        """Close every connection; the store stays."""
        ...

    def close(self) -> None:
        """Release everything. A closed engine opens itself again when it is used."""
        ...
