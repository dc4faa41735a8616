"""The stream of a job: chunks that its runs wrote, their stored form, and cursors to read on behind any of them.

A stream is stored in lines beside the job's log, each with the chunks that one run wrote within a fraction of a second.
A line says which run that was, by the version of its lease, and the number of its first chunk. Runs and numbers only
increase: so a line that was stored twice, after a lost answer, is recognized, and its chunks are read once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from headrace.core.clock import to_datetime
from headrace.core.codec import codec
from headrace.core.damaged_records import read
from headrace.core.jobs.details import STREAM
from headrace.core.jobs.records import JobNote, Lease, LogLine
from headrace.core.text import short
from headrace.errors import InvalidJob, PayloadTooLarge

WRITE_EVERY = 0.2  # seconds between two writes of one run
MAX_CHUNK, MAX_STREAM = 65_536, 4_194_304  # the defaults of the settings
_CURSOR = re.compile(r"([0-9]{1,15})-([0-9]{1,18})-([0-9]{1,15})", re.ASCII)


class Chunk(Struct, frozen=True):
    """One chunk of a job's stream, a text or data. `cursor` is where to read on behind it.

    `number` counts the chunks of one run from 1, so a chunk with the number 1 begins the stream anew: the job was
    retried, or its run was interrupted and runs again.
    """

    cursor: str
    attempt: int
    number: int
    at: datetime
    data: Any


class StreamLimits(Struct, frozen=True):
    """The most bytes of one encoded chunk, and of all chunks of one run."""

    chunk: int = MAX_CHUNK
    stream: int = MAX_STREAM


class StreamPosition(Struct, frozen=True):
    """A place in a stream: lines before it, and the last chunk that was read, by its run and its number there."""

    line: int = 0
    run: int = 0
    number: int = 0

    def __str__(self) -> str:
        return f"{self.line}-{self.run}-{self.number}"


class StreamLine(Struct, frozen=True):
    """A line of a stream, decrypted and read."""

    at: int
    attempt: int
    run: int
    first: int
    chunks: list[Any]


class _LineHead(Struct, frozen=True, array_like=True):
    run: int
    first: int


_encode = msgspec.json.Encoder().encode
_head = msgspec.json.Decoder(_LineHead)
_texts = msgspec.json.Decoder(list[msgspec.Raw])


# -- writing


def encoded_chunk(data: Any, limits: StreamLimits, written: int) -> str:
    """The text of a chunk; `written` are the bytes that this run has streamed before it."""
    if isinstance(data, str):  # as in a log line: no store keeps lone surrogates
        data = data.encode("utf-8", "replace").decode()
    try:
        text = codec.encode(data, limit=limits.chunk, where="chunk")
    except PayloadTooLarge as error:
        raise PayloadTooLarge(
            f"chunk: it has more than the limit of {limits.chunk} bytes (max_chunk); stream it in several chunks",
            size=error.size,
            limit=limits.chunk,
        ) from None
    if written + size_of(text) > limits.stream:
        raise PayloadTooLarge(
            f"stream: this run has streamed {written} bytes, and with this chunk it would be more than the limit of "
            f"{limits.stream} (max_stream); store large output elsewhere, and stream where it is",
            size=written + size_of(text),
            limit=limits.stream,
        )
    return text


def size_of(text: str) -> int:
    """How many bytes a chunk counts: those of its text, and a comma."""
    return len(text) + 1 if text.isascii() else len(text.encode()) + 1


def chunk_note(lease: Lease, text: str, at: int) -> JobNote:
    """A chunk on its way to the buffer of its worker."""
    return JobNote(lease.id, lease.version, at, level=STREAM, message=text)


def line_note(lease: Lease, first: int, chunks: Sequence[str], at: int) -> JobNote:
    """The line with these chunks of a run, as the store takes it."""
    head = _encode(_LineHead(lease.version, first)).decode()
    return JobNote(lease.id, lease.version, at, level=STREAM, message=f"[{','.join(chunks)}]", fields=head)


def chunk_lines(notes: Iterable[JobNote]) -> list[JobNote]:
    """These notes, with one line for all chunks of each run, in the place of its first one."""
    chunks: dict[Lease, list[str]] = {}
    firsts: dict[Lease, JobNote] = {}
    kept: list[JobNote] = []
    for note in notes:
        if note.level != STREAM or note.message is None:
            kept.append(note)
            continue
        if note.lease not in firsts:
            firsts[note.lease] = note
            kept.append(note)
        chunks.setdefault(note.lease, []).append(note.message)
    return [
        line_note(note.lease, 1, chunks[note.lease], note.at) if firsts.get(note.lease) is note else note
        for note in kept
    ]


# -- reading


def stream_line(line: LogLine, message: str) -> StreamLine | None:
    """The line with its decrypted message; None if it is damaged."""
    head, texts = read(_head.decode, line.fields or ""), read(_texts.decode, message)
    if head is None or texts is None:
        return None
    return StreamLine(
        line.at, line.attempt, head.run, head.first, [read(codec.decode, bytes(t).decode()) for t in texts]
    )


def chunks_of(lines: Sequence[StreamLine | None], after: StreamPosition) -> Iterator[tuple[StreamPosition, Chunk]]:
    """The chunks of these lines, which begin at the line of the position, that are behind it; each with its own."""
    run, number = after.run, after.number
    for place, line in enumerate(lines, after.line):
        if line is None:
            continue
        for each, data in enumerate(line.chunks, line.first):
            if (line.run, each) <= (run, number):
                continue
            run, number = line.run, each
            position = StreamPosition(place, run, number)
            at = to_datetime(line.at)
            assert at is not None
            yield position, Chunk(str(position), line.attempt, number, at, data)


def position_of(cursor: Any) -> StreamPosition:
    """The place behind the chunk with this cursor; None is the beginning."""
    if cursor is None:
        return StreamPosition()
    match = _CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
    if match is None:
        raise InvalidJob(f"cursor: {short(cursor)} is not the cursor of a chunk", value=cursor)
    return StreamPosition(*map(int, match.groups()))
