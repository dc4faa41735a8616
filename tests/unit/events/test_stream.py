"""The rules of streams: the stored form of chunks, cursors, and what is read once although it was stored twice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.events.stream import (
    Chunk,
    StreamLimits,
    StreamLine,
    StreamPosition,
    chunk_lines,
    chunk_note,
    chunks_of,
    encoded_chunk,
    line_note,
    position_of,
    size_of,
    stream_line,
)
from headrace.core.jobs.details import STREAM
from headrace.core.jobs.records import JobNote, Lease, LogLine
from headrace.errors import InvalidJob, PayloadTooLarge

AT = 1_767_225_600_000
LEASE = Lease("job", 4)
LIMITS = StreamLimits(chunk=100, stream=1000)


def stored(note: JobNote, attempt: int = 1) -> LogLine:
    assert note.message is not None
    return LogLine(note.at, attempt, note.level or "", note.message, note.fields)


def read(*notes: JobNote, after: StreamPosition | None = None) -> list[Chunk]:
    position = after or StreamPosition()
    lines = [stored(note) for note in notes][position.line :]
    return [chunk for _, chunk in chunks_of([stream_line(line, line.message) for line in lines], position)]


def data(found: Sequence[Chunk]) -> list[object]:
    return [chunk.data for chunk in found]


def test_chunks_come_back_as_they_were_written_with_their_numbers() -> None:
    texts = [encoded_chunk(each, LIMITS, 0) for each in ("ü\n", {"a": [1, None]}, "", datetime(2026, 1, 1, tzinfo=UTC))]
    found = read(line_note(LEASE, 3, texts, AT))
    assert data(found) == ["ü\n", {"a": [1, None]}, "", datetime(2026, 1, 1, tzinfo=UTC)]
    assert [chunk.number for chunk in found] == [3, 4, 5, 6]
    assert {(chunk.attempt, chunk.at) for chunk in found} == {(1, datetime(2026, 1, 1, tzinfo=UTC))}


def test_a_text_that_no_store_can_keep_is_made_readable() -> None:
    assert encoded_chunk("a\udcffb", LIMITS, 0) == '"a?b"'
    assert data(read(line_note(LEASE, 1, [encoded_chunk("a\x00b", LIMITS, 0)], AT))) == ["a\x00b"]


def test_a_chunk_that_is_too_large_is_refused() -> None:
    assert encoded_chunk("x" * 98, LIMITS, 0)
    with pytest.raises(PayloadTooLarge, match="chunk"):
        encoded_chunk("x" * 99, LIMITS, 0)
    with pytest.raises(InvalidJob, match="chunk"):
        encoded_chunk(object(), LIMITS, 0)


def test_a_run_streams_no_more_than_its_limit() -> None:
    assert encoded_chunk("x" * 97, LIMITS, 900)
    with pytest.raises(PayloadTooLarge, match=r"has streamed 901 bytes.*limit of 1000 \(max_stream\)") as refused:
        encoded_chunk("x" * 97, LIMITS, 901)
    assert (refused.value.size, refused.value.limit) == (1001, 1000)


def test_the_size_of_a_chunk_counts_bytes() -> None:
    assert (size_of('"ab"'), size_of('"ü"')) == (5, 5)


# -- lines


def test_the_chunks_of_a_run_become_one_line_in_the_place_of_the_first() -> None:
    other = Lease("other", 9)
    log = JobNote("job", 4, AT, level="info", message="a line")
    notes = [chunk_note(LEASE, "1", AT), log, chunk_note(other, "2", AT + 1), chunk_note(LEASE, "3", AT + 2)]
    assert chunk_lines(notes) == [line_note(LEASE, 1, ["1", "3"], AT), log, line_note(other, 1, ["2"], AT + 1)]


def test_a_damaged_line_hides_no_other() -> None:
    good = line_note(LEASE, 1, ["1"], AT)
    damaged = [
        JobNote("job", 4, AT, level=STREAM, message="[1", fields="[4,2]"),
        JobNote("job", 4, AT, level=STREAM, message="[1]", fields=None),
        JobNote("job", 4, AT, level=STREAM, message="[1]", fields='{"run":4}'),
    ]
    assert data(read(*damaged, good)) == [1]
    assert data(read(JobNote("job", 4, AT, level=STREAM, message='[{"$date":"x"},7]', fields="[4,1]"))) == [None, 7]


# -- reading on


def test_a_line_that_was_stored_twice_is_read_once() -> None:
    one, two = line_note(LEASE, 1, ["1", "2"], AT), line_note(LEASE, 3, ["3"], AT)
    assert data(read(one, one, two, two, one)) == [1, 2, 3]


def test_a_run_that_follows_begins_anew() -> None:
    first, second = line_note(LEASE, 1, ["1", "2"], AT), line_note(Lease("job", 6), 1, ["1", "3"], AT)
    found = read(first, second)
    assert [(chunk.number, chunk.data) for chunk in found] == [(1, 1), (2, 2), (1, 1), (2, 3)]


def test_what_a_run_wrote_is_not_read_behind_the_next_run() -> None:
    first, second = line_note(LEASE, 1, ["1"], AT), line_note(Lease("job", 6), 1, ["2"], AT)
    assert data(read(first, second, line_note(LEASE, 2, ["late"], AT))) == [1, 2]


_lines = st.lists(st.integers(0, 3), min_size=1, max_size=12)  # how many chunks each line repeats of the one before


@given(_lines, st.integers(0, 40))
def test_a_reader_that_goes_on_behind_any_chunk_misses_none_and_repeats_none(repeats: list[int], stop: int) -> None:
    notes, number = [], 1
    for repeated in repeats:
        first = max(number - repeated, 1)
        notes.append(line_note(LEASE, first, [str(each) for each in range(first, number + 2)], AT))
        number += 2
    every = read(*notes)
    assert data(every) == list(range(1, number))
    if stop < len(every):
        rest = read(*notes, after=position_of(every[stop].cursor))
        assert data(rest) == data(every[stop + 1 :])


def test_a_cursor_reads_on_in_the_middle_of_a_line() -> None:
    notes = [line_note(LEASE, 1, ["1", "2", "3"], AT), line_note(LEASE, 4, ["4"], AT)]
    middle = read(*notes)[1]
    assert middle.cursor == "0-4-2"
    assert data(read(*notes, after=position_of(middle.cursor))) == [3, 4]


def test_positions_are_those_of_the_lines() -> None:
    lines = [StreamLine(AT, 1, 4, 1, ["a"]), None, StreamLine(AT, 1, 4, 2, ["b", "c"])]
    found = [position for position, _ in chunks_of(lines, StreamPosition(5))]
    assert found == [StreamPosition(5, 4, 1), StreamPosition(7, 4, 2), StreamPosition(7, 4, 3)]


def test_no_cursor_is_the_beginning() -> None:
    assert position_of(None) == StreamPosition(0, 0, 0)


@pytest.mark.parametrize(
    "cursor", ["", "1", "1-2", "1-2-x", "-1-2-3", "1-2-3-4", "1-2-3\n", "٣-1-1", "9" * 30, 7, b"1-2-3"]
)
def test_a_bad_cursor_is_refused(cursor: object) -> None:
    with pytest.raises(InvalidJob, match="not the cursor of a chunk"):
        position_of(cursor)
