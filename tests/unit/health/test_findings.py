"""Findings about a store, and their texts: rules without a store."""

from __future__ import annotations

import pytest

from headrace.core.health.findings import (
    GONE,
    LATE,
    IntegrityCounts,
    Sizes,
    WriteContention,
    add_pressure,
    contention_findings,
    findings_of,
    is_gone,
    size_findings,
)
from tests.support.builders import NOW, worker_row

MB = 2**20


def codes(integrity_counts: IntegrityCounts, now: int = NOW) -> list[str]:
    return [finding.code for finding in findings_of(integrity_counts, now)]


def test_a_store_with_nothing_wrong_has_no_findings() -> None:
    assert (
        findings_of(IntegrityCounts(orphans={"history": 0, "flows": 0}, workers=[worker_row(seen_at=NOW)]), NOW) == []
    )


def test_each_kind_of_orphan_is_a_finding_of_its_own_that_can_be_repaired() -> None:
    kinds = ["history", "logs", "tags", "steps", "dependencies", "flows", "index"]
    found = findings_of(IntegrityCounts(orphans=dict.fromkeys(kinds, 2)), NOW)
    assert [finding.code for finding in found] == [f"orphan_{kind}" for kind in kinds]
    assert all(finding.repairable and finding.count == 2 and "--repair" in finding.advice for finding in found)


@pytest.mark.parametrize(
    ("silence", "heartbeat", "reported", "gone"),
    [
        (LATE, 10_000, False, False),
        (LATE + 1, 10_000, True, False),
        (LATE + 1, 30_000, False, False),  # it may miss three of its own beats
        (GONE, 10_000, True, False),
        (GONE + 1, 10_000, True, True),
        (GONE + 1, 200_000, True, False),
    ],
)
def test_a_worker_is_silent_and_then_gone(silence: int, heartbeat: int, reported: bool, gone: bool) -> None:
    worker = worker_row("w9", seen_at=NOW - silence, heartbeat=heartbeat)
    found = findings_of(IntegrityCounts(workers=[worker]), NOW)
    assert [finding.code for finding in found] == ["silent_workers"] * reported
    assert [finding.repairable for finding in found] == [gone] * reported
    assert is_gone(worker, NOW) is gone
    assert all("w9" in finding.sentence for finding in found)


def test_overdue_jobs_are_a_fault_without_a_worker_and_a_note_with_a_busy_one() -> None:
    (alone,) = findings_of(IntegrityCounts(overdue=3), NOW)
    (busy,) = findings_of(IntegrityCounts(overdue=3, workers=[worker_row(seen_at=NOW)]), NOW)
    assert (alone.note, busy.note) == (False, True)
    assert "start one" in alone.advice
    assert "busy" in busy.advice


def test_stray_leases_and_forlorn_jobs_are_reported() -> None:
    assert codes(IntegrityCounts(strays=1, unreaped=1, forlorn=1)) == ["stray_leases", "unreaped_leases", "forlorn"]


@pytest.mark.parametrize(
    ("used", "limit", "expected"),
    [
        (79 * MB, 100 * MB, []),
        (80 * MB, 100 * MB, [True]),
        (84 * MB, 100 * MB, [True]),
        (85 * MB, 100 * MB, [False]),
        (499 * MB, None, []),
        (500 * MB, None, [True]),
        (900 * MB, 2000 * MB, []),
    ],
)
def test_size_is_a_note_from_80_percent_and_wrong_from_85(used: int, limit: int | None, expected: list[bool]) -> None:
    assert [finding.note for finding in size_findings(Sizes(used=used, limit=limit))] == expected


@pytest.mark.parametrize(("free", "expected"), [(600 * MB, []), (499 * MB, [True]), (99 * MB, [False])])
def test_a_disk_that_fills_is_reported_before_it_is_full(free: int, expected: list[bool]) -> None:
    assert [finding.note for finding in size_findings(Sizes(used=1, disk_free=free))] == expected


def test_pressure_is_kept_by_the_hour_for_a_day() -> None:
    hours = add_pressure([], WriteContention(100, 10, 1, 5))
    hours = add_pressure(hours, WriteContention(100, 10, 1, 5))
    hours = add_pressure(hours, WriteContention(101, 1, 0, 0))
    assert hours == [WriteContention(100, 20, 2, 10), WriteContention(101, 1, 0, 0)]
    assert add_pressure(hours, WriteContention(124, 2, 0, 0)) == [
        WriteContention(101, 1, 0, 0),
        WriteContention(124, 2, 0, 0),
    ]


def test_a_clock_that_was_set_back_loses_no_more_than_the_hours_to_come() -> None:
    assert add_pressure([WriteContention(200, 1), WriteContention(90, 1)], WriteContention(100, 1)) == [
        WriteContention(90, 1),
        WriteContention(100, 1),
    ]


@pytest.mark.parametrize(
    ("hour", "expected"),
    [
        (WriteContention(1, 1000, 50, 0), []),
        (WriteContention(1, 1000, 51, 0), ["outgrown_busy"]),
        (WriteContention(1, 999, 999, 0), []),  # too few to tell
        (WriteContention(1, 10, 0, 2000 * 3600), []),
        (WriteContention(1, 10, 0, 2000 * 3600 + 1), ["outgrown_throughput"]),
    ],
)
def test_a_file_is_outgrown_by_late_writes_or_by_jobs(hour: WriteContention, expected: list[str]) -> None:
    found = contention_findings([WriteContention(0, 5000, 0, 9), hour], "sqlite:///q.db")
    assert [finding.code for finding in found] == expected
    assert all(finding.note and "headrace copy sqlite:///q.db postgresql://" in finding.advice for finding in found)
