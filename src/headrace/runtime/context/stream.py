"""Writes the stream of a running job: checks each chunk, and waits while the worker has too much to store."""

from __future__ import annotations

import threading
from typing import Any, Protocol

from headrace.core.events.stream import StreamLimits, chunk_note, encoded_chunk, size_of
from headrace.core.jobs.records import Claim, JobNote, Lease


class StreamLink(Protocol):
    """How a stream reaches the buffer of its worker."""

    @property
    def stream_limits(self) -> StreamLimits: ...
    def now(self) -> int: ...
    def note(self, note: JobNote) -> None: ...
    def has_stream_room(self, lease: Lease, wait: float) -> bool:
        """Whether the buffer takes more chunks of this run; waits for it at most so many seconds."""
        ...


class StreamWriter:
    """The stream of one run; several threads may write."""

    __slots__ = ("_lease", "_link", "_lock", "_written")

    def __init__(self, claim: Claim, link: StreamLink) -> None:
        self._lease = claim.lease
        self._link = link
        self._lock = threading.Lock()
        self._written = 0

    def write(self, data: Any) -> None:
        """Append a chunk to the buffer."""
        with self._lock:  # the limit counts, and the chunks of a thread stay in their order
            text = encoded_chunk(data, self._link.stream_limits, self._written)
            self._written += size_of(text)
            self._link.note(chunk_note(self._lease, text, self._link.now()))

    def has_room(self, wait: float = 0.0) -> bool:
        """Whether the buffer takes more; waits for it at most so many seconds."""
        return self._link.has_stream_room(self._lease, wait)
