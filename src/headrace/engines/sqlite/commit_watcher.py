"""Watches for commits of callers' connections, which cannot notify us, and rings for their jobs.

One short-lived daemon thread watches for all expected jobs and ends when none is left; the bells' own polling finds
commits that it misses. It uses only the store's own connections.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable

import msgspec

from headrace.engines.shared.sql_files import as_json
from headrace.engines.sqlite.statements import SQL
from headrace.engines.sqlite_file.database import SqliteDatabase, scalar
from headrace.errors import EngineUnavailable

_names = msgspec.json.Decoder(list[str])
_FASTEST, _SLOWEST = 0.005, 0.05
_TIMEOUT = 60.0


class CommitWatcher:
    """Rings once a job that a caller is about to commit is visible."""

    def __init__(self, store: SqliteDatabase, ring: Callable[[], None]) -> None:
        self._store = store
        self._ring = ring
        self._start_afresh()

    def _start_afresh(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._expected: dict[str, float] = {}
        self._thread: threading.Thread | None = None

    def ring(self, *_: object) -> None:
        """Ring at once: the caller's library has reported the commit."""
        self._ring()

    def expect(self, job_id: str) -> None:
        """Ring as soon as this job is visible; give up after a minute."""
        if self._pid != os.getpid():
            self._start_afresh()
        with self._lock:
            self._expected[job_id] = time.monotonic() + _TIMEOUT
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="headrace-commit-watcher", daemon=True)
                with contextlib.suppress(RuntimeError):  # no thread can be started; the job is stored all the same
                    thread.start()
                    self._thread = thread
        self._wake.set()

    def close(self) -> None:
        """Stop watching, and end the thread."""
        if self._pid != os.getpid():
            return
        with self._lock:
            self._expected.clear()
            thread = self._thread
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        pause, seen = _FASTEST, None
        while self._is_needed():
            try:
                before, seen = seen, self._store.change_count()
                if seen != before:
                    self._ring_for_arrived()
            except (EngineUnavailable, sqlite3.Error):
                seen = None  # users of the store get the error
            if self._wake.wait(pause):
                self._wake.clear()
                pause = _FASTEST
            else:
                pause = min(pause * 1.2, _SLOWEST)

    def _is_needed(self) -> bool:
        now = time.monotonic()
        with self._lock:
            self._expected = {job_id: until for job_id, until in self._expected.items() if until > now}
            if not self._expected:
                self._thread = None
            return bool(self._expected)

    def _ring_for_arrived(self) -> None:
        with self._lock:
            expected = list(self._expected)
        with self._store.reading() as db:
            committed = _names.decode(scalar(db, SQL["existing_ids"], {"ids": as_json(expected)}))
        if committed:
            self._ring()
            with self._lock:
                for job_id in committed:
                    self._expected.pop(job_id, None)
