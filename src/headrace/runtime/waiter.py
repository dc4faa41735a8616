"""Waits for jobs to finish, for any number of threads and tasks, with one thread and one bell."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future

from headrace.engines.protocol import Engine

_LINGER = 2.0


class Waiter:
    """Hands out a future for each awaited job and resolves it when the store says the job is over."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._awaited: dict[str, list[Future[None]]] = {}
        self._thread: threading.Thread | None = None

    def wait(self, job_id: str, timeout: float | None) -> bool:
        """Block until the job is over; False if the timeout passed first."""
        future = self._await(job_id)
        try:
            future.result(timeout)
        except TimeoutError:
            self._forget(job_id, future)
            return False
        return True

    async def await_finish(self, job_id: str, timeout: float | None) -> bool:
        """The same for coroutines."""
        future = await asyncio.to_thread(self._await, job_id)
        try:
            await asyncio.wait_for(asyncio.wrap_future(future), timeout)
        except TimeoutError:
            return False
        finally:
            self._forget(job_id, future)
        return True

    def _await(self, job_id: str) -> Future[None]:
        future: Future[None] = Future()
        with self._lock:
            self._awaited.setdefault(job_id, []).append(future)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="headrace-waiter", daemon=True)
                self._thread.start()
        if self._engine.desk.finished([job_id]):  # it may have ended before the watcher knew of it
            self._resolve({job_id})
        return future

    def _forget(self, job_id: str, future: Future[None]) -> None:
        with self._lock:
            futures = self._awaited.get(job_id, [])
            if future in futures:
                futures.remove(future)
            if not futures:
                self._awaited.pop(job_id, None)

    def _watch(self) -> None:
        bell = self._engine.listen("done")
        idle_since = time.monotonic()
        try:
            while True:
                with self._lock:
                    ids = list(self._awaited)
                    if ids:
                        idle_since = time.monotonic()
                    elif time.monotonic() - idle_since > _LINGER:
                        self._thread = None
                        return
                if ids:
                    self._resolve(self._engine.desk.finished(ids))
                bell.wait(_LINGER)
        except BaseException as error:
            self._give_up(error)
            raise
        finally:
            bell.close()

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
