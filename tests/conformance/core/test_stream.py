"""The stream of a job: lines of chunks beside its log, stored only while the lease of their run holds."""

from __future__ import annotations

import pytest

from headrace.core.events.stream import line_note
from headrace.core.jobs.details import STREAM, StreamRange
from headrace.core.jobs.records import Claim, JobNote, Lease, LogLine
from headrace.core.jobs.states import Trigger
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    EVERYTHING,
    NOW,
    SECOND,
    claim_one,
    log,
    new_job,
    release,
    retry,
    settle,
    submit_and_claim,
    succeed,
    want,
)


def chunks(claimed: Claim | Lease, first: int, *texts: str, at: int = NOW) -> JobNote:
    return line_note(Lease(claimed.id, claimed.version), first, texts, at)


def note(engine: Engine, *notes: JobNote) -> None:
    engine.exchange([], None, notes, now=NOW)


def streamed(engine: Engine, first: int | None = 0, limit: int = 100, job_id: str = "job") -> list[LogLine]:
    wanted = StreamRange(first, limit)
    return engine.queries.details(job_id, history=False, logs=0, steps=False, stream=wanted).stream


def messages(engine: Engine, first: int | None = 0, limit: int = 100) -> list[str]:
    return [line.message for line in streamed(engine, first, limit)]


def test_a_line_is_read_as_it_was_written_with_its_attempt(engine: Engine) -> None:
    settle(engine, retry(submit_and_claim(engine), NOW))
    claimed = claim_one(engine)
    note(engine, chunks(claimed, 7, '"ü 🚰"', '{"a":1}', at=NOW + 3))
    (line,) = streamed(engine)
    assert (line.at, line.attempt, line.level) == (NOW + 3, 2, STREAM)
    assert (line.message, line.fields) == ('["ü 🚰",{"a":1}]', f"[{claimed.version},7]")


def test_lines_are_read_in_their_order_from_any_of_them_on(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    note(engine, *(chunks(claimed, n, str(n)) for n in range(5)), log(claimed, "between"))
    note(engine, *(chunks(claimed, n, str(n)) for n in range(5, 10)))
    every = [f"[{n}]" for n in range(10)]
    assert messages(engine) == every
    assert messages(engine, 3, 4) == every[3:7]
    assert messages(engine, 8, 4) == every[8:]
    assert messages(engine, 10) == []


def test_the_newest_lines_are_read_oldest_first(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    note(engine, *(chunks(claimed, n, str(n)) for n in range(5)), log(claimed, "between"))
    assert messages(engine, None, 2) == ["[3]", "[4]"]
    assert len(messages(engine, None, 50)) == 5


def test_a_job_without_a_stream_has_none(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    note(engine, log(claimed, "only a line"))
    assert streamed(engine) == streamed(engine, None) == streamed(engine, job_id="ghost") == []
    assert engine.queries.details("job").stream == []


def test_the_stream_is_no_part_of_the_log(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    note(engine, log(claimed, "first"), *(chunks(claimed, n, "1") for n in range(30)), log(claimed, "last"))
    assert [line.message for line in engine.queries.details("job", logs=2).logs] == ["first", "last"]


@pytest.mark.parametrize("behind", [-1, 1])
def test_chunks_of_another_version_are_refused(engine: Engine, behind: int) -> None:
    claimed = submit_and_claim(engine)
    note(engine, chunks(Lease("job", claimed.version + behind), 1, "1"), chunks(claimed, 1, "2"))
    assert messages(engine) == ["[2]"]


def test_a_run_that_lost_its_job_cannot_write_into_the_stream_of_the_next_one(engine: Engine) -> None:
    old = submit_and_claim(engine, worker="old")
    note(engine, chunks(old, 1, '"old"'))
    settle(engine, release(old))
    new = claim_one(engine, worker="new")
    note(engine, chunks(old, 2, '"late"'), chunks(new, 1, '"new"'))
    assert messages(engine) == ['["old"]', '["new"]']


def test_the_last_chunks_are_stored_with_the_outcome_of_their_run(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.exchange([succeed(claimed)], want(), [chunks(claimed, 1, '"last"')], now=NOW)
    note(engine, chunks(claimed, 2, '"from beyond"'))
    assert messages(engine) == ['["last"]']


def test_a_cancelled_run_streams_no_more(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 1, now=NOW + SECOND)
    note(engine, chunks(claimed, 1, "1"))
    assert messages(engine) == []


def test_a_stream_goes_with_its_job(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.exchange([succeed(claimed)], None, [chunks(claimed, 1, "1")], now=NOW)
    engine.queries.move(EVERYTHING, Trigger.DELETE, 1, now=NOW)
    engine.insert([new_job("job")], now=NOW)
    assert messages(engine) == []
