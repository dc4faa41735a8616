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
from typing import TYPE_CHECKING, NoReturn

from headrace.core.health.probes import Health, whole
from headrace.errors import ConfigError
from headrace.runtime.process.health_pipe import HealthPipe
from headrace.runtime.worker.worker import Worker

if TYPE_CHECKING:
    from headrace.runtime.process.health_endpoints import HealthEndpoints

log = logging.getLogger("headrace.supervisor")

RECYCLED = 75  # the exit code of a worker that asks to be replaced
_CHECK_EVERY = 0.2
_BACKOFF_FIRST, _BACKOFF_LONGEST = 0.2, 30.0
_HEALTHY_AFTER = 60.0
_GRACE = 5.0
Shown = Callable[[Callable[[], Health]], contextlib.AbstractContextManager[object]]
Show = Callable[[Callable[[], Health]], "HealthEndpoints"]
_PASSED_ON = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGUSR2") if hasattr(signal, name))


def _not_shown(health: Callable[[], Health]) -> contextlib.AbstractContextManager[object]:
    return contextlib.nullcontext()


def run_in_process(worker: Worker, *, supervised: bool = False, shown: Shown = _not_shown) -> int:
    """Run a worker in this process until it stops. SIGTERM or SIGINT drain; a second signal ends it at once.

    `shown` makes a context in which the health of the worker is shown.
    """
    parent = os.getppid()
    # With the default of 5 ms, a computing thread delays every step of a commit by that much (measured: half the
    # throughput, with the write lock held). This process belongs to the worker, so it may set this.
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.001)
    force_signal = getattr(signal, "SIGUSR2", None) if supervised else None
    with (
        shown(lambda: worker.health),
        _signals(lambda at_once: worker.request_stop(0.0 if at_once else None), force_signal),
    ):
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
    """Route stop signals to `stop(at_once)`; SIGUSR1 prints every thread's stack.

    A second stop signal stops at once, unless `force_signal` is reserved for that: a supervised worker may get the
    first one twice, from its supervisor and from the terminal or the service manager, which signal the whole group.
    """

    def __init__(self, stop: Callable[[bool], None], force_signal: int | None = None) -> None:
        self._stop = stop
        self._force_signal = force_signal
        self._seen = 0
        self._before: dict[int, object] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, signal.SIGINT, *([self._force_signal] if self._force_signal else [])):
            self._before[number] = signal.signal(number, self._handle)
        if hasattr(signal, "SIGUSR1"):
            self._before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, _dump_stacks)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # it is what signal() returned

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._seen += 1
        self._stop(number == self._force_signal if self._force_signal else self._seen > 1)


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
        self.pipe: HealthPipe | None = None

    def close_pipe(self) -> None:
        if self.pipe is not None:
            self.pipe.close()
            self.pipe = None

    def reported(self) -> tuple[Health | None, float]:
        return (None, 0.0) if self.pipe is None else self.pipe.last()


class Supervisor:
    """Runs `processes` workers as children of this process.

    `show` makes what shows the health of all; a child that does not report for `patience` seconds is not live.
    """

    def __init__(
        self,
        make_worker: Callable[[], Worker],
        processes: int,
        shutdown_timeout: float,
        *,
        show: Show | None = None,
        patience: float = 60.0,
    ) -> None:
        if not hasattr(os, "fork"):
            raise ConfigError("several processes need fork(); on this system start several workers instead")
        self._make_worker = make_worker
        self._slots = [_ProcessSlot() for _ in range(processes)]
        self._shutdown_timeout = shutdown_timeout
        self._stopping = 0
        self._sent = 0
        self._kill_at: float | None = None
        self._wake = threading.Event()
        self._show = show
        self._patience = patience
        self._endpoints: HealthEndpoints | None = None

    @property
    def health(self) -> Health:
        """The health of all processes together."""
        if self._stopping:
            return Health(live=True, reason="the workers stop")
        return whole([slot.reported() for slot in self._slots], self._patience)

    def run(self) -> int:
        """Supervise until stopped; 0 if all workers ended in order."""
        if self._show is not None:  # no thread here: this process forks
            self._endpoints = self._show(lambda: self.health)
        try:
            return self._run()
        finally:
            if self._endpoints is not None:
                self._endpoints.close()

    def _run(self) -> int:
        with _signals(self._stop), _children_awaited():
            while not self._stopping or any(slot.pid for slot in self._slots):
                for slot in self._slots:
                    self._supervise(slot)
                self._pass_on_signals()
                self._wait()
        return 0

    def _wait(self) -> None:
        if self._endpoints is not None:
            self._endpoints.poll(_CHECK_EVERY)
        else:
            self._wake.wait(_CHECK_EVERY)
            self._wake.clear()

    def _stop(self, again: bool) -> None:
        self._stopping += 1
        self._wake.set()

    def _supervise(self, slot: _ProcessSlot) -> None:
        if slot.pid is not None:
            self._check_exit(slot, slot.pid)
        if slot.pid is None and not self._stopping and time.monotonic() >= slot.start_at:
            self._start(slot)

    def _check_exit(self, slot: _ProcessSlot, pid: int) -> None:
        try:
            ended, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # its exit status was already collected
            self._ended(slot, None)
            return
        if ended:
            self._ended(slot, os.waitstatus_to_exitcode(status))

    def _start(self, slot: _ProcessSlot) -> None:
        slot.started = time.monotonic()
        slot.pipe = None if self._endpoints is None else HealthPipe()
        # Block signals until the child has its own handlers; one passed on before would be lost in our inherited
        # handlers.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
        try:
            slot.pid = os.fork()
            if slot.pid == 0:
                _worker_main(self._make_worker, before, self._enter_child(slot))
            if slot.pipe is not None:
                slot.pipe.started()
        except OSError as error:  # no memory, too many processes: the existing ones go on
            slot.close_pipe()
            self._back_off(slot)
            log.error("can't start a worker process: %s; trying again in %.1f s", error, slot.backoff)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _enter_child(self, slot: _ProcessSlot) -> Shown:
        """Close what belongs to the supervisor; the rest of the child shows its health through its pipe."""
        if self._endpoints is None or slot.pipe is None:
            return _not_shown
        self._endpoints.abandon()
        for other in self._slots:
            if other is not slot:
                other.close_pipe()
        slot.pipe.forked()
        return slot.pipe.reporting

    def _ended(self, slot: _ProcessSlot, code: int | None) -> None:
        pid, slot.pid = slot.pid, None
        slot.close_pipe()
        if self._stopping or code == RECYCLED:
            slot.start_at = time.monotonic()
            return
        self._back_off(slot)
        log.error("worker process %s %s; starting a new one in %.1f s", pid, _exit_text(code), slot.backoff)

    def _back_off(self, slot: _ProcessSlot) -> None:
        healthy = time.monotonic() - slot.started > _HEALTHY_AFTER
        slot.backoff = _BACKOFF_FIRST if healthy else min(max(slot.backoff * 2, _BACKOFF_FIRST), _BACKOFF_LONGEST)
        slot.start_at = time.monotonic() + slot.backoff

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
        for slot in self._slots:
            if slot.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(slot.pid, number)


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


def _worker_main(make_worker: Callable[[], Worker], mask: set[signal.Signals | int], shown: Shown) -> NoReturn:
    """The child's main function. It must never return into its parent's code."""
    code = 1
    try:
        for number in _PASSED_ON:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        code = run_in_process(make_worker(), supervised=True, shown=shown)
    except BaseException:
        log.exception("a worker process could not start")
    finally:
        with contextlib.suppress(Exception):
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
