"""The hooks of a tracer: around the submission of jobs, and around each attempt.

An app has one tracer or, mostly, none; then this costs one check. It knows neither what a span is nor where one goes;
`headrace.contrib.otel` does.
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
    """One attempt. Inside a `with`, its task's actions belong to it."""

    def __enter__(self) -> object: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None, /
    ) -> None: ...

    @property
    def has_past(self) -> bool:
        """Whether the attempt has predecessors to link to."""
        ...

    def link_predecessors(self) -> None:
        """Link the attempt to its predecessors: its job's last attempt, its parents. This reads the store."""
        ...

    def handed_on(self, claim: Claim) -> Claim:
        """The claim for a sandbox, so that spans there belong to this attempt."""
        ...

    def end(self, outcome: Outcome | None) -> None:
        """The attempt has ended, without an outcome if its lease was lost."""
        ...


class Tracer(Protocol):
    """Traces jobs across processes."""

    def submitting(self, what: object) -> AbstractContextManager[Callable[[Sequence[Job[Any]]], None]]:
        """Around the insert of a call, of several, or of a flow; receives the jobs."""
        ...

    def begin(self, claim: Claim, log: Callable[..., None]) -> Traced:
        """An attempt begins; `log` adds a line to its job's log."""
        ...

    def inside(self, claim: Claim) -> AbstractContextManager[None]:
        """In a sandbox: around the run of a claim from `handed_on`."""
        ...

    def flush(self) -> None:
        """In a sandbox, which may be killed at any moment: export the collected spans."""
        ...


class Submitting(Protocol):
    """An object that submits jobs, and may be traced."""

    tracer: Tracer | None


S = TypeVar("S", bound=Submitting)


def traced(submit: Callable[[S, W], R]) -> Callable[[S, W], R]:
    """Wrap a submitting method with the tracer, if there is one."""

    @functools.wraps(submit)
    def submitting(self: S, what: W) -> R:
        if self.tracer is None:
            return submit(self, what)
        with self.tracer.submitting(what) as report:
            jobs = submit(self, what)
            report(jobs if isinstance(jobs, list) else [jobs])
            return jobs

    return submitting


def atraced(submit: Callable[[S, W], Coroutine[Any, Any, R]]) -> Callable[[S, W], Coroutine[Any, Any, R]]:
    """The same for coroutines."""

    @functools.wraps(submit)
    async def submitting(self: S, what: W) -> R:
        if self.tracer is None:
            return await submit(self, what)
        with self.tracer.submitting(what) as report:
            jobs = await submit(self, what)
            report(jobs if isinstance(jobs, list) else [jobs])
            return jobs

    return submitting
