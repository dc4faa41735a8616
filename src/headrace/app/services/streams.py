"""The streams of jobs for their handles: stored, archived, or not begun because the job still waits in a spool."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Protocol

from headrace.app.services import archived_jobs
from headrace.core.events.stream import Chunk, StreamLine, StreamPosition, chunks_of, position_of, stream_line
from headrace.core.jobs.details import StreamRange, log_and_stream
from headrace.core.jobs.records import JobRow, LogLine
from headrace.core.jobs.states import State
from headrace.engines.protocol.archive import Archive
from headrace.engines.protocol.engine import Engine
from headrace.runtime.events.stream import StreamReader, aread_stream, read_stream
from headrace.runtime.jobs.job import ARCHIVED, SPOOLED


class StreamServices(Protocol):
    """The services of an app that reading a stream needs."""

    engine: Engine

    @property
    def archive(self) -> Archive | None: ...
    def row(self, job_id: str) -> JobRow: ...
    def decrypted(self, text: str, what: str, whom: str) -> str: ...


class JobStream:
    """The stream of one job."""

    def __init__(self, services: StreamServices, row: JobRow) -> None:
        self._services = services
        self._row = row

    def state(self) -> State:
        """The state of the job; JobNotFound if it is gone. A job that has its id by now is another one."""
        if self._row.seq != ARCHIVED:
            self._row = self._services.row(self._row.id)
        return self._row.state

    def lines(self, wanted: StreamRange) -> Sequence[StreamLine | None]:
        return [self._read(line) for line in self._stored(wanted)]

    def _stored(self, wanted: StreamRange) -> Sequence[LogLine]:
        row, services = self._row, self._services
        if row.seq == SPOOLED:
            return ()
        if row.seq != ARCHIVED:
            parts = {"history": False, "steps": False}
            return services.engine.queries.details(row.id, logs=0, stream=wanted, **parts).stream
        archived = archived_jobs.archived_job(services.archive, row.id, row.created_at)
        stored = [] if archived is None else log_and_stream(archived.logs)[1]
        return stored[-wanted.limit :] if wanted.first is None else stored[wanted.first : wanted.first + wanted.limit]

    def _read(self, line: LogLine) -> StreamLine | None:
        return stream_line(line, self._services.decrypted(line.message, "stream", self._row.id))

    def newest(self, limit: int) -> list[Chunk]:
        """The chunks of the newest lines. Their cursors are not those of the whole stream."""
        return [chunk for _, chunk in chunks_of(self.lines(StreamRange(None, limit)), StreamPosition())]

    # -- for handles

    def reader(self, after: str | None) -> StreamReader:
        """A reader behind the chunk with this cursor."""
        return StreamReader(self, position_of(after))

    def read(self, after: str | None, *, follow: bool) -> Iterator[Chunk]:
        return read_stream(self.reader(after), self._services.engine if follow else None)

    def aread(self, after: str | None, *, follow: bool) -> AsyncIterator[Chunk]:
        return aread_stream(self.reader(after), self._services.engine if follow else None)
