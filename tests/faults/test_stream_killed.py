"""kill -9 of a worker whose job streams: a reader sees the next attempt begin, and no chunk missing or twice."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from headrace import Chunk
from tests.faults.test_kill import _app
from tests.support.waiting import PATIENCE

KILL_AT = 120  # chunks that were read before the kill


def test_a_reader_sees_the_attempt_after_a_kill_begin_and_nothing_missing_or_twice(
    fleet: SimpleNamespace, url: str, tmp_path: Path
) -> None:
    with _app(url) as app:
        job = app.enqueue("talk", str(tmp_path))
        worker = fleet.start()
        chunks: list[Chunk] = []
        for chunk in job.stream():
            chunks.append(chunk)
            if len(chunks) == KILL_AT:
                worker.kill()
                worker.wait()
                (tmp_path / "go-2").touch()
                fleet.start()

        assert job.refresh().state == "completed"
        assert (job.attempt, job.row.crashes) == (2, 1)
        first, second = ([chunk for chunk in chunks if chunk.attempt == attempt] for attempt in (1, 2))
        assert [*first, *second] == chunks, "the first attempt writes no more once the second has begun"
        for attempt, found in ((1, first), (2, second)):
            assert [chunk.number for chunk in found] == list(range(1, len(found) + 1))
            assert [chunk.data for chunk in found] == [f"attempt {attempt} chunk {chunk.number}" for chunk in found]
        assert len(first) >= KILL_AT
        assert len(second) == job.result(PATIENCE), "all of an attempt that ended was read"
        assert list(job.stream(after=chunks[KILL_AT - 1].cursor)) == chunks[KILL_AT:], "and all is read again later"
