"""The archive: rows are stored once, found by what they are of, and dropped by partitions. Redis has none itself."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State
from headrace.core.jobs.transfer import JobExport
from headrace.core.retention.archive import (
    ArchiveRow,
    Interval,
    archived_job,
    is_past,
    key_of,
    partition_of,
    row_of,
    span_of,
)
from headrace.engines.protocol.archive import Archive
from headrace.engines.protocol.engine import Engine
from headrace.runtime.jobs.rows import as_row
from tests.support.archive import found_rows
from tests.support.builders import HOUR, NOW, new_job
from tests.support.engines import StoreUnderTest

pytestmark = pytest.mark.engines("sqlite", "postgres")
DAY = 24 * HOUR
WEEK = 7 * DAY
ALL = Filter()


@pytest.fixture
def archive(engine: Engine) -> Archive:
    assert engine.archive is not None
    return engine.archive


def old(
    job_id: str = "job", at: int = NOW, *, state: State = State.COMPLETED, ran: int = 100, **more: Any
) -> ArchiveRow:
    """The row of a job that ended then."""
    row = as_row(new_job(job_id, **{"created_at": at - HOUR, "run_at": at - HOUR, **more}))
    changes = {"state": state, "started_at": at - ran, "finished_at": at, "result": f'"{job_id}"'}
    return row_of(JobExport(replace(row, **changes), [], []))


def ids(rows: list[ArchiveRow]) -> list[str]:
    return [row.id for row in rows]


def found(archive: Archive, **filters: Any) -> list[str]:
    return ids(archive.find(Filter(**filters), 100).rows)


def names(archive: Archive) -> list[str]:
    return [partition.name for partition in archive.partitions()]


# -- rows


def test_a_row_comes_back_as_it_was(archive: Archive) -> None:
    row = old(tags=("red", "blue"), payload='["é\\u0000"]', metadata="{}")
    archive.add([row], "weekly")
    assert found_rows(archive, "job") == [row]
    assert found_rows(archive, "nowhere") == []
    assert archived_job(found_rows(archive, "job")[0]).job.payload == '["é\\u0000"]'


def test_nothing_was_archived_yet(archive: Archive) -> None:
    assert archive.find(ALL, 10).rows == []
    assert (archive.count(ALL), archive.remove([("job", 1, 2)]), archive.durations(ALL)) == (0, 0, [])
    assert archive.update_partitions(NOW, None, NOW).dropped == []
    archive.add([], "weekly")


def test_a_row_that_is_stored_again_is_there_once(archive: Archive) -> None:
    rows = [old(f"j{number}", NOW + number) for number in range(5)]
    archive.add(rows, "weekly")
    archive.add([*rows, old("j9", NOW + 9)], "weekly")
    assert archive.count(ALL) == 6


@pytest.mark.parametrize("later", [HOUR, WEEK, 5 * WEEK])
def test_a_job_that_ran_again_takes_the_place_of_its_older_row(archive: Archive, later: int) -> None:
    first, second = old(created_at=NOW - DAY), old(at=NOW + later, created_at=NOW - DAY)
    archive.add([first, old("other", NOW)], "weekly")
    archive.add([second], "weekly", again=["job"])
    assert found_rows(archive, "job") == [second]
    assert found(archive) == (["job", "other"])


def test_a_sweep_that_comes_late_does_not_undo_a_newer_end(archive: Archive) -> None:
    first, second = old(created_at=NOW - DAY), old(at=NOW + HOUR, created_at=NOW - DAY)
    archive.add([second], "weekly", again=["job"])
    archive.add([first], "weekly", again=["job"])
    assert found_rows(archive, "job") == [second]
    archive.remove([key_of(first)])
    assert found(archive) == ["job"]
    assert found_rows(archive, "job") == [second]


def test_another_job_of_the_same_id_has_a_row_of_its_own(archive: Archive) -> None:
    archive.add([old(at=NOW)], "weekly")
    archive.add([old(at=NOW + 2 * WEEK)], "weekly", again=["job"])
    archive.add([old(at=NOW + 2 * WEEK + HOUR)], "weekly")
    assert found(archive) == ["job", "job", "job"]
    assert [row.finished_at for row in found_rows(archive, "job")] == [NOW + 2 * WEEK + HOUR]


def test_very_rows_are_removed(archive: Archive) -> None:
    rows = [old(f"j{number}", NOW + number * WEEK) for number in range(4)]
    archive.add(rows, "weekly")
    assert archive.remove([key_of(rows[1]), key_of(rows[3]), ("nowhere", NOW, NOW), ("j0", NOW, NOW)]) == 2
    assert archive.remove([]) == 0
    assert found(archive) == ["j2", "j0"]


# -- finding


def test_rows_are_found_by_the_newest_end_a_page_at_a_time(archive: Archive) -> None:
    # Ends that are the same, in an order that is not that of ids, and in several partitions.
    rows = [old(f"j{number:02d}", NOW + number * 7 % 5 * WEEK // 2) for number in range(23)]
    archive.add(rows, "weekly")
    expected = ids(sorted(rows, key=lambda row: (row.finished_at, row.id), reverse=True))
    for limit in (1, 4, 22, 23, 50):
        seen: list[str] = []
        cursor = None
        while True:
            page = archive.find(ALL, limit, cursor)
            assert len(page.rows) <= limit
            seen, cursor = seen + ids(page.rows), page.cursor
            if cursor is None:
                break
        assert seen == expected


def test_rows_are_found_by_what_they_are_of(archive: Archive) -> None:
    archive.add(
        [
            old("a", NOW, task="mail", queue="q1", tags=("red",)),
            old("b", NOW + WEEK, task="mail", queue="q2", state=State.FAILED, tags=("red", "blue")),
            old("c", NOW + 2 * WEEK, task="page", queue="q1", state=State.CANCELLED),
        ],
        "weekly",
    )
    assert found(archive, task="mail") == ["b", "a"]
    assert found(archive, queue="q1") == ["c", "a"]
    assert found(archive, states=(State.FAILED, State.CANCELLED)) == ["c", "b"]
    assert found(archive, tag="red") == ["b", "a"]
    assert found(archive, tag="blue", task="mail", queue="q2") == ["b"]
    assert found(archive, tag="re") == []
    assert found(archive, ids=("a", "c", "x")) == ["c", "a"]
    assert found(archive, since=NOW + 1) == ["c", "b"]
    assert found(archive, since=NOW + WEEK, until=NOW + 2 * WEEK) == ["b"]
    assert found(archive, until=NOW + WEEK) == ["a"]
    assert [archive.count(Filter(task=task)) for task in ("mail", "page", "none")] == [2, 1, 0]


@pytest.mark.parametrize("text", ["' OR 1=1 --", "{where}", "%", "a\x00b", "\\"])
def test_a_filter_is_a_text_and_nothing_else(archive: Archive, text: str) -> None:
    archive.add([old()], "weekly")
    assert found(archive, task=text) == found(archive, queue=text) == found(archive, tag=text) == []
    assert found(archive, ids=(text,)) == []
    assert archive.remove([(text, NOW - HOUR, NOW)]) == 0


def test_how_long_tasks_ran_is_told_for_each(archive: Archive) -> None:
    rows = [old(f"a{number}", NOW + number * DAY, task="mail", ran=number) for number in range(1, 101)]
    archive.add([*rows, old("b", NOW, task="page", ran=7)], "weekly")
    mail, page = archive.durations(ALL)
    assert (mail.task, mail.jobs, mail.average, mail.longest) == ("mail", 100, 50.5, 100)
    assert mail.p95 == 95
    [few] = archive.durations(Filter(task="mail", until=NOW + 21 * DAY))
    assert (few.jobs, few.p95, few.longest) == (20, 19, 20), "of twenty, one is longer"
    assert (page.task, page.jobs, page.average, page.p95, page.longest) == ("page", 1, 7.0, 7, 7)
    assert [one.jobs for one in archive.durations(Filter(since=NOW + 51 * DAY))] == [50]


# -- partitions


@pytest.mark.parametrize("interval", ["weekly", "daily", "monthly"])
def test_rows_lie_in_the_partition_of_their_end(archive: Archive, interval: Interval) -> None:
    rows = [old(f"j{number}", NOW + number * 9 * DAY) for number in range(9)]
    archive.add(rows, interval)
    told = archive.partitions()
    assert [one.name for one in told] == sorted({partition_of(row.finished_at, interval) for row in rows})
    assert sum(one.jobs for one in told) == 9
    assert all((one.since, one.until) == span_of(one.name) and one.bytes > 0 for one in told)


def test_two_partitions_are_made_ahead_and_only_once(archive: Archive) -> None:
    now = int(datetime.fromisoformat("2026-12-24T12:00:00+00:00").timestamp() * 1000)
    assert archive.update_partitions(now, "weekly", None).created == ["2026-W52", "2026-W53", "2027-W01"]
    assert archive.update_partitions(now, "weekly", None).created == []
    assert archive.update_partitions(now + WEEK, "weekly", None).created == ["2027-W02"]
    assert [(one.name, one.jobs) for one in archive.partitions()] == [
        ("2026-W52", 0),
        ("2026-W53", 0),
        ("2027-W01", 0),
        ("2027-W02", 0),
    ]


def test_every_partition_past_the_time_is_dropped_and_no_other(archive: Archive) -> None:
    rows = [old(f"j{number}", NOW + number * WEEK) for number in range(8)]
    archive.add(rows, "weekly")
    before = NOW + 5 * WEEK
    past = [name for name in names(archive) if is_past(name, before)]
    assert len(past) == 5  # NOW is not the first moment of a week
    assert archive.update_partitions(before, None, before).dropped == past
    assert found(archive) == ["j7", "j6", "j5"]
    assert archive.update_partitions(before, None, before).dropped == []
    archive.add(rows[:1], "weekly")  # late: it is in its place again
    assert found(archive) == ["j7", "j6", "j5", "j0"]


def test_another_interval_goes_on_beside_what_is_there(archive: Archive) -> None:
    archive.add([old("a", NOW), old("b", NOW + 3 * WEEK)], "weekly")
    archive.update_partitions(NOW, "monthly", None)
    archive.add([old("c", NOW + DAY), old("d", NOW + 10 * WEEK), old("e", NOW + 2 * WEEK)], "monthly")
    assert found(archive) == ["d", "b", "e", "c", "a"]
    seen: list[str] = []
    cursor = None
    while True:
        page = archive.find(ALL, 2, cursor)
        seen, cursor = seen + ids(page.rows), page.cursor
        if cursor is None:
            break
    assert seen == ["d", "b", "e", "c", "a"]
    archive.update_partitions(NOW + 20 * WEEK, None, NOW + 20 * WEEK)
    assert found(archive) == []


def test_all_who_open_the_store_see_the_same_archive(archive: Archive, store: StoreUnderTest) -> None:
    other = store.open().archive
    assert other is not None
    archive.add([old("a")], "weekly")
    other.add([old("b", NOW + 1), old("c", NOW + WEEK)], "weekly")
    assert found(archive) == found(other) == ["c", "b", "a"]
    other.update_partitions(NOW, None, NOW + 2 * WEEK)
    archive.add([old("d")], "weekly")
    assert found(archive) == found(other) == ["d"]
