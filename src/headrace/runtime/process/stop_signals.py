"""Noticing that the server around an app stops, before the server tells its apps.

A server waits for open requests before it runs the shutdown of a lifespan. An event stream never ends by itself, so it
has to learn of SIGTERM and SIGINT by itself: from a handler in front of the server's, and from uvicorn's state.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

log = logging.getLogger("headrace.app")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_MAX_CHAIN = 20


class _Chained:
    """A signal handler that calls `callback`, then the handler that was there before."""

    def __init__(self, callback: Callable[[], object], previous: Callable[[int, FrameType | None], Any]) -> None:
        self.callback: Callable[[], object] | None = callback
        self.previous = previous

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.callback is not None:
            try:
                self.callback()
            except Exception:
                log.exception("a callback of a stop signal failed")
        self.previous(number, frame)


def on_stop_signal(callback: Callable[[], object]) -> Callable[[], None]:
    """Call `callback` at SIGTERM and SIGINT, before the handlers that are installed now; returns what undoes it.

    Only for the main thread, elsewhere it does nothing. A signal without a handler keeps its default action.
    """
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    installed: dict[signal.Signals, _Chained] = {}
    for number in _SIGNALS:
        previous = signal.getsignal(number)
        if callable(previous) and not isinstance(previous, signal.Handlers):
            chained = _Chained(callback, previous)
            with contextlib.suppress(ValueError):  # a subinterpreter
                signal.signal(number, chained)
                installed[number] = chained

    def undo() -> None:
        for number, chained in installed.items():
            chained.callback = None  # a handler in front of it may keep it
            current: object = signal.getsignal(number)
            if current is chained and threading.current_thread() is threading.main_thread():
                signal.signal(number, chained.previous)

    return undo


def server_is_ending() -> bool:
    """Whether a uvicorn server of this process has begun to stop. Any thread may ask."""
    return any(_is_ending(getattr(handler, "__self__", None)) for handler in _handlers())


def _handlers() -> Iterator[Any]:
    for number in _SIGNALS:
        handler: Any = signal.getsignal(number)
        for _ in range(_MAX_CHAIN):
            if not isinstance(handler, _Chained):
                break
            handler = handler.previous
        yield handler


def _is_ending(server: Any) -> bool:
    if getattr(server, "should_exit", False) is True:
        return True
    # It also stops by itself, after `limit_max_requests`: then it only closes its listeners.
    listeners = getattr(server, "servers", None)
    if getattr(server, "started", False) is not True or not isinstance(listeners, list):
        return False
    return bool(listeners) and not any(listener.is_serving() for listener in listeners)
