"""PostgreSQL: a partition of the archive that can't be made, or not be dropped now, is in nobody's way."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from headrace.core.jobs.states import State
from headrace.core.jobs.transfer import JobExport
from headrace.core.retention.archive import ArchiveRow, partition_of, row_of
from headrace.engines.postgres.engine import PostgresEngine
from headrace.errors import EngineUnavailable
from headrace.runtime.jobs.rows import as_row
from tests.support import servers
from tests.support.archive import found_rows
from tests.support.builders import new_job
from tests.support.engines import KINDS

pytestmark = pytest.mark.skipif("postgres" not in KINDS, reason="not among $HEADRACE_TEST_ENGINES")
WEEK = 7 * 86_400_000


@pytest.fixture
def url() -> Iterator[str]:
    made = servers.postgres_url()
    yield made
    servers.drop(made)


@pytest.fixture
def engine(url: str) -> Iterator[PostgresEngine]:
    engine = PostgresEngine(url)
    yield engine
    engine.close()


@pytest.fixture
def db(url: str) -> psycopg.Connection[Any]:
    return servers.postgres_connection(url)


def old(at: int) -> ArchiveRow:
    row = as_row(new_job("job"))
    return row_of(JobExport(replace(row, state=State.COMPLETED, finished_at=at), [], []))


def about_the_archive(engine: PostgresEngine) -> list[str]:
    return [finding.sentence for finding in engine.maintenance.inspect() if finding.code.startswith("archive")]


def table(engine: PostgresEngine, moment: int) -> str:
    name = partition_of(moment, "weekly").lower().replace("-", "_")
    return f'"{engine.address.schema}".headrace_archive_{name}'


def test_what_has_no_partition_lands_all_the_same_and_the_doctor_tells(
    engine: PostgresEngine, db: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    now = engine.clock.now()
    engine.prepare()
    assert about_the_archive(engine) == []  # nobody has archived anything
    db.execute(f"CREATE VIEW {table(engine, now)} AS SELECT 1")  # its name is taken
    with caplog.at_level(logging.ERROR, "headrace.archive"):
        engine.archive.add([old(now)], "weekly")
        engine.archive.add([old(now + 1)], "weekly", again=["job"])
    assert [row.finished_at for row in found_rows(engine.archive, "job")] == [now + 1]
    assert len(caplog.records) == 1  # once, not with every sweep
    [told] = engine.archive.partitions()
    assert (told.name, told.since, told.until, told.jobs) == ("default", None, None, 1)
    [finding] = about_the_archive(engine)
    assert "1 archived job in headrace_archive_default" in finding
    engine.archive.update_partitions(now + WEEK, None, now + WEEK)
    db.execute(f"DROP VIEW {table(engine, now)}")
    assert len(engine.archive.update_partitions(now, "weekly", None).created) == 3
    assert about_the_archive(engine) == []


def test_jobs_leave_the_rest_when_their_partition_can_be_made(
    engine: PostgresEngine, db: psycopg.Connection[Any]
) -> None:
    now = engine.clock.now()
    engine.prepare()
    earlier = now - 5 * WEEK
    for moment in (earlier, now):
        db.execute(f"CREATE VIEW {table(engine, moment)} AS SELECT 1")
    engine.archive.add([old(earlier), old(earlier + 1), old(now)], "weekly")
    changes = engine.archive.update_partitions(now, "weekly", None)
    assert sorted(changes.failed) == [partition_of(earlier, "weekly"), partition_of(now, "weekly")]
    assert engine.archive.update_partitions(now, "weekly", None).failed == []  # each failure is reported once
    assert engine.maintenance.facts().details["partitions_missing"] == 1
    db.execute(f"DROP VIEW {table(engine, earlier)}")
    assert engine.archive.update_partitions(now, "weekly", None).created == [partition_of(earlier, "weekly")]
    assert {part.name: part.jobs for part in engine.archive.partitions() if part.jobs} == {
        partition_of(earlier, "weekly"): 2,
        "default": 1,
    }
    db.execute(f"DROP VIEW {table(engine, now)}")
    engine.archive.update_partitions(now, "weekly", None)
    assert "default" not in {part.name for part in engine.archive.partitions()}
    assert engine.maintenance.facts().details["partitions_missing"] == 0
    indexes = "SELECT count(*) FROM pg_indexes WHERE schemaname = %s AND tablename = %s"
    names = [table(engine, now).rpartition(".")[2], "headrace_archive_default"]
    assert len({db.execute(indexes, [engine.address.schema, name]).fetchall()[0] for name in names}) == 1


def test_the_doctor_tells_if_nobody_makes_partitions_ahead(engine: PostgresEngine) -> None:
    engine.archive.update_partitions(engine.clock.now() - 10 * WEEK, "weekly", None)
    [finding] = about_the_archive(engine)
    assert "no partition for the days to come" in finding


def test_a_partition_that_somebody_reads_is_dropped_later(
    engine: PostgresEngine, db: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.engines.postgres.archive._LOCK_TIMEOUT", "SET LOCAL lock_timeout = '50ms'")
    now = engine.clock.now()
    engine.archive.add([old(now - 9 * WEEK)], "weekly")
    with db.transaction():
        db.execute(f"SELECT count(*) FROM {table(engine, now - 9 * WEEK)}")
        with pytest.raises(EngineUnavailable):
            engine.archive.update_partitions(now, None, now)
        assert len(found_rows(engine.archive, "job")) == 1
    assert len(engine.archive.update_partitions(now, None, now).dropped) == 1
    assert found_rows(engine.archive, "job") == []


def test_of_two_who_drop_a_partition_the_second_finds_nothing_left_to_do(
    engine: PostgresEngine, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = engine.clock.now()
    engine.archive.add([old(now - 9 * WEEK)], "weekly")
    own = engine.archive._drop

    def late(db: psycopg.Connection[Any], name: str) -> None:
        with contextlib.closing(PostgresEngine(url)) as other:
            assert other.archive.update_partitions(now, None, now).dropped == [name]
        own(db, name)

    monkeypatch.setattr(engine.archive, "_drop", late)
    assert engine.archive.update_partitions(now, None, now).dropped == []
    assert engine.archive.partitions() == []


def test_recent_jobs_are_read_from_their_partitions_alone(engine: PostgresEngine, db: psycopg.Connection[Any]) -> None:
    now = engine.clock.now()
    engine.archive.add([old(now - week * WEEK) for week in range(10)], "weekly")
    text = f'SELECT id FROM "{engine.address.schema}".headrace_archive WHERE finished_at >= {now - WEEK}'
    plan = "\n".join(line for (line,) in db.execute(f"EXPLAIN {text}").fetchall())
    assert table(engine, now).rpartition(".")[2] in plan
    assert table(engine, now - 5 * WEEK).rpartition(".")[2] not in plan
