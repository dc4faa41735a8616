"""Server-sent events. One reader of the store serves all listeners.

New events are read and encoded once for all listeners with the same filter, which share the bytes. A slow listener is
dropped, so that it neither blocks others nor uses memory: it reconnects with the `Last-Event-ID` of its last event and
continues there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from typing import Protocol
from weakref import WeakKeyDictionary

import msgspec
from anyio.to_thread import run_sync
from starlette.types import Message, Receive, Scope, Send

from headrace.app.app import Headrace
from headrace.core.events.event import EventFilter, page_of
from headrace.core.events.log import EventGroup, events_of
from headrace.errors import HeadraceError
from headrace.runtime.event_log import last_cursor
from headrace.runtime.events.follow import EventBell
from headrace.runtime.process.stop_signals import on_stop_signal, server_is_ending

log = logging.getLogger("headrace.web")
Page = tuple[str, list[EventGroup]]
Position = tuple[int, ...]

_PAGE_LIMIT = 200  # per read
_POLL_INTERVAL = 0.1  # seconds between looks at the bell, and so between reads
RETRY_DELAY = 2.0  # and after a failed read
HEARTBEAT = 15.0
RETRY, STILL_HERE = b"retry: 2000\n\n", b": still here\n\n"
TROUBLE = b'event: trouble\ndata: {"detail":"the store is not available"}\n\n'
_QUEUE = 32  # chunks a listener may lag behind
_QUEUE_BYTES = 8 << 20
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
BOUNDED = "headrace.bounded"  # in the scope of a request that must end by itself
_BOUNDED_BYTES = 4 << 20
_encode = msgspec.json.Encoder(enc_hook=repr).encode


class StreamFormat(Protocol):
    """How events are encoded. Equal encodings share their bytes, so it is hashable."""

    def write(self, pages: Sequence[Page], after: str | None) -> bytes:
        """These pages as frames of a stream, only events after the cursor `after`."""
        ...

    def __hash__(self) -> int: ...


class EachEvent(msgspec.Struct, frozen=True):
    """Every event that matches the filter, in full."""

    event_filter: EventFilter

    def write(self, pages: Sequence[Page], after: str | None) -> bytes:
        covers = self.event_filter.covers
        frames = []
        for cursor, groups in pages:
            if not any(covers(group.type, group.queue, group.task) for group in groups):
                continue
            for event in events_of(cursor, groups, after):
                if covers(event.type, event.queue, event.task):
                    frames.append(
                        b"id: %b\nevent: %b\ndata: %b\n\n"
                        % (event.cursor.encode(), event.type.encode(), _encode(event))
                    )
        return b"".join(frames)


class ChangedTopics(msgspec.Struct, frozen=True):
    """Only the changed topics, such as `queue:emails` and `job:0197…`; `*` (everything) for very many jobs."""

    max_topics: int = 200

    def write(self, pages: Sequence[Page], after: str | None) -> bytes:
        topics: dict[str, None] = {}
        for _, groups in pages:
            for group in groups:
                topics |= dict.fromkeys(_topics_of(group, self.max_topics))
        if len(topics) > self.max_topics:
            topics = {"*": None}
        return b"id: %b\nevent: changed\ndata: %b\n\n" % (pages[-1][0].encode(), _encode(list(topics)))


def _topics_of(group: EventGroup, max_topics: int) -> Iterable[str]:
    kind = group.type.partition(".")[0]
    yield kind
    for name, value in (("queue", group.queue), ("task", group.task), ("worker", group.worker)):
        if value is not None:
            yield f"{name}:{value}"
    yield from (f"job:{job_id}" for job_id in group.jobs[: max_topics + 1])


class StreamSubscriber:
    """One listener. `seen` is the last page sent to it."""

    def __init__(self, stream_format: StreamFormat, seen: Position) -> None:
        self.stream_format = stream_format
        self.seen = seen
        self.is_dropped = False
        self._chunks: deque[bytes] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()

    def offer(self, chunk: bytes) -> bool:
        """Queue a chunk; False if the queue is full."""
        if not chunk:
            return True
        if len(self._chunks) >= _QUEUE or self._bytes + len(chunk) > _QUEUE_BYTES:
            return False
        self._chunks.append(chunk)
        self._bytes += len(chunk)
        self._arrived.set()
        return True

    def drop(self) -> None:
        self.is_dropped = True
        self._chunks.clear()
        self._arrived.set()

    async def next(self, timeout: float) -> bytes | None:
        """The next chunk; None on timeout."""
        if not self._chunks and not self.is_dropped:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), timeout)
        self._arrived.clear()
        if not self._chunks:
            return None
        chunk = self._chunks.popleft()
        self._bytes -= len(chunk)
        return chunk


class LiveFeed:
    """The reader of one app in one event loop; it reads while there are listeners."""

    def __init__(self, app: Headrace) -> None:
        self._app = app
        self._listeners: set[StreamSubscriber] = set()
        self._cursor: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._joining = asyncio.Lock()

    async def listen(self, stream_format: StreamFormat, after: str | None) -> AsyncGenerator[bytes, None]:
        """The stream of one listener: missed events, then new ones; a comment after a quiet period."""
        seen = None if after is None else await self._not_ahead(after)
        if seen is not None:
            async for reached, chunk in self._missed(stream_format, seen, None):
                seen = reached
                yield chunk
        listener = await self._join(stream_format, seen)
        try:
            if seen is not None and self._cursor is not None:  # events that others got before it joined
                async for _, chunk in self._missed(stream_format, seen, position(self._cursor)):
                    yield chunk
                listener.seen = max(position(seen), position(self._cursor))
            yield RETRY  # once this is read, no later event is missed
            while not listener.is_dropped:
                yield await listener.next(HEARTBEAT) or STILL_HERE
        finally:
            self._listeners.discard(listener)

    async def missed(self, stream_format: StreamFormat, after: str | None) -> AsyncIterator[bytes]:
        """The events after a cursor, and where to continue; without a cursor only that."""
        seen = await run_sync(last_cursor, self._app.engine.events) if after is None else await self._not_ahead(after)
        size = 0
        async for reached, chunk in self._missed(stream_format, seen, None):
            seen = reached
            size += len(chunk)
            yield chunk
            if size > _BOUNDED_BYTES:
                break
        yield b"id: %b\nretry: 2000\n\n" % seen.encode()

    def close(self) -> None:
        """End every stream."""
        for listener in list(self._listeners):
            listener.drop()

    async def _not_ahead(self, after: str) -> str:
        """The cursor, or the end of all events if the cursor is ahead of it: it then belongs to an earlier store.

        A listener at such a cursor would get nothing; if it is the first, which sets the reader's start, so would all.
        """
        last = await run_sync(last_cursor, self._app.engine.events)
        return last if position(after) > position(last) else after

    async def _join(self, stream_format: StreamFormat, seen: str | None) -> StreamSubscriber:
        async with self._joining:
            is_idle = self._task is None or self._task.done()
            begin = seen if is_idle or seen is not None else self._cursor
            if begin is None:
                begin = await run_sync(last_cursor, self._app.engine.events)
            if is_idle:
                self._cursor = begin
            listener = StreamSubscriber(stream_format, position(begin))
            self._listeners.add(listener)
            if is_idle:
                self._task = asyncio.create_task(self._read())
            return listener

    async def _missed(
        self, stream_format: StreamFormat, after: str, until: Position | None
    ) -> AsyncIterator[tuple[str, bytes]]:
        """Events after a cursor, up to a position or the end; each chunk with its last cursor."""
        while until is None or position(after) < until:
            pages = await run_sync(self._app.engine.events.read, after, _PAGE_LIMIT)
            # The reader sends the events after the position.
            pages = [page for page in pages if page[0] != after and (until is None or position(page[0]) <= until)]
            if not pages:
                return
            chunk = await run_sync(stream_format.write, pages, after)
            after = pages[-1][0]
            yield after, chunk

    # -- the reader

    async def _read(self) -> None:
        with contextlib.ExitStack() as closing:
            # uvicorn waits for streams before it notifies its apps.
            loop = asyncio.get_running_loop()
            closing.callback(on_stop_signal(lambda: _close_soon(loop, self)))
            bell: EventBell | None = None
            while self._listeners:
                if server_is_ending():
                    self.close()
                    return
                try:
                    if bell is None:
                        bell = closing.enter_context(contextlib.closing(await run_sync(EventBell, self._app.engine)))
                    formats = {listener.stream_format for listener in self._listeners}
                    batch = await run_sync(self._read_pages, formats)
                except HeadraceError as error:
                    await self._report_unavailable(error)
                    continue
                if batch is not None:
                    pages, chunks = batch
                    self._cursor = pages[-1][0]
                    for listener in list(self._listeners):
                        self._send_to(listener, pages, chunks)
                if batch is None or len(batch[0]) < _PAGE_LIMIT:
                    await self._wait(bell)

    async def _wait(self, bell: EventBell) -> None:
        """Wait until there may be new events, the last listener has left, or the server ends."""
        is_due = False
        while not is_due and self._listeners and not server_is_ending():
            await asyncio.sleep(_POLL_INTERVAL)
            is_due = await run_sync(bell.is_due)

    async def _report_unavailable(self, error: HeadraceError) -> None:
        log.warning("reading events failed: %s", error)
        for listener in self._listeners:
            listener.offer(TROUBLE)
        await asyncio.sleep(RETRY_DELAY)

    def _read_pages(self, formats: set[StreamFormat]) -> tuple[list[Page], dict[StreamFormat, bytes]] | None:
        pages = self._app.engine.events.read(self._cursor, _PAGE_LIMIT)
        if not pages:
            return None
        return pages, {stream_format: stream_format.write(pages, None) for stream_format in formats}

    def _send_to(self, listener: StreamSubscriber, pages: list[Page], chunks: dict[StreamFormat, bytes]) -> None:
        first, last = position(pages[0][0]), position(pages[-1][0])
        if listener.seen >= last:
            return
        chunk = chunks.get(listener.stream_format)
        if chunk is None or listener.seen >= first:  # it joined meanwhile, or has seen some of these
            unseen = [page for page in pages if position(page[0]) > listener.seen]
            chunk = listener.stream_format.write(unseen, None)
        listener.seen = last
        if not listener.offer(chunk):
            self._listeners.discard(listener)
            listener.drop()


def position(cursor: str) -> Position:
    """The sort key of a cursor: page cursors are one or two numbers in the order of events."""
    return tuple(int(part) for part in page_of(cursor)[0].split("-"))


class LiveFeeds:
    """The readers of one app, one per event loop."""

    def __init__(self, app: Headrace) -> None:
        self._app = app
        self._feeds: WeakKeyDictionary[asyncio.AbstractEventLoop, LiveFeed] = WeakKeyDictionary()
        self.is_closed = False

    def of_running_loop(self) -> LiveFeed:
        loop = asyncio.get_running_loop()
        if loop not in self._feeds:
            self._feeds[loop] = LiveFeed(self._app)
        return self._feeds[loop]

    def close(self) -> None:
        """End every stream; callable from any thread and from signal handlers."""
        self.is_closed = True
        for loop, feed in list(self._feeds.items()):
            _close_soon(loop, feed)


def _close_soon(loop: asyncio.AbstractEventLoop, feed: LiveFeed) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has already ended
        loop.call_soon_threadsafe(feed.close)


class Stream:
    """The streaming response, until either side ends it."""

    def __init__(self, feeds: LiveFeeds, stream_format: StreamFormat, after: str | None) -> None:
        self._feeds, self._stream_format, self._after = feeds, stream_format, after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        def frames() -> AsyncIterator[bytes]:
            feed = self._feeds.of_running_loop()
            return (feed.missed if BOUNDED in scope else feed.listen)(self._stream_format, self._after)

        await respond(scope, receive, send, frames)


async def respond(scope: Scope, receive: Receive, send: Send, frames: Callable[[], AsyncIterator[bytes]]) -> None:
    """Send a stream of frames, until it ends or the client disconnects."""
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    if scope["method"] == "HEAD":  # a HEAD request would wait forever for the end of the body
        await send({"type": "http.response.body", "body": b""})
        return
    sending = asyncio.create_task(_send_all(frames(), send))
    disconnect = asyncio.create_task(wait_for_disconnect(receive))
    try:
        await asyncio.wait({sending, disconnect}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, disconnect):
            task.cancel()
        await asyncio.gather(sending, disconnect, return_exceptions=True)


async def _send_all(stream: AsyncIterator[bytes], send: Send) -> None:
    async for chunk in stream:
        if chunk:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            return
