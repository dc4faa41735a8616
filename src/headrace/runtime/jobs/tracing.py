"""Where a tracer takes hold: around the submitting of jobs, and around each attempt to run one.

An app has one tracer or, mostly, none, and then all of this is a question whether there is one. It knows neither what
a span is nor where one goes; `headrace.contrib.otel` does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, TypeVar

from headrace.core.jobs.records import Claim, Outcome
from headrace.runtime.jobs.job import Job

W = TypeVar("W")
R = TypeVar("R", bound="Job[Any] | list[Job[Any]]")


class Traced(Protocol):
    """One attempt. Inside a `with`, what its task does belongs to it."""

    def __enter__(self) -> object: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None, /
    ) -> None: ...

    @property
    def has_past(self) -> bool:
        """Whether something came before it that it should be linked to."""
        ...

    def look_back(self) -> None:
        """Link it to what came before it: its job's last attempt, the jobs it waited for. This reads the store."""
        ...

    def handed_on(self, claim: Claim) -> Claim:
        """The claim for a sandbox, so that what happens there belongs to this attempt."""
        ...

    def end(self, outcome: Outcome | None) -> None:
        """It is over, without an outcome if its lease was lost."""
        ...


class Tracer(Protocol):
    """Follows jobs through processes."""

    def submitting(self, what: object) -> AbstractContextManager[Callable[[Sequence[Job[Any]]], None]]:
        """Around the storing of a call, of several, or of a flow; to be told the jobs."""
        ...

    def begin(self, claim: Claim, log: Callable[..., None]) -> Traced:
        """An attempt begins; `log` adds a line to its job's log."""
        ...

    def inside(self, claim: Claim) -> AbstractContextManager[None]:
        """In a sandbox: around the run of a claim that was handed on."""
        ...

    def flush(self) -> None:
        """In a sandbox, which may be killed at any moment: let go of what was gathered."""
        ...


class Submitting(Protocol):
    """Whatever submits, and may be traced."""

    tracer: Tracer | None


S = TypeVar("S", bound=Submitting)


def traced(submit: Callable[[S, W], R]) -> Callable[[S, W], R]:
    """Have the tracer around a method that submits, if there is one."""

    @functools.wraps(submit)
    def submitting(self: S, what: W) -> R:
        if self.tracer is None:
            return submit(self, what)
        with self.tracer.submitting(what) as tell:
            jobs = submit(self, what)
            tell(jobs if isinstance(jobs, list) else [jobs])
            return jobs

    return submitting


def atraced(submit: Callable[[S, W], Coroutine[Any, Any, R]]) -> Callable[[S, W], Coroutine[Any, Any, R]]:
    """The same for coroutines."""

    @functools.wraps(submit)
    async def submitting(self: S, what: W) -> R:
        if self.tracer is None:
            return await submit(self, what)
        with self.tracer.submitting(what) as tell:
            jobs = await submit(self, what)
            tell(jobs if isinstance(jobs, list) else [jobs])
            return jobs

    return submitting
