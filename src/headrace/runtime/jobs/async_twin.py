"""Async twins of blocking methods: the same call, made in a thread.

asyncio is imported when a coroutine first runs, not with this module: it would be a third of what `import headrace`
costs a program that never uses it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Concatenate, Generic, ParamSpec, TypeVar

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a blocking function without blocking the event loop."""
    import asyncio

    return await asyncio.to_thread(function, *args, **kwargs)


class twin(Generic[S, P, R]):  # noqa: N801  (reads as a decorator)
    """`acancel = twin(cancel)` gives a class the async twin of its method."""

    def __init__(self, method: Callable[Concatenate[S, P], R]) -> None:
        self._method = method
        self.__doc__ = f"Like {method.__name__}(), without blocking the event loop."

    def __get__(self, instance: S, owner: type[S]) -> Callable[P, Awaitable[R]]:
        method = self._method

        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return await in_thread(method, instance, *args, **kwargs)

        return call
