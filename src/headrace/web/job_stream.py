"""The stream of one job as server-sent events: what is stored, what comes, and an event at the end of the job.

The reader of all events tells when something happened to the job; only then its chunks are read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from anyio.to_thread import run_sync
from starlette.types import Receive, Scope, Send

from headrace.app.app import Headrace
from headrace.app.jobs.records import chunk_of
from headrace.core.events.stream import Chunk
from headrace.errors import EngineUnavailable, JobNotFound
from headrace.runtime.events.stream import StreamReader
from headrace.runtime.jobs.job import Job
from headrace.web.sse import BOUNDED, RETRY, RETRY_DELAY, STILL_HERE, TROUBLE, LiveFeeds, Page, respond

log = logging.getLogger("headrace.web")
END = "-end"  # behind the cursor of a client that has seen the end of the job
_POLL_INTERVAL = 1.0  # seconds between reads where no events are stored
_CHANGED = b"changed"
_encode = msgspec.json.Encoder(enc_hook=repr).encode


class JobChanges(msgspec.Struct, frozen=True):
    """Whether anything happened to one job; see web.sse.StreamFormat."""

    job_id: str

    def write(self, pages: Sequence[Page], after: str | None) -> bytes:
        return _CHANGED if any(self.job_id in group.jobs for _, groups in pages for group in groups) else b""


class ChunkStream:
    """The streaming response, until the job is finished or either side ends it."""

    def __init__(self, app: Headrace, feeds: LiveFeeds, job: Job[Any], reader: StreamReader, after: str | None) -> None:
        self._app, self._feeds, self._job, self._reader = app, feeds, job, reader
        self._cursor = after or "0-0-0"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await respond(scope, receive, send, self._stored if BOUNDED in scope else self._followed)

    async def _stored(self) -> AsyncGenerator[bytes, None]:
        """What is stored now."""
        while not self._reader.is_at_end:
            yield await self._read()
        yield self._end() if self._reader.is_over else RETRY

    async def _followed(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._changes()) as changes:
            async for frame in changes:
                yield frame
                async with aclosing(self._new()) as frames:
                    async for each in frames:
                        yield each
                if self._reader.is_over:
                    yield self._end()
                    return

    async def _new(self) -> AsyncGenerator[bytes, None]:
        """Up to the newest chunk, however long the store is away."""
        is_read = False
        while not is_read:
            try:
                yield await self._read()
                is_read = self._reader.is_at_end
            except EngineUnavailable as error:
                log.warning("reading the stream of job %s failed: %s", self._job.id, error)
                yield TROUBLE
                await asyncio.sleep(RETRY_DELAY)

    async def _changes(self) -> AsyncGenerator[bytes, None]:
        """A frame, maybe an empty one, at first, when the job may have changed and after a quiet period."""
        if not self._app.settings.events:
            yield RETRY
            while not self._feeds.is_closed:
                await asyncio.sleep(_POLL_INTERVAL)
                yield STILL_HERE
            return
        async with aclosing(self._feeds.of_running_loop().listen(JobChanges(self._job.id), None)) as signals:
            async for signal in signals:
                yield b"" if signal == _CHANGED else signal

    async def _read(self) -> bytes:
        try:
            chunks = await run_sync(self._reader.more)
        except JobNotFound:  # deleted meanwhile
            self._reader.is_over = self._reader.is_at_end = True
            self._reader.state = None
            return b""
        if not chunks:
            return b""
        self._cursor = chunks[-1].cursor
        return await run_sync(_frames_of, chunks, self._job)

    def _end(self) -> bytes:
        return b"id: %b\nevent: end\ndata: %b\n\n" % (
            (self._cursor + END).encode(),
            _encode({"state": self._reader.state}),
        )


def _frames_of(chunks: Sequence[Chunk], job: Job[Any]) -> bytes:
    return b"".join(
        b"id: %b\ndata: %b\n\n" % (chunk.cursor.encode(), _encode(chunk_of(chunk, job))) for chunk in chunks
    )
