"""The decorators of an app that declare hooks and providers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, TypeVar, overload

from headrace.core.text import short
from headrace.errors import ConfigError
from headrace.runtime.submit.submitter import Submitter

F = TypeVar("F", bound=Callable[..., Any])


class HookMethods:
    """Hooks run in the order of their declaration. A hook around something is a generator function with one yield."""

    submitter: Submitter

    def on_worker_start(self, hook: F) -> F:
        """Call this, `def` or `async def`, before a worker claims its first job; an error keeps it from starting."""
        self.submitter.hooks.worker_start.append(_function("on_worker_start", hook))
        return hook

    def on_worker_stop(self, hook: F) -> F:
        """Call this, `def` or `async def`, after the last job of a worker."""
        self.submitter.hooks.worker_stop.append(_function("on_worker_stop", hook))
        return hook

    def around_attempt(self, hook: F) -> F:
        """Run this around every attempt. It receives the `current_job()`; the task runs at its `yield`.

        An error of the task is raised at the `yield`. The hook is a generator, `def` or `async def`; without a yield it
        runs before the task.
        """
        self.submitter.hooks.attempt.append(_function("around_attempt", hook))
        return hook

    def around_enqueue(self, hook: F) -> F:
        """Run this around the insert of every job of this process. It receives the call.

        It may return or yield another call, such as `call.using(tags=["eu"])`. A generator gets the stored job at its
        yield, or None in a flow. It is a `def`, as enqueue() is synchronous.
        """
        self.submitter.hooks.add_enqueue(_function("around_enqueue", hook))
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
