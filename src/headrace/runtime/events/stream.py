"""Reads the stream of a job from a cursor on, and follows it until the job is finished."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, nullcontext
from typing import Protocol

from headrace.core.events.stream import Chunk, StreamLine, StreamPosition, chunks_of
from headrace.core.jobs.details import StreamRange
from headrace.core.jobs.states import FINAL, State
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.events.follow import EventBell, is_back, wait_after
from headrace.runtime.jobs.async_twin import in_thread

_LINES = 200  # per read
_EVERY = 0.1  # seconds between two reads, and looks of a bell that is rung by other processes only


class StreamSource(Protocol):
    """The stored stream of one job."""

    def state(self) -> State:
        """The state of the job; JobNotFound if it is gone."""
        ...

    def lines(self, wanted: StreamRange) -> Sequence[StreamLine | None]:
        """These lines; None for a damaged one."""
        ...


class StreamReader:
    """A position in the stream of a job. `is_over` says, at the end of what is stored, whether no more can come.

    `state` is that of the job at the last read, None before it.
    """

    def __init__(self, source: StreamSource, after: StreamPosition) -> None:
        self._source = source
        self._position = after
        self.is_at_end = self.is_over = False
        self.state: State | None = None

    def more(self) -> list[Chunk]:
        """The next chunks."""
        self.state = self._source.state()  # asked first: the last chunks are stored with the end of their job
        lines = self._source.lines(StreamRange(self._position.line, _LINES))
        run, number, chunks = self._position.run, self._position.number, list[Chunk]()
        for position, chunk in chunks_of(lines, self._position):
            run, number = position.run, position.number
            chunks.append(chunk)
        self._position = StreamPosition(self._position.line + len(lines), run, number)
        self.is_at_end = len(lines) < _LINES
        self.is_over = self.is_at_end and self.state in FINAL
        return chunks


def read_stream(reader: StreamReader, engine: Engine | None) -> Iterator[Chunk]:
    """Chunks as they come, until the job is finished, woken by this engine; without one, up to the newest chunk."""
    with closing(EventBell(engine)) if engine else nullcontext() as bell:
        while True:
            try:
                chunks = reader.more()
            except EngineUnavailable as error:
                if engine is None:
                    raise
                time.sleep(wait_after(engine, error))
                continue
            is_back(engine)
            yield from chunks
            if reader.is_over or (bell is None and reader.is_at_end):
                return
            if bell is not None and reader.is_at_end:
                time.sleep(_EVERY)  # a busy store rings all the time
                while not bell.is_due(_EVERY):
                    pass


async def aread_stream(reader: StreamReader, engine: Engine | None) -> AsyncIterator[Chunk]:
    """The same without blocking the event loop."""
    with closing(await in_thread(EventBell, engine)) if engine else nullcontext() as bell:
        while True:
            try:
                chunks = await in_thread(reader.more)
            except EngineUnavailable as error:
                if engine is None:
                    raise
                await asyncio.sleep(wait_after(engine, error))
                continue
            is_back(engine)
            for chunk in chunks:
                yield chunk
            if reader.is_over or (bell is None and reader.is_at_end):
                return
            is_due = bell is None or not reader.is_at_end
            while not is_due and bell is not None:
                await asyncio.sleep(_EVERY)
                is_due = await in_thread(bell.is_due)
