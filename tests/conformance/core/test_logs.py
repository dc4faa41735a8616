"""Notes: log lines and progress of a running attempt, kept only while its lease holds."""

from __future__ import annotations

import pytest

from headrace.core.jobs.records import JobNote
from headrace.core.jobs.states import Trigger
from headrace.engines.protocol.engine import Engine
from tests.support.builders import (
    EVERYTHING,
    NOW,
    SECOND,
    claim,
    claim_one,
    log,
    new_job,
    progress,
    release,
    retry,
    row,
    settle,
    submit_and_claim,
    succeed,
    want,
)


def note(engine: Engine, *notes: JobNote) -> None:
    engine.exchange([], None, notes, now=NOW)


def lines(engine: Engine, job_id: str = "job", limit: int = 1000) -> list[str]:
    return [line.message for line in engine.queries.details(job_id, logs=limit).logs]


def test_lines_are_kept_in_the_order_they_were_written(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    note(engine, log(claimed, "z", at=NOW + 5), log(claimed, "a", at=NOW + 1))
    note(engine, log(claimed, "m"))
    assert lines(engine) == ["z", "a", "m"]


def test_a_line_tells_its_time_level_attempt_and_fields(engine: Engine) -> None:
    settle(engine, retry(submit_and_claim(engine), NOW))
    claimed = claim_one(engine)
    note(engine, JobNote("job", claimed.version, NOW + 3, level="warning", message="ü 🚰", fields='{"a":1}'))
    (line,) = engine.queries.details("job").logs
    assert (line.at, line.level, line.attempt, line.message, line.fields) == (NOW + 3, "warning", 2, "ü 🚰", '{"a":1}')


def test_the_newest_lines_are_kept_in_sight_oldest_first(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    note(engine, *(log(claimed, f"{number}") for number in range(20)))
    assert lines(engine, limit=3) == ["17", "18", "19"]


def test_lines_of_all_attempts_are_kept(engine: Engine) -> None:
    first = submit_and_claim(engine)
    engine.exchange([retry(first, NOW)], None, [log(first, "one")], now=NOW)
    second = claim_one(engine)
    engine.exchange([succeed(second)], None, [log(second, "two")], now=NOW)
    assert [(line.attempt, line.message) for line in engine.queries.details("job").logs] == [(1, "one"), (2, "two")]


def test_of_several_reports_of_progress_the_last_wins(engine: Engine) -> None:
    engine.insert([new_job("a"), new_job("b")], now=NOW)
    a, b = claim(engine)
    note(engine, progress(a, "1"), progress(b, "7"), progress(a, "3"), progress(a, "2"))
    assert (row(engine, "a").progress, row(engine, "b").progress) == ("2", "7")


def test_progress_is_no_transition(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    note(engine, progress(claimed, "half"), log(claimed, "hello"))
    assert row(engine).version == claimed.version
    assert engine.queries.details("job").history == []


def test_one_note_may_carry_both(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    note(engine, JobNote("job", claimed.version, NOW, progress="half", level="info", message="half way"))
    assert (row(engine).progress, lines(engine)) == ("half", ["half way"])


@pytest.mark.parametrize("behind", [-1, 1])
def test_notes_of_another_version_are_dropped(engine: Engine, behind: int) -> None:
    claimed = submit_and_claim(engine)
    note(engine, progress(claimed, "mine"))
    stale = JobNote("job", claimed.version + behind, NOW, progress="not mine", level="info", message="not mine")
    note(engine, stale)
    assert (row(engine).progress, lines(engine)) == ("mine", [])


def test_an_attempt_that_lost_its_job_cannot_write_into_the_next_one(engine: Engine) -> None:
    old = submit_and_claim(engine, worker="old")
    settle(engine, release(old))
    claim_one(engine, worker="new")
    note(engine, progress(old, "old"), log(old, "old"))
    assert (row(engine).progress, lines(engine)) == (None, [])


def test_a_stale_report_beside_a_fresh_one_does_not_hide_it(engine: Engine) -> None:
    old = submit_and_claim(engine)
    settle(engine, release(old))
    new = claim_one(engine)
    note(engine, progress(new, "fresh"), progress(old, "stale"))
    assert row(engine).progress == "fresh"


def test_notes_are_stored_before_the_same_exchange_settles_the_job(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.exchange([succeed(claimed)], want(), [log(claimed, "last words"), progress(claimed, "all")], now=NOW)
    assert (row(engine).progress, lines(engine)) == ("all", ["last words"])
    note(engine, log(claimed, "from beyond"))
    assert lines(engine) == ["last words"]


def test_a_cancelled_attempt_is_silenced(engine: Engine) -> None:
    claimed = submit_and_claim(engine)
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 1, now=NOW + SECOND)
    note(engine, log(claimed, "too late"), progress(claimed, "too late"))
    assert (row(engine).progress, lines(engine)) == (None, [])


def test_notes_about_a_job_nobody_knows_are_dropped(engine: Engine) -> None:
    note(engine, JobNote("ghost", 1, NOW, progress="x", level="info", message="boo"))
    assert lines(engine, "ghost") == []


@pytest.mark.parametrize("text", ["", "'; DROP TABLE headrace_logs; --", '"\\', "\x01\x1b[31m", "x" * 100_000])
def test_any_line_is_stored_verbatim(engine: Engine, text: str) -> None:
    claimed = submit_and_claim(engine)
    note(engine, log(claimed, text), progress(claimed, text))
    assert (row(engine).progress, lines(engine)) == (text, [text])
