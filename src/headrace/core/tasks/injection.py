"""Parameters whose values a worker injects. Pure."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from headrace.errors import ConfigError


class Injected:
    """The default of an injected parameter. Any use of it says that a value is missing."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name}: a worker injects this parameter; to call the function yourself, pass a value")

    def __repr__(self) -> str:
        return "INJECTED"


INJECTED: Any = Injected()
"""As the default of a parameter: a worker passes the value that `app.provide` makes for its annotation."""


def injected_names(parameters: typing.Iterable[inspect.Parameter], title: str) -> frozenset[str]:
    """The names of the injected parameters; ConfigError if arguments could take their place."""
    found: list[str] = []
    for parameter in parameters:
        if isinstance(parameter.default, Injected):
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise ConfigError(f"{title}: {parameter.name!r} is injected, so it can't be positional-only")
            if parameter.annotation is parameter.empty:
                raise ConfigError(f"{title}: {parameter.name!r} is injected by its annotation; annotate it")
            found.append(parameter.name)
        elif found and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.VAR_POSITIONAL):
            raise ConfigError(f"{title}: {found[-1]!r} is injected; put {parameter.name!r} in front of it")
    return frozenset(found)


def annotations_of(function: Callable[..., Any], title: str) -> dict[str, Any]:
    """The resolved annotations of a function; ConfigError if one can't be resolved."""
    try:
        return typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    except Exception as error:
        raise ConfigError(f"{title}: its annotations can't be resolved: {error}") from error


def needs_of(function: Callable[..., Any], title: str) -> dict[str, Any]:
    """The injected parameters of a task, and the type that each needs."""
    names = injected_names(inspect.signature(function).parameters.values(), title)
    if not names:
        return {}
    hints = annotations_of(function, title)
    return {name: hints[name] for name in sorted(names)}
