"""What a task sees of its own job while it runs: `current_job()`."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol, TypeVar

from headrace.core import codec
from headrace.core.clock import to_datetime
from headrace.core.model import Claim, Note, Outcome
from headrace.errors import HeadraceError, InvalidJob, LeaseLost
from headrace.runtime.job import Job
from headrace.runtime.spawning import Spawning
from headrace.runtime.task import Call
from headrace.runtime.twin import in_thread

R = TypeVar("R")
_LONGEST_LINE = 100_000
LEVELS = ("debug", "info", "warning", "error")


class Line(Protocol):
    """How a context reaches its worker."""

    def now(self) -> int: ...
    def note(self, note: Note) -> None: ...
    def renew(self, claim: Claim) -> bool:
        """Renew this one lease now; False if it is lost."""
        ...


class JobContext:
    """The running job: its identity, and the ways to report and to be told."""

    __slots__ = ("_claim", "_deadline_ms", "_line", "_spawning", "_told")

    def __init__(self, claim: Claim, deadline_ms: int | None, line: Line) -> None:
        self._claim = claim
        self._deadline_ms = deadline_ms
        self._line = line
        self._told: str | None = None
        self._spawning: Spawning | None = None

    @property
    def id(self) -> str:
        return self._claim.id

    @property
    def task(self) -> str:
        return self._claim.task

    @property
    def queue(self) -> str:
        return self._claim.queue

    @property
    def attempt(self) -> int:
        """Which run this is, from 1."""
        return self._claim.attempt

    @property
    def lease_version(self) -> int:
        """The version this attempt holds; a later holder has a higher one. Pass it on as a fencing token."""
        return self._claim.version

    @property
    def metadata(self) -> Mapping[str, Any]:
        return codec.decode(self._claim.metadata) if self._claim.metadata else {}

    @property
    def deadline(self) -> datetime | None:
        """When this attempt runs out of time, None if it has no timeout."""
        return to_datetime(self._deadline_ms)

    @property
    def cancel_requested(self) -> bool:
        """Whether to stop: the job was cancelled or timed out, its lease is lost, or the worker shuts down."""
        return self._told is not None

    @property
    def cancel_reason(self) -> str | None:
        return self._told

    def progress(self, value: float | Mapping[str, Any]) -> None:
        """Tell how far the job is: a share 0..1, or a dict of your own."""
        if isinstance(value, bool) or not isinstance(value, int | float | Mapping):
            raise InvalidJob(f"progress: expected a number from 0 to 1 or a dict, got {value!r}")
        if isinstance(value, int | float) and not 0 <= value <= 1:
            raise InvalidJob(f"progress: {value!r} is not a share from 0 to 1")
        text = codec.encode(dict(value) if isinstance(value, Mapping) else value)
        self._line.note(Note(self.id, self._claim.version, self._line.now(), progress=text))

    def log(self, message: str, level: str = "info", **fields: Any) -> None:
        """Add a line to the job's own log."""
        if level not in LEVELS:
            raise InvalidJob(f"log level: expected one of {', '.join(LEVELS)}, got {level!r}")
        details = codec.encode(fields) if fields else None
        note = Note(
            self.id, self._claim.version, self._line.now(), level=level, message=_clean(message), fields=details
        )
        self._line.note(note)

    def heartbeat(self) -> None:
        """Renew the lease now instead of at the next beat; LeaseLost if it is no longer ours."""
        if not self.still_held():
            raise LeaseLost(f"job {self.id}: {self._told or 'the lease is lost'}; stop working on it")

    async def aheartbeat(self) -> None:
        """Like heartbeat(), without blocking the event loop."""
        await in_thread(self.heartbeat)

    def spawn(self, call: Call[R], *, at_once: bool = False) -> Job[R]:
        """Have another job done, which this one has to wait for: it is not completed before. The handle of that job.

        It is stored together with this job's success, or not at all; with `at_once` it is stored now, and a later
        attempt that spawns in the same order finds it. If it does not complete, this job is cancelled, unless the
        call says `using(on_parent_failure="run")`, or "hold".
        """
        if self._spawning is None:
            self._spawning = Spawning(self._claim)
        return self._spawning.spawn(call, self._line.now(), at_once)

    async def aspawn(self, call: Call[R], *, at_once: bool = False) -> Job[R]:
        """Like spawn(), without blocking the event loop."""
        return await in_thread(self.spawn, call, at_once=at_once)

    def enclosed(self, outcome: Outcome) -> Outcome:
        """For the worker: the outcome with what the task spawned."""
        return outcome if self._spawning is None else self._spawning.enclosed(outcome)

    def relay(self, note: Note) -> None:
        """For the worker: pass on a note that the job's sandbox sent."""
        self._line.note(note)

    def still_held(self) -> bool:
        """For the worker: renew on behalf of the job's sandbox."""
        return self._told is None and self._line.renew(self._claim)

    def tell(self, reason: str) -> None:
        """For the worker: ask the task to stop."""
        self._told = self._told or reason

    def __repr__(self) -> str:
        return f"<JobContext {self.id} {self.task} attempt {self.attempt}>"


def _clean(message: object) -> str:
    # SQLite ends a text at a NUL in places; lone surrogates have no UTF-8.
    text = str(message)
    if len(text) > _LONGEST_LINE:
        text = f"{text[: _LONGEST_LINE - 1]}…"
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


current: ContextVar[JobContext] = ContextVar("headrace_job")


def current_job() -> JobContext:
    """The job that is running here. Outside of one it raises, so that a missing worker does not go unnoticed."""
    try:
        return current.get()
    except LookupError:
        raise HeadraceError("current_job() was called outside of a running job") from None
