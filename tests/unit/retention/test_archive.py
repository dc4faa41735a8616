"""Partitions of the archive by name and time, and jobs made small and whole again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import HistoryRow, JobRow, LogLine
from headrace.core.jobs.states import State
from headrace.core.jobs.steps import Step
from headrace.core.jobs.transfer import JobExport
from headrace.core.retention.archive import (
    SUMMARY,
    ArchivedJob,
    Interval,
    ahead,
    archived_job,
    cursor_after,
    is_past,
    partition_of,
    place_of,
    row_of,
    span_of,
    was_archived_before,
)
from headrace.errors import CorruptPayload, InvalidJob

INTERVALS: list[Interval] = ["weekly", "daily", "monthly"]


def ms(text: str) -> int:
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp() * 1000)


@pytest.mark.parametrize(
    ("moment", "weekly", "daily", "monthly"),
    [
        ("2026-11-16T00:00:00", "2026-W47", "2026-11-16", "2026-11"),
        ("2026-11-15T23:59:59.999", "2026-W46", "2026-11-15", "2026-11"),
        ("2026-12-31T12:00:00", "2026-W53", "2026-12-31", "2026-12"),
        ("2027-01-01T00:00:00", "2026-W53", "2027-01-01", "2027-01"),
        ("2027-01-03T23:59:59", "2026-W53", "2027-01-03", "2027-01"),
        ("2027-01-04T00:00:00", "2027-W01", "2027-01-04", "2027-01"),
        ("2024-12-30T00:00:00", "2025-W01", "2024-12-30", "2024-12"),
        ("2024-02-29T08:00:00", "2024-W09", "2024-02-29", "2024-02"),
    ],
)
def test_a_time_has_one_partition_around_new_year_too(moment: str, weekly: str, daily: str, monthly: str) -> None:
    assert [partition_of(ms(moment), interval) for interval in INTERVALS] == [weekly, daily, monthly]


@given(st.integers(0, ms("2199-01-01T00:00:00")), st.sampled_from(INTERVALS))
def test_the_span_of_a_partition_holds_its_times_and_no_others(moment: int, interval: Interval) -> None:
    name = partition_of(moment, interval)
    span = span_of(name)
    assert span is not None
    since, until = span
    assert since <= moment < until
    assert {partition_of(since, interval), partition_of(until - 1, interval)} == {name}
    assert partition_of(until, interval) > name > partition_of(since - 1, interval)  # names sort by time
    assert is_past(name, until)
    assert not is_past(name, until - 1)


@pytest.mark.parametrize("name", ["", "2026", "2026-W54", "2026-W00", "2026-13", "2026-02-30", "2026-W1", "x-2026-11"])
def test_other_names_are_no_partitions(name: str) -> None:
    assert span_of(name) is None
    assert not is_past(name, ms("2199-01-01T00:00:00"))


def test_two_partitions_are_ahead_of_now() -> None:
    now = ms("2026-12-24T12:00:00")
    assert ahead(now, "weekly") == ["2026-W52", "2026-W53", "2027-W01"]
    assert ahead(now, "daily") == ["2026-12-24", "2026-12-25", "2026-12-26"]
    assert ahead(now, "monthly") == ["2026-12", "2027-01", "2027-02"]


# -- rows


def job(**more: Any) -> JobRow:
    known: dict[str, Any] = dict.fromkeys(JobRow.__struct_fields__)
    known |= {"seq": 3, "id": "job", "task": "work", "queue": "default", "state": State.COMPLETED, "priority": 0}
    known |= {"rank": 1, "version": 3, "attempt": 2, "max_attempts": 4, "crashes": 0, "releases": 0, "payload": "[]"}
    known |= {"checksum": 7, "created_at": 1000, "run_at": 1000, "started_at": 1500, "finished_at": 4500, "lane": ""}
    return JobRow(**{**known, "has_dependencies": 0, **more})


def history_row(event: str = "retry", error: str | None = None) -> HistoryRow:
    return HistoryRow(
        1600, event, "running", "retrying", 2, 1, "w", 1500, None, "why", error, "m" * 300 if error else None, ""
    )


def test_a_row_has_the_search_fields_of_its_job() -> None:
    row = row_of(JobExport(job(result='"' + "x" * 300, tags='["red"]'), [], []))
    assert (row.id, row.task, row.queue, row.state, row.created_at) == ("job", "work", "default", "completed", 1000)
    assert (row.finished_at, row.duration, row.attempts, row.tags) == (4500, 3000, 2, '["red"]')
    assert row.summary == '"' + "x" * (SUMMARY - 1)
    assert row.bytes == len(row.body)


def test_an_encrypted_result_has_no_summary() -> None:
    assert row_of(JobExport(job(result='{"$sealed":["k","n","c"]}'), [], [])).summary is None


def test_the_summary_of_a_failure_is_its_last_error() -> None:
    failed = job(state=State.FAILED, reason="attempts_used_up")
    row = row_of(JobExport(failed, [history_row(error="OSError"), history_row(error="KeyError"), history_row()], []))
    assert row.summary == f"KeyError: {'m' * 300}"[:SUMMARY]
    assert row_of(JobExport(failed, [history_row()], [])).summary == "attempts_used_up"
    assert row_of(JobExport(job(state=State.CANCELLED), [], [])).summary is None


def test_a_job_that_never_started_has_no_duration() -> None:
    assert row_of(JobExport(job(state=State.CANCELLED, started_at=None), [], [])).duration is None
    assert row_of(JobExport(job(started_at=9000), [], [])).duration == 0  # a clock that was set back


def test_the_whole_job_comes_back() -> None:
    job_export = JobExport(
        job(), [history_row(error="OSError")], [LogLine(1, 1, "info", "hé\x00", None)], [Step("step", "a", 1, 2)]
    )
    edges = [Dependency("job", "child", "run")]
    assert archived_job(row_of(job_export, edges)) == ArchivedJob(
        job_export.job, job_export.history, job_export.logs, job_export.steps, edges
    )


@pytest.mark.parametrize("body", [b"", b"\x02abc", b"\x01abc", b"\x01"])
def test_a_damaged_body_is_reported(body: bytes) -> None:
    with pytest.raises(CorruptPayload, match="job"):
        archived_job(replace(row_of(JobExport(job(), [], [])), body=body))


def test_a_body_is_small() -> None:
    row = row_of(JobExport(job(payload="[[" + "1," * 500 + "1],{}]"), [], []))
    assert row.bytes < 150


def test_a_body_of_today_is_read_for_years() -> None:
    """Written by the first version. If this fails, give the body a new format and go on reading the old one."""
    body = bytes.fromhex(FIRST)
    row = replace(row_of(JobExport(job(), [], [])), body=body, bytes=len(body))
    kept = archived_job(row)
    assert (kept.job.id, kept.job.task, kept.job.result) == ("an-old-job", "emails.send", '"sent"')
    assert [(entry.event, entry.error_type) for entry in kept.history] == [("retry", "OSError")]


FIRST = (
    "019b7a8741817955629e6e7e4e8a6e567ed2ead45ca0edc57ac5404bb018c7c8cc04346f51742cfb59e6174074e02ceb9db3"
    "82530e1c58a604d451a284307ce2dcb36c0e38bccbc4b8b01ca8f1c0e2f28ccae5fec1e0a05c92589e587953398470e4025d"
    "0d00"
)


def test_only_what_ran_again_may_have_an_older_row() -> None:
    assert not was_archived_before(JobExport(job(), [history_row("retry")], []))
    assert was_archived_before(
        JobExport(job(), [history_row("retry"), history_row("revive"), history_row("retry")], [])
    )


# -- cursors


def test_a_cursor_is_the_place_of_a_row() -> None:
    row = row_of(JobExport(job(id="a:b/c=d"), [], []))
    assert place_of(cursor_after(row)) == (4500, "a:b/c=d")
    assert place_of(None) is None


@pytest.mark.parametrize("cursor", ["", "x", "12", "12:", ":a", "1.5:a", "1" * 19 + ":a", "1:a b"])
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidJob, match="cursor"):
        place_of(cursor)


def test_days_of_partitions_are_days_of_utc() -> None:
    span = span_of("2026-03-29")  # a day of 23 hours elsewhere
    assert span is not None
    assert timedelta(milliseconds=span[1] - span[0]) == timedelta(days=1)
    assert datetime.fromtimestamp(span[0] / 1000, UTC).hour == 0
