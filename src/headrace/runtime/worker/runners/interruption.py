"""Raises `JobInterrupted` in a thread, while it runs the function of a task with `interrupt` and no other code.

The right to raise is a token. The thread and an interrupter take it from a deque, which is atomic: one of them gets it,
and there is no lock that the exception could leave locked. The thread has the token before and after the function, and
in code that is shielded. An interrupter that comes meanwhile sets `_is_due`, and the thread raises by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Any

from headrace.engines.shared.shield import shields
from headrace.errors import JobInterrupted
from headrace.runtime.process.stacks import frame_of

_LOOK_AGAIN = 0.002
# An exception between the lock of a log handler and its release would block every thread that logs.
_LOGGING = "logging"
_SIGNAL = getattr(signal, "SIGURG", None)  # the system ignores it by default, and hardly anything else uses it


def raise_in_thread(thread: int, error: type[BaseException]) -> None:
    """Raise it at the next bytecode of the thread, if Python can."""
    raiser = _raiser()
    if raiser is not None:
        raiser(thread, error)


@functools.cache
def _raiser() -> Callable[[int, type[BaseException]], None] | None:
    """None where Python has no C API, as in PyPy."""
    try:
        import ctypes

        function = ctypes.pythonapi.PyThreadState_SetAsyncExc
    except (ImportError, AttributeError):
        return None

    def call(thread: int, error: type[BaseException]) -> None:
        function(ctypes.c_ulong(thread), ctypes.py_object(error))

    return call


def can_interrupt() -> bool:
    """Whether this Python can raise an exception in another thread."""
    return _raiser() is not None


class Interruption:
    """The interruption of one run. `with` it, and `call` the function inside; `interrupt` from another thread."""

    __slots__ = ("_depth", "_has_begun", "_is_due", "_is_over", "_is_sent", "_shield_has_token", "_thread", "_token")

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._token: deque[None] = deque()  # of one item, while the function may be interrupted
        self._has_begun = False
        self._is_due = False
        self._is_sent = False
        self._is_over = False
        self._depth = 0
        self._shield_has_token = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Interruptible functions that this thread calls belong to this run."""
        _of_thread[self._thread] = self
        shields[self._thread] = self
        try:
            yield
        finally:
            self._is_over = True
            _of_thread.pop(self._thread, None)
            shields.pop(self._thread, None)

    # -- from another thread

    def interrupt(self) -> bool:
        """Interrupt the function, once; False if it is over."""
        if not self._is_over and not self._is_due:
            self._is_due = True
            self._send_or_wait()
        return not self._is_over

    def _send_or_wait(self) -> None:
        if self._is_logging():
            with contextlib.suppress(RuntimeError):  # no thread can be started
                threading.Thread(target=self._send_later, daemon=True).start()
                return
        self._send()

    def _send(self) -> None:
        try:
            self._token.pop()
        except IndexError:  # the thread has it, and looks at `_is_due`
            return
        self._raise()

    def _raise(self) -> None:
        raise_in_thread(self._thread, JobInterrupted)
        self._is_sent = True

    def _send_later(self) -> None:
        while self._is_logging() and not self._is_over:
            time.sleep(_LOOK_AGAIN)
        self._send()

    def _is_logging(self) -> bool:
        frame: FrameType | None = frame_of(self._thread)
        while frame is not None and frame.f_code is not _CALL:
            if frame.f_globals.get("__name__") == _LOGGING:
                return True
            frame = frame.f_back
        return False

    # -- in the thread of the run

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the function, which may be interrupted. Afterwards nothing is raised here any more."""
        value, has_returned = None, False
        try:
            try:
                self._has_begun = True
                self._give_token()
                value = function(*args, **kwargs)
                has_returned = True
            finally:
                self._end()
        except JobInterrupted:
            self._end()  # it may have come into the line above; it does not come twice
            if not has_returned:
                raise
        return value

    def _give_token(self) -> None:
        self._token.append(None)
        if self._is_due and self._has_taken_token():
            self._is_sent = True
            raise JobInterrupted

    def _has_taken_token(self) -> bool:
        try:
            self._token.pop()
        except IndexError:
            return False
        return True

    def _end(self) -> None:
        if not self._is_over and not self._has_taken_token() and self._is_due:
            self._await_sent()
        self._is_over = True

    def _await_sent(self) -> None:
        """Another thread has the token: let its exception come here, if it has not come yet.

        It is not taken back with PyThreadState_SetAsyncExc(thread, NULL): CPython 3.11 may then hang under a debugger.
        """
        while not self._is_sent:
            time.sleep(0)
        time.sleep(0)  # a bytecode at which it is raised, if it was not yet

    def __enter__(self) -> None:
        """Let nothing be raised here, until the exit."""
        if self._depth == 0:
            self._shield_has_token = self._has_taken_token()
            if not self._shield_has_token and self._is_due and self._has_begun and not self._is_over:
                self._await_sent()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._shield_has_token:
            self._shield_has_token = False
            self._give_token()


_CALL = Interruption.call.__code__


class SignalInterruption(Interruption):
    """Interrupts the main thread by a signal, which also ends a system call that it waits in."""

    __slots__ = ()

    def _raise(self) -> None:
        if _SIGNAL is None:
            super()._raise()
        else:
            signal.pthread_kill(self._thread, _SIGNAL)

    def receive(self) -> None:
        """For the signal handler."""
        if self._is_due and not self._is_sent and not self._is_over:
            self._is_sent = True
            raise JobInterrupted


class CoroutineInterruption:
    """Interrupts a coroutine by a cancellation, as the event loop of a worker does."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._is_due = False

    def interrupt(self) -> bool:
        """Cancel the coroutine, from any thread."""
        self._is_due = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._cancel)
        return True

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel("timed out")

    async def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Await the coroutine; JobInterrupted if it ends by the cancellation."""
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        if self._is_due:  # since before the line above
            self._cancel()
        try:
            return await coroutine
        except asyncio.CancelledError as error:
            if not self._is_due:
                raise
            raise JobInterrupted().with_traceback(error.__traceback__) from None
        finally:
            self._task = None


def receive_interruptions() -> None:
    """Let signals interrupt the function that the main thread runs; call it there."""
    if _SIGNAL is not None:
        signal.signal(_SIGNAL, _receive)


def _receive(*_: object) -> None:
    interruption = _of_thread.get(threading.get_ident())
    if isinstance(interruption, SignalInterruption):
        interruption.receive()


_of_thread: dict[int, Interruption] = {}


def interruptible(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a task, which the interruption of its run may end."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        interruption = _of_thread.get(threading.get_ident())
        return function(*args, **kwargs) if interruption is None else interruption.call(function, *args, **kwargs)

    return call
