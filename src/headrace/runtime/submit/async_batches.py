"""The batches of the event loops that submit here, one per loop, dropped with the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from headrace.runtime.submit.async_batch import AsyncBatch

    Batches = WeakKeyDictionary[AbstractEventLoop, AsyncBatch[Any, Any]]

T = TypeVar("T")
R = TypeVar("R")


def batch_of_loop(batches: Batches, flush: Callable[[list[T]], list[R]]) -> AsyncBatch[T, R]:
    """The batch of the running loop."""
    # Deferred, with asyncio: here it is loaded anyway.
    from asyncio import get_running_loop

    from headrace.runtime.submit.async_batch import AsyncBatch

    return batches.setdefault(get_running_loop(), AsyncBatch(flush))
