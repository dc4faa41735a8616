"""Retention runs as events and as metrics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace, InvalidJob
from headrace.app.metrics.prometheus import bounded
from headrace.core.metrics.cells import OTHERS, MetricCell, total
from headrace.core.retention.archive import PartitionChanges, partition_of
from headrace.core.retention.retention import RetentionRun
from headrace.engines.postgres.engine import PostgresEngine
from headrace.runtime.retention.last_run import last_run
from headrace.runtime.retention.sweep_task import RetentionTask
from headrace.testing import VirtualClock, drain
from tests.support import servers

DAY = 86_400


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(url: str, folder: Path, clock: VirtualClock) -> Iterator[Headrace]:
    elsewhere = f"sqlite:///{folder / 'archive.db'}" if url.startswith("redis") else None
    with Headrace(url, clock=clock, archive_url=elsewhere, archive_keep=30 * DAY) as app:

        @app.task(name="work")
        def work() -> None: ...

        yield app


def ripe(app: Headrace, clock: VirtualClock, jobs: int) -> None:
    for _ in range(jobs):
        app.enqueue("work")
    drain(app)
    clock.advance(8 * DAY)


def walk(app: Headrace) -> None:
    """As a worker does it, to the end."""
    maintenance_task = RetentionTask(app.engine, app.settings, 60.0, lambda: app.services.archive)
    while maintenance_task.do() == 0.0:
        pass


def test_archived_jobs_are_emitted_and_counted(app: Headrace, clock: VirtualClock) -> None:
    ripe(app, clock, 3)
    walk(app)
    [event] = app.events(types="archive.*", follow=False)
    assert (event.type, event.data["archived"], event.job_id) == ("archive.swept", 3, None)
    assert event.data["partitions_created"] >= 3, "this week's and the two after it"
    assert event.data["run"] >= 0
    value = app.metrics.value
    assert value("archived") == 3
    assert value("archive_failures") == 0
    assert value("partitions_created") == event.data["partitions_created"]
    assert value("archive_max") == event.data["run"]
    assert value("run_max", window="30d") == value("run_max", window="30d", task="work"), "a walk is no run of a job"
    assert sum(point.value or 0 for point in app.metrics.series("archived", window=600).points) == 3
    clock.advance(120)
    walk(app)
    assert len(list(app.events(types="archive.*", follow=False))) == 1, "nothing was due, no event is emitted"
    assert value("archived") == 0
    assert value("archived", window="1h") == 3


def test_partitions_that_go_are_counted(app: Headrace, clock: VirtualClock) -> None:
    ripe(app, clock, 1)
    walk(app)
    clock.advance(60 * DAY)
    app.lifecycle.archive(dry_run=False)
    *_, event = app.events(types="archive.swept", follow=False)
    assert event.data["partitions_detached"] >= 1
    assert app.metrics.value("partitions_detached") == event.data["partitions_detached"]


def test_a_dry_run_emits_no_event(app: Headrace, clock: VirtualClock) -> None:
    ripe(app, clock, 1)
    app.lifecycle.archive()
    assert not list(app.events(types="archive.*", follow=False))


@pytest.mark.engines("sqlite")
def test_a_walk_that_fails_is_counted_with_what_it_had_done(
    app: Headrace, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ripe(app, clock, 2)

    def away(*_: object) -> list[str]:
        raise OSError("no room")

    assert app.services.archive is not None
    monkeypatch.setattr(type(app.services.archive), "update_partitions", away)
    with pytest.raises(OSError, match="no room"):
        walk(app)
    [event] = app.events(types="archive.*", follow=False)
    assert (event.type, event.data["error"], event.data["archived"]) == ("archive.failed", "OSError: no room", 2)
    assert (app.metrics.value("archive_failures"), app.metrics.value("archived")) == (1, 2)
    last = last_run(app.engine.document_store)
    assert isinstance(last, RetentionRun)
    assert last.error == "OSError: no room"


@pytest.mark.engines("sqlite")
def test_partitions_that_could_not_be_made_are_counted(
    app: Headrace, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = PartitionChanges([], ["2026-W46", "2026-W47"], [])
    monkeypatch.setattr(type(app.services.archive), "update_partitions", lambda *_: changes)
    walk(app)
    assert app.metrics.value("partition_failures") == 2


@pytest.mark.engines("sqlite")
def test_prometheus_reads_what_the_archive_did(app: Headrace, clock: VirtualClock) -> None:
    ripe(app, clock, 3)
    walk(app)
    text = app.metrics.prometheus()[1].decode()
    assert "headrace_jobs_archived_total 3.0" in text
    assert "headrace_archive_failures_total 0.0" in text
    assert 'headrace_archive_seconds_bucket{le="+Inf"} 1.0' in text
    assert "headrace_partitions_created_total" in text
    assert "headrace_partition_failures_total 0.0" in text


@pytest.mark.engines("sqlite")
def test_without_events_nothing_is_emitted(url: str, clock: VirtualClock) -> None:
    with Headrace(url, clock=clock, events=False) as app:
        app.task(name="work")(lambda: None)
        ripe(app, clock, 1)
        walk(app)
        assert not list(app.events(types="archive.*", follow=False))


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(
    ("name", "which", "expected"),
    [
        ("depth.completed", {}, "depth.pending, .*depth.waiting; completed counts"),
        ("depth.failed", {}, "for open states"),
        ("archived", {"queue": "mail"}, "the whole store, not by queue"),
        ("archive_p95", {"task": "work"}, "the whole store, not by task"),
        ("archivd", {}, "did you mean 'archived'"),
    ],
)
def test_an_error_names_what_is_offered(app: Headrace, name: str, which: dict[str, str], expected: str) -> None:
    with pytest.raises(InvalidJob, match=expected):
        app.metrics.value(name, **which)


@pytest.mark.engines("sqlite")
def test_only_the_busiest_tasks_have_lines_of_their_own(app: Headrace) -> None:
    jobs = {(f"q{n % 2}", f"t{n:03}"): MetricCell(enqueued=n, completed=n) for n in range(1000)}
    lines = bounded(jobs, 100)
    assert len(lines) == 102
    assert [place for place in lines if place[1] == OTHERS] == [("q0", OTHERS), ("q1", OTHERS)]
    assert total(lines.values()) == total(jobs.values()), "nothing is lost"
    assert min(cell.enqueued for place, cell in lines.items() if place[1] != OTHERS) >= 512
    busier = {**jobs, ("q0", "t600"): MetricCell(enqueued=700, completed=700)}
    assert bounded(busier, 100).keys() == lines.keys(), "a slightly busier task does not change places"
    assert bounded(jobs, 1000) == jobs
    with pytest.raises(InvalidJob, match="tasks"):
        app.metrics.prometheus(tasks=0)


@pytest.mark.engines("postgres")
def test_a_failed_partition_is_counted_once_and_its_alert_ends_with_its_cause(
    app: Headrace, url: str, clock: VirtualClock
) -> None:
    ripe(app, clock, 5)
    name = partition_of(app.engine.clock.now() - 8 * DAY * 1000, "weekly").lower().replace("-", "_")
    taken = f'"{PostgresEngine(url).address.schema}".headrace_archive_{name}'
    db = servers.postgres_connection(url)
    db.execute(f"CREATE VIEW {taken} AS SELECT 1")
    for _ in range(3):
        app.lifecycle.archive(dry_run=False)
        clock.advance(120)
    assert app.metrics.value("partition_failures", window="1d") == 1
    app.alerts.evaluate()
    assert "archive_partition" in [alert.rule for alert in app.alerts.active()]
    db.execute(f"DROP VIEW {taken}")
    app.lifecycle.archive(dry_run=False)
    app.alerts.evaluate()
    assert "archive_partition" not in [alert.rule for alert in app.alerts.active()]
    assert "default" not in [partition.name for partition in app.lifecycle.partitions()]
