"""The lanes of those event loops that submit here, one for each, gone when the loop is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from headrace.runtime.submit.async_batch import AsyncBatch

    Lanes = WeakKeyDictionary[AbstractEventLoop, AsyncBatch[Any, Any]]

T = TypeVar("T")
R = TypeVar("R")


def lane_here(lanes: Lanes, flush: Callable[[list[T]], list[R]]) -> AsyncBatch[T, R]:
    """The lane of the running loop."""
    # Deferred, with asyncio: whoever gets here has it loaded anyway.
    from asyncio import get_running_loop

    from headrace.runtime.submit.async_batch import AsyncBatch

    return lanes.setdefault(get_running_loop(), AsyncBatch(flush))
