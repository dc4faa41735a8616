"""The decorators of an app that declare hooks and providers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from headrace.core.text import short
from headrace.errors import ConfigError
from headrace.runtime.jobs.hooks import takes
from headrace.runtime.submit.submitter import Submitter

if TYPE_CHECKING:
    from headrace.runtime.context.current_job import JobContext
    from headrace.runtime.jobs.task import Call
    from headrace.runtime.worker.worker import Worker

F = TypeVar("F", bound=Callable[..., Any])
WorkerHook = TypeVar("WorkerHook", bound=Callable[[], object] | Callable[["Worker"], object])
AttemptHook = TypeVar("AttemptHook", bound=Callable[["JobContext"], object])
EnqueueHook = TypeVar("EnqueueHook", bound=Callable[["Call[Any]"], object])


class HookMethods:
    """Hooks run in the order of their declaration. A hook around something is a generator function with one yield."""

    submitter: Submitter

    def on_worker_start(self, hook: WorkerHook) -> WorkerHook:
        """Call this, `def` or `async def`, before a worker claims its first job; an error keeps it from starting.

        It may take the worker as its argument.
        """
        self.submitter.hooks.worker_start.append(_worker_hook("on_worker_start", hook))
        return hook

    def on_worker_stop(self, hook: WorkerHook) -> WorkerHook:
        """Call this, `def` or `async def`, after the last job of a worker."""
        self.submitter.hooks.worker_stop.append(_worker_hook("on_worker_stop", hook))
        return hook

    def around_attempt(self, hook: AttemptHook) -> AttemptHook:
        """Run this around every attempt. It receives the `current_job()`; the task runs at its `yield`.

        An error of the task is raised at the `yield`. The hook is a generator, `def` or `async def`; without a yield it
        runs before the task.
        """
        self.submitter.hooks.attempt.append(_hook("around_attempt", hook, "the job"))
        return hook

    def around_enqueue(self, hook: EnqueueHook) -> EnqueueHook:
        """Run this around the insert of every job of this process. It receives the call.

        It may return or yield another call, such as `call.using(tags=["eu"])`. A generator gets the stored job at its
        yield, or None in a flow. It is a `def`, as enqueue() is synchronous.
        """
        self.submitter.hooks.add_enqueue(_hook("around_enqueue", hook, "the call"))
        return hook

    @overload
    def provide(self, function: F, /) -> F: ...
    @overload
    def provide(self, /, *, per: Literal["worker", "attempt"] = "attempt") -> Callable[[F], F]: ...
    def provide(self, function: Any = None, /, *, per: str = "attempt") -> Any:
        """Provide the value that the decorated function returns or yields to parameters with `= INJECTED`.

        The annotation selects the provider. A value is made per attempt, or once per worker on first use; the code
        after a `yield` closes it. A provider may take values of other providers.
        """

        def register(provider: F) -> F:
            self.submitter.hooks.provide(_function("provide", provider), per)
            return provider

        return register if function is None else register(function)

    def overriding(self, kind: Any, value: Any) -> AbstractContextManager[None]:
        """Inside a `with`, inject this value for the type, as a test does."""
        return self.submitter.hooks.overriding(kind, value)


def _function(where: str, hook: Any) -> Any:
    if not callable(hook):
        raise ConfigError(f"{where}: decorate a function, not {short(hook)}")
    return hook


def _worker_hook(where: str, hook: Any) -> Any:
    called = _function(where, hook)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise ConfigError(f"{where}: {_name(hook)} must not yield; use on_worker_start and on_worker_stop")
    if not takes(called, 0) and not takes(called, 1):
        raise ConfigError(f"{where}: {_name(hook)} takes no argument, or the worker")
    return called


def _hook(where: str, hook: Any, what: str) -> Any:
    if not takes(_function(where, hook), 1):
        raise ConfigError(f"{where}: {_name(hook)} must take one argument, {what}")
    return hook


def _name(hook: object) -> str:
    return getattr(hook, "__qualname__", repr(hook))
