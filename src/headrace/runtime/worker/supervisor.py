"""Keeps worker processes running: restarts those that crash, and stops all of them in order."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

from headrace.errors import ConfigError
from headrace.runtime.worker.worker import Worker

log = logging.getLogger("headrace.supervisor")

RECYCLED = 75  # the exit code of a worker that asks to be replaced
_LOOK = 0.2
_BACKOFF_FIRST, _BACKOFF_LONGEST = 0.2, 30.0
_HEALTHY_AFTER = 60.0
_GRACE = 5.0
_PASSED_ON = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGUSR2") if hasattr(signal, name))


def run_here(worker: Worker, *, supervised: bool = False) -> int:
    """Run a worker in this process until it stops. SIGTERM or SIGINT drain; a second signal ends it at once."""
    parent = os.getppid()
    # With the default of 5 ms, a computing thread delays every step of a commit by that much (measured: half the
    # throughput, with the write lock held). This process belongs to the worker, so it may set this.
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.001)
    hurry = getattr(signal, "SIGUSR2", None) if supervised else None
    with _signals(lambda hurried: worker.request_stop(0.0 if hurried else None), hurry):
        worker.start()
        while not worker.join(1.0):
            if supervised and worker.is_stalled:
                log.error("worker %s has hung for too long; its process exits and is replaced", worker.id)
                return 1
            if supervised and os.getppid() != parent:
                log.warning("the supervisor is gone; stopping")
                worker.request_stop()
                parent = os.getppid()
    sys.setswitchinterval(before)
    return RECYCLED if worker.recycle else 0


class _signals:  # noqa: N801  (reads as a function)
    """Route stop signals to `stop(hurried)`; SIGUSR1 prints every thread's stack.

    A second stop signal hurries, unless another signal is reserved for that: a supervised worker may get the first one
    twice, from its supervisor and from the terminal or the service manager, which signal the whole group.
    """

    def __init__(self, stop: Callable[[bool], None], hurry: int | None = None) -> None:
        self._stop = stop
        self._hurry = hurry
        self._seen = 0
        self._before: dict[int, object] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, signal.SIGINT, *([self._hurry] if self._hurry else [])):
            self._before[number] = signal.signal(number, self._handle)
        if hasattr(signal, "SIGUSR1"):
            self._before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, _dump_stacks)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # it is what signal() returned

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._seen += 1
        self._stop(number == self._hurry if self._hurry else self._seen > 1)


def _dump_stacks(number: int, frame: FrameType | None) -> None:
    # Not faulthandler.register(): it reads the stacks of running threads, which now and then crashed the worker.
    with contextlib.suppress(ValueError, AttributeError, OSError, RuntimeError):  # stderr may be no real file
        faulthandler.dump_traceback(all_threads=True)


class _ProcessSlot:
    """One worker process: its pid, restarts and backoff."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self.started = 0.0
        self.backoff = 0.0
        self.start_at = 0.0


class Supervisor:
    """Runs `processes` workers as children of this process."""

    def __init__(self, make_worker: Callable[[], Worker], processes: int, shutdown_timeout: float) -> None:
        if not hasattr(os, "fork"):
            raise ConfigError("several processes need fork(); on this system start several workers instead")
        self._make_worker = make_worker
        self._seats = [_ProcessSlot() for _ in range(processes)]
        self._shutdown_timeout = shutdown_timeout
        self._stopping = 0
        self._sent = 0
        self._kill_at: float | None = None
        self._wake = threading.Event()

    def run(self) -> int:
        """Supervise until stopped; 0 if all workers ended in order."""
        with _signals(self._stop), _children_awaited():
            while not self._stopping or any(seat.pid for seat in self._seats):
                for seat in self._seats:
                    self._look_after(seat)
                self._pass_on_signals()
                self._wake.wait(_LOOK)
                self._wake.clear()
        return 0

    def _stop(self, again: bool) -> None:
        self._stopping += 1
        self._wake.set()

    def _look_after(self, seat: _ProcessSlot) -> None:
        if seat.pid is not None:
            self._look_for_end(seat, seat.pid)
        if seat.pid is None and not self._stopping and time.monotonic() >= seat.start_at:
            self._start(seat)

    def _look_for_end(self, seat: _ProcessSlot, pid: int) -> None:
        try:
            ended, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # its exit status was already collected
            self._ended(seat, None)
            return
        if ended:
            self._ended(seat, os.waitstatus_to_exitcode(status))

    def _start(self, seat: _ProcessSlot) -> None:
        seat.started = time.monotonic()
        # Block signals until the child has its own handlers; one passed on before would be lost in our inherited
        # handlers.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
        try:
            seat.pid = os.fork()
            if seat.pid == 0:
                _be_a_worker(self._make_worker, before)
        except OSError as error:  # no memory, too many processes: the existing ones go on
            self._put_off(seat)
            log.error("can't start a worker process: %s; trying again in %.1f s", error, seat.backoff)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _ended(self, seat: _ProcessSlot, code: int | None) -> None:
        pid, seat.pid = seat.pid, None
        if self._stopping or code == RECYCLED:
            seat.start_at = time.monotonic()
            return
        self._put_off(seat)
        log.error("worker process %s %s; starting a new one in %.1f s", pid, _exit_text(code), seat.backoff)

    def _put_off(self, seat: _ProcessSlot) -> None:
        healthy = time.monotonic() - seat.started > _HEALTHY_AFTER
        seat.backoff = _BACKOFF_FIRST if healthy else min(max(seat.backoff * 2, _BACKOFF_FIRST), _BACKOFF_LONGEST)
        seat.start_at = time.monotonic() + seat.backoff

    def _pass_on_signals(self) -> None:
        if not self._stopping:
            return
        while self._sent < min(self._stopping, 2):
            self._sent += 1
            self._signal_all(signal.SIGTERM if self._sent == 1 else signal.SIGUSR2)
            self._kill_at = time.monotonic() + (self._shutdown_timeout if self._sent == 1 else 0) + _GRACE
        if self._kill_at is not None and time.monotonic() > self._kill_at:
            log.error("worker processes did not stop in time; killing them")
            self._signal_all(signal.SIGKILL)

    def _signal_all(self, number: int) -> None:
        for seat in self._seats:
            if seat.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(seat.pid, number)


def _exit_text(code: int | None) -> str:
    if code is None:
        return "ended with an unknown status"
    return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"


@contextlib.contextmanager
def _children_awaited() -> Iterator[None]:
    """Restore SIGCHLD: where it is ignored, as under some service managers, the kernel keeps no exit codes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL if before is None else before)


def _be_a_worker(make_worker: Callable[[], Worker], mask: set[signal.Signals | int]) -> NoReturn:
    """The child's main function. It must never return into its parent's code."""
    code = 1
    try:
        for number in _PASSED_ON:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        code = run_here(make_worker(), supervised=True)
    except BaseException:
        log.exception("a worker process could not start")
    finally:
        with contextlib.suppress(Exception):
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
