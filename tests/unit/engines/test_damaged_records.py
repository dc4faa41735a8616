"""Reads of damaged records."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from headrace.core.clock import to_datetime
from headrace.core.damaged_records import items_of, read, read_or, readable
from headrace.core.dead_letters.records import DAMAGED, notes_of, snapshot_of
from headrace.core.events.log import read as read_page
from headrace.core.jobs.queue_rules import QueueRules, TaskRules, queue_rules, task_rules
from headrace.core.jobs.records import DeadLetterRow, HistoryRow
from headrace.core.jobs.states import State
from headrace.core.queues.limits import Limit, lane_limits_of, needs_of
from headrace.core.retention.archive import ArchiveRow, archived_job, shown
from headrace.core.schedules.records import damaged
from headrace.engines.redis.damaged_records import Salvage
from headrace.engines.shared.damaged_records import Rows
from headrace.errors import CorruptPayload
from tests.support.builders import worker_row

_numbers = msgspec.json.Decoder(list[int]).decode
DEAD_LETTER = DeadLetterRow("id", "job", "task", "queue", "why", 5, "pending", None, None, "{}", "print", 2, None)
FILING = HistoryRow(1, "fail", "running", "failed", 2, 1, "w", 1, None, "d", "E", "m", "t")


@pytest.mark.parametrize("stored", ["[1", '["x"]', "", "[" * 5000, "\udcff"])
def test_what_is_damaged_is_read_as_none(stored: str) -> None:
    assert read(_numbers, stored) is None
    assert read_or(_numbers, stored, [7]) == [7]
    assert list(readable(_numbers, ["[1]", stored, "[2]"])) == [[1], [2]]


@pytest.mark.parametrize("ms", [1 << 62, -(1 << 62), 10**15, -(10**15)])
def test_an_impossible_time_is_shown_as_the_first_or_the_last(ms: int) -> None:
    told = to_datetime(ms)
    assert told is not None
    assert told.year in (1, 9999)
    assert told.astimezone().year in (1, 9999)


def test_other_times_convert_exactly() -> None:
    assert to_datetime(0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert to_datetime(None) is None


@pytest.mark.parametrize("lane", ["[", '["x:a"]', '[""]', "[1]", "text"])
def test_a_damaged_lane_needs_a_capability_that_no_worker_has(lane: str) -> None:
    assert lane_limits_of(lane) == [Limit("needs", lane)]
    assert needs_of(lane) == {lane}


@pytest.mark.parametrize("stored", ["{", '{"rate":1}', '{"rate":{"every":0,"burst":1}}', "[]"])
def test_damaged_rules_are_none(stored: str) -> None:
    assert queue_rules(stored) == QueueRules()
    assert task_rules(stored) == TaskRules()


def test_a_damaged_dead_letter_shows_its_readable_fields() -> None:
    bad = msgspec.structs.replace(DEAD_LETTER, snapshot='{"state', notes="[1]")
    assert snapshot_of(bad) == DAMAGED
    assert notes_of(bad.notes) == []


@pytest.mark.parametrize("page", ["[", '[["job.started",1,"q","t","w",["a","b"],[1]]]'])
def test_a_damaged_page_of_events_is_empty(page: str) -> None:
    assert read_page(page) == []


@pytest.mark.parametrize("stored", ["[", "7", '{"a":1}'])
def test_what_a_worker_reports_is_nothing_if_it_is_damaged(stored: str) -> None:
    row = worker_row(queues=stored if stored != '{"a":1}' else "7", tasks=stored, capabilities=stored)
    assert row.serves("default")
    assert (items_of(row.tasks, list), items_of(row.capabilities, list)) == ([], [])


def test_a_damaged_schedule_keeps_what_was_stored_of_it() -> None:
    assert damaged("tick", "what it was").timing == "what it was"


def test_a_record_of_redis_is_read_as_far_as_it_is_whole() -> None:
    records, whole = Salvage(DeadLetterRow), msgspec.msgpack.encode(DEAD_LETTER)
    for length in range(len(whole)):
        left = records.decode(whole[:length])
        assert left.id in ("id", ""), length
        assert left.requeues in (2, 0)
    assert records.decode(whole) == DEAD_LETTER


def test_a_list_of_redis_is_read_past_a_text_that_is_none() -> None:
    stored = msgspec.msgpack.encode([FILING] * 3)
    assert stored.count(b"running") == 3
    bad = stored.replace(b"running", b"runnin\xff", 1)
    assert [history_row.source for history_row in Salvage(HistoryRow).decode_all(bad)] == [
        "runnin\ufffd",
        "running",
        "running",
    ]


def test_a_row_of_sql_is_read_past_a_text_in_the_place_of_a_number() -> None:
    told = msgspec.json.encode([FILING, FILING]).decode().replace("[1,", '["x",', 1)
    assert [(history_row.at, history_row.detail) for history_row in Rows(HistoryRow).decode(told)] == [
        (0, "d"),
        (1, "d"),
    ]


def test_an_archived_job_with_a_damaged_body_is_shown_by_its_row() -> None:
    row = ArchiveRow(
        id="job",
        task="add",
        queue="default",
        state=State.COMPLETED,
        created_at=1,
        finished_at=9,
        duration=3,
        attempts=2,
        summary=None,
        tags='["red"]',
        body=b"\x01garbage",
        bytes=8,
    )
    with pytest.raises(CorruptPayload):
        archived_job(row)
    job = shown(row).job
    assert (job.id, job.state, job.finished_at, job.reason) == ("job", State.COMPLETED, 9, "corrupt_record")
