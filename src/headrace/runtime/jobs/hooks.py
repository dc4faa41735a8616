"""The hooks that an app declares, and the providers of injected values."""

from __future__ import annotations

import contextlib
import inspect
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from typing import Any, Literal

from msgspec import Struct

from headrace.core.tasks.injection import annotations_of
from headrace.errors import ConfigError

Per = Literal["worker", "attempt"]
Hook = Callable[..., Any]

_YIELDING = (Iterator, Iterable, Generator, AsyncIterator, AsyncIterable, AsyncGenerator)


class Provider(Struct, frozen=True):
    """A function that makes a value, once per worker or per attempt. `needs` are its parameters, by type."""

    function: Hook
    per: Per
    needs: Mapping[str, Any]

    @property
    def name(self) -> str:
        return getattr(self.function, "__qualname__", repr(self.function))


class Hooks:
    """The hooks of one app, in the order of their declaration."""

    def __init__(self) -> None:
        self.worker_start: list[Hook] = []
        self.worker_stop: list[Hook] = []
        self.attempt: list[Hook] = []
        self.enqueue: list[Hook] = []
        self.providers: dict[Any, Provider] = {}
        self.overrides: dict[Any, Any] = {}

    def add_enqueue(self, hook: Hook) -> None:
        """Add a hook around enqueue; a coroutine would never run there."""
        if inspect.iscoroutinefunction(hook) or inspect.isasyncgenfunction(hook):
            raise ConfigError(f"around_enqueue: {hook.__qualname__} must be a `def`, as enqueue() is synchronous")
        self.enqueue.append(hook)

    def provide(self, function: Hook, per: str) -> None:
        """Register a provider for the type it returns or yields."""
        title = f"provider {getattr(function, '__qualname__', function)}"
        if per not in ("worker", "attempt"):
            raise ConfigError(f"{title}: per={per!r} is unknown; use 'worker' or 'attempt'")
        hints = annotations_of(function, title)
        made = _made_by(hints.pop("return", None))
        if made is None or made is type(None):
            raise ConfigError(f"{title}: annotate what it returns or yields, such as `-> Iterator[Session]`")
        parameters = inspect.signature(function).parameters.values()
        if unknown := [one.name for one in parameters if one.name not in hints and one.default is one.empty]:
            raise ConfigError(f"{title}: {unknown[0]!r} has no annotation; a provider gets values of other providers")
        if made in self.providers:
            raise ConfigError(f"{title}: {self.providers[made].name} already provides {made!r}")
        needs = {one.name: hints[one.name] for one in parameters if one.default is one.empty}
        self.providers[made] = Provider(function, "worker" if per == "worker" else "attempt", needs)

    def provider_of(self, kind: Any, wanted_by: str) -> Provider:
        """The provider of a type; ConfigError if there is none."""
        found = self.providers.get(kind)
        if found is None:
            raise ConfigError(f"{wanted_by}: nothing provides {kind!r}; declare it with @app.provide")
        return found

    def check(self, needs: Mapping[str, Any], wanted_by: str) -> None:
        """Raise ConfigError if a value can't be made: no provider, a cycle, or a worker's value of an attempt's."""
        for kind in needs.values():
            self._check(kind, wanted_by, ())

    def _check(self, kind: Any, wanted_by: str, above: tuple[Provider, ...]) -> None:
        if kind in self.overrides:
            return
        provider = self.provider_of(kind, wanted_by)
        if provider in above:
            raise ConfigError(f"provider {provider.name} needs itself: {' -> '.join(one.name for one in above)}")
        if above and above[-1].per == "worker" and provider.per == "attempt":
            raise ConfigError(
                f"provider {above[-1].name} is made once per worker, so it can't use {provider.name}, made per attempt"
            )
        for needed in provider.needs.values():
            self._check(needed, f"provider {provider.name}", (*above, provider))

    @contextlib.contextmanager
    def overriding(self, kind: Any, value: Any) -> Iterator[None]:
        """Inside a `with`, inject this value in place of what its provider makes."""
        before = dict(self.overrides)
        self.overrides[kind] = value
        try:
            yield
        finally:
            self.overrides = before


def _made_by(annotation: Any) -> Any:
    """The type of the value: the annotation itself, or what a generator yields."""
    if typing.get_origin(annotation) in _YIELDING:
        return typing.get_args(annotation)[0]
    return annotation


def takes(hook: Hook, count: int) -> bool:
    """Whether it can be called with this many arguments."""
    try:
        inspect.signature(hook).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # some builtins have no signature
        return True
    return True
