"""Runs an app's hooks around the insert of calls. Without hooks this costs one check."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from headrace.core.text import short
from headrace.errors import ConfigError
from headrace.runtime.jobs.hooks import Hook, Hooks
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.task import Call

Report = Callable[[Sequence[Job[Any]]], None]
R = TypeVar("R")


class Hooked(Protocol):
    """An object that inserts calls, with hooks around it."""

    hooks: Hooks


S = TypeVar("S", bound=Hooked)


@contextlib.contextmanager
def around(hooks: Hooks, calls: Sequence[Call[Any]]) -> Iterator[tuple[list[Call[Any]], Report]]:
    """The calls as the hooks changed them, and a function that takes the jobs. An error reaches the hooks."""
    changed, generators = list(calls), list[tuple[int, Generator[Any, Any, Any]]]()
    jobs: list[Job[Any]] = []
    try:
        for place, call in enumerate(changed):
            for hook in hooks.enqueue:
                call = changed[place] = _begin(hook, call, place, generators)
        yield changed, jobs.extend
        while generators:
            place, generator = generators.pop()
            _end(generator, jobs[place] if place < len(jobs) else None)
    except BaseException as error:
        for _, generator in reversed(generators):
            _throw(generator, error)
        raise


def _begin(hook: Hook, call: Call[Any], place: int, begun: list[tuple[int, Generator[Any, Any, Any]]]) -> Call[Any]:
    result = hook(call)
    if inspect.isgenerator(result):
        generator = result
        try:
            result = next(generator)
        except StopIteration as stop:
            result = stop.value
        else:
            begun.append((place, generator))
    if result is None:
        return call
    if not isinstance(result, Call):
        raise ConfigError(f"{_name(hook)}: a hook around enqueue gives a call or None, not {short(result)}")
    return result


def _end(generator: Generator[Any, Any, Any], job: Job[Any] | None) -> None:
    with contextlib.suppress(StopIteration):
        generator.send(job)
        raise ConfigError(f"{_name(generator)}: a hook around enqueue yields once")


def _throw(generator: Generator[Any, Any, Any], error: BaseException) -> None:
    """Show the error to a hook; it can't replace the error that the caller gets."""
    with contextlib.suppress(BaseException):
        generator.throw(error)
    generator.close()


def _name(hook: object) -> str:
    return getattr(hook, "__qualname__", repr(hook))


def hooked(submit: Callable[[S, Call[Any]], Job[Any]]) -> Callable[[S, Call[Any]], Job[Any]]:
    """Run the hooks around a method that submits one call."""

    @functools.wraps(submit)
    def submitting(self: S, call: Call[Any]) -> Job[Any]:
        if not self.hooks.enqueue:
            return submit(self, call)
        with around(self.hooks, [call]) as ([changed], report):
            job = submit(self, changed)
            report([job])
            return job

    return submitting


def ahooked(
    submit: Callable[[S, Call[Any]], Coroutine[Any, Any, Job[Any]]],
) -> Callable[[S, Call[Any]], Coroutine[Any, Any, Job[Any]]]:
    """The same for a coroutine."""

    @functools.wraps(submit)
    async def submitting(self: S, call: Call[Any]) -> Job[Any]:
        if not self.hooks.enqueue:
            return await submit(self, call)
        with around(self.hooks, [call]) as ([changed], report):
            job = await submit(self, changed)
            report([job])
            return job

    return submitting


def hooked_many(
    submit: Callable[[S, Iterable[Call[Any]]], list[Job[Any]]],
) -> Callable[[S, Iterable[Call[Any]]], list[Job[Any]]]:
    """The same for a method that submits many calls."""

    @functools.wraps(submit)
    def submitting(self: S, calls: Iterable[Call[Any]]) -> list[Job[Any]]:
        if not self.hooks.enqueue:
            return submit(self, calls)
        with around(self.hooks, list(calls)) as (changed, report):
            jobs = submit(self, changed)
            report(jobs)
            return jobs

    return submitting


def ahooked_many(
    submit: Callable[[S, Iterable[Call[Any]]], Coroutine[Any, Any, list[Job[Any]]]],
) -> Callable[[S, Iterable[Call[Any]]], Coroutine[Any, Any, list[Job[Any]]]]:
    """The same for a coroutine."""

    @functools.wraps(submit)
    async def submitting(self: S, calls: Iterable[Call[Any]]) -> list[Job[Any]]:
        if not self.hooks.enqueue:
            return await submit(self, calls)
        with around(self.hooks, list(calls)) as (changed, report):
            jobs = await submit(self, changed)
            report(jobs)
            return jobs

    return submitting
