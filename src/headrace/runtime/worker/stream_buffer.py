"""Buffers the chunks that a worker's runs stream, so that each run writes a few lines a second however many they are.

A chunk that comes after a pause rings the worker, which stores it at once. What follows within WRITE_EVERY seconds is
stored with the next exchange after that, or with the outcome of the run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

from headrace.core.codec.encryption import Cipher
from headrace.core.events.stream import WRITE_EVERY, line_note, size_of
from headrace.core.jobs.records import JobNote, Lease
from headrace.engines.shared.shield import shielded
from headrace.runtime.jobs.encryption import encrypted_note

ROOM = 524_288  # bytes of one run that may wait for the store before its writer does
NEVER = float("inf")


class _Run:
    """The chunks of one run. `size` is that of all that are not known to be stored, `sent` of those on their way."""

    __slots__ = ("at", "chunks", "count", "due", "sent", "size")

    def __init__(self) -> None:
        self.chunks: list[str] = []
        self.at = self.count = self.size = self.sent = 0
        self.due = 0.0


class StreamBuffer:
    """The chunks of one worker that are not stored yet. Any thread adds; the one that makes the exchanges takes."""

    def __init__(self, ring: Callable[[], None], cipher: Cipher | None = None) -> None:
        self._ring = ring
        self._cipher = cipher
        self._changed = threading.Condition()
        self._runs: dict[Lease, _Run] = {}

    def add(self, note: JobNote) -> None:
        """Buffer one chunk."""
        assert note.message is not None
        with self._changed:
            run = self._runs.setdefault(note.lease, _Run())
            is_first = not run.chunks
            if is_first:
                run.at = note.at
            run.chunks.append(note.message)
            run.size += size_of(note.message)
        if is_first and time.monotonic() >= run.due:
            self._ring()

    @shielded
    def has_room(self, lease: Lease, wait: float) -> bool:
        """Whether this run may add more; waits for it at most so many seconds."""
        run = self._runs.get(lease)
        if run is None or run.size <= ROOM:
            return True
        with self._changed:
            return self._changed.wait_for(lambda: run.size <= ROOM, wait)

    @property
    def pause(self) -> float:
        """The seconds until chunks are due, or may be, of a run that wrote a moment ago."""
        if not self._runs:
            return NEVER
        now = time.monotonic()
        with self._changed:
            return min(
                (max(run.due - now, 0) for run in self._runs.values() if run.chunks or run.due > now), default=NEVER
            )

    def take(self, ended: Collection[Lease]) -> list[JobNote]:
        """The lines to store with this exchange: of runs that are due, and of those that have ended."""
        if not self._runs:
            return []
        now = time.monotonic()
        with self._changed:
            due = {lease: run for lease, run in self._runs.items() if run.chunks and (run.due <= now or lease in ended)}
            lines = [line_note(lease, run.count + 1, run.chunks, run.at) for lease, run in due.items()]
            for run in due.values():
                run.count += len(run.chunks)
                run.chunks, run.sent, run.due = [], run.size, now + WRITE_EVERY
        return [encrypted_note(self._cipher, line) for line in lines]

    def stored(self, live: Collection[Lease]) -> None:
        """The store has answered: what was taken is stored or refused. Runs that are not `live` are forgotten."""
        if not self._runs:
            return
        with self._changed:
            for run in self._runs.values():
                run.size, run.sent = run.size - run.sent, 0
            self._runs = {lease: run for lease, run in self._runs.items() if lease in live or run.chunks}
            self._changed.notify_all()
