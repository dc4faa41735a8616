"""Waits for jobs to finish, for any number of threads and coroutines, with one thread and one bell."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future

from headrace.engines.protocol.core import Bell
from headrace.engines.protocol.engine import Engine
from headrace.engines.shared.shield import shielded
from headrace.errors import EngineUnavailable

_LINGER = 2.0


class Waiter:
    """Hands out a future for each awaited job and resolves it when the job has finished."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._awaited: dict[str, list[Future[None]]] = {}
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._bell: Bell | None = None

    def wait(self, job_id: str, timeout: float | None) -> bool:
        """Block until the job has finished; False if the timeout passed first."""
        future = self._register(job_id)
        try:
            self._check(job_id)
            future.result(timeout)
        except TimeoutError:
            return False
        finally:
            self._forget(job_id, future)
        return True

    async def await_finish(self, job_id: str, timeout: float | None) -> bool:
        """The same for coroutines."""
        future = self._register(job_id)
        try:
            await asyncio.to_thread(self._check, job_id)
            await asyncio.wait_for(asyncio.wrap_future(future), timeout)
        except TimeoutError:
            return False
        finally:
            self._forget(job_id, future)
        return True

    def close(self) -> None:
        """Stop the thread: the store is about to be closed, and a read would reopen it."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._stop.set()
        if thread is None:
            return
        if self._bell is not None:
            self._bell.ring()
        thread.join(_LINGER)
        self._give_up(EngineUnavailable("the app was closed during the wait for this job"))

    @shielded
    def _register(self, job_id: str) -> Future[None]:
        """The caller must always `_forget` it."""
        future: Future[None] = Future()
        with self._lock:
            if self._thread is None:
                stop = threading.Event()
                thread = threading.Thread(target=self._run, args=(stop,), name="headrace-waiter", daemon=True)
                thread.start()
                self._thread, self._stop = thread, stop
            self._awaited.setdefault(job_id, []).append(future)
        return future

    @shielded
    def _check(self, job_id: str) -> None:
        """Check a job once: it may have finished before the thread knew of it."""
        if self._engine.queries.finished([job_id]):
            self._resolve({job_id})

    @shielded
    def _forget(self, job_id: str, future: Future[None]) -> None:
        with self._lock:
            futures = self._awaited.get(job_id, [])
            if future in futures:
                futures.remove(future)
            if not futures:
                self._awaited.pop(job_id, None)

    def _run(self, stop: threading.Event) -> None:
        try:
            self._bell = bell = self._engine.listen("done")
            try:
                self._poll(bell, stop)
            finally:
                bell.close()
        except Exception as error:  # waiters get the error; without any it does not matter
            self._give_up(error)

    def _poll(self, bell: Bell, stop: threading.Event) -> None:
        """Check the awaited jobs until there have been none for a while, or the app is closed."""
        idle_since = time.monotonic()
        while not stop.is_set():
            with self._lock:
                ids = list(self._awaited)
                if ids:
                    idle_since = time.monotonic()
                elif time.monotonic() - idle_since > _LINGER:
                    self._thread = None
                    return
            if ids:
                self._resolve(self._engine.queries.finished(ids))
            bell.wait(_LINGER)

    def _resolve(self, ids: set[str]) -> None:
        with self._lock:
            done = [future for job_id in ids for future in self._awaited.pop(job_id, [])]
        for future in done:
            if future.set_running_or_notify_cancel():
                future.set_result(None)

    def _give_up(self, error: BaseException) -> None:
        with self._lock:
            self._thread = None
            left = [future for futures in self._awaited.values() for future in futures]
            self._awaited.clear()
        for future in left:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
