"""The SQLite file: its log is shortened, its space given back in pieces, and pressure is counted for everybody."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from headrace.core.health.findings import MAINTENANCE_KINDS, WriteContention
from headrace.core.jobs.records import Filter, Lease
from headrace.core.jobs.states import State, Trigger
from headrace.engines.sql import retention as sweeper_module
from headrace.engines.sql.retention import SqlRetentionStore
from headrace.engines.sqlite import health
from headrace.engines.sqlite import maintenance as care_module
from headrace.engines.sqlite.engine import SqliteEngine
from headrace.engines.sqlite_file.database import scalar
from tests.support.builders import (
    NOW,
    claim_one,
    kinds,
    new_job,
)
from tests.support.engines import StoreUnderTest

pytestmark = pytest.mark.engines("sqlite")
HOUR = 3_600_000


@pytest.fixture
def engine(store: StoreUnderTest) -> SqliteEngine:
    opened = store.open()
    assert isinstance(opened, SqliteEngine)
    return opened


def fill(engine: SqliteEngine, count: int) -> None:
    for start in range(0, count, 500):
        engine.insert([new_job(f"job-{start + n:06d}", payload=f'["{"x" * 1000}"]') for n in range(500)], now=NOW)


def log_of(engine: SqliteEngine) -> int:
    return health.size_of(engine.store, "-wal")


def test_a_checkpoint_leaves_no_log(engine: SqliteEngine) -> None:
    fill(engine, 500)
    assert log_of(engine) > 0
    sizes = engine.maintenance.maintain(["checkpoint"], "all").sizes
    assert sizes["log_before"] > sizes["log_after"] == log_of(engine) == 0


def test_a_checkpoint_waits_for_no_reader(engine: SqliteEngine) -> None:
    fill(engine, 500)
    with closing(sqlite3.connect(engine.store.path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM headrace_jobs").fetchone()
        fill_more = new_job("more")
        engine.insert([fill_more], now=NOW)
        assert engine.maintenance.maintain(["checkpoint"], "all").sizes["log_after"] > 0
        engine.insert([new_job("and more")], now=NOW)
    assert engine.maintenance.maintain(["checkpoint"], "all").sizes["log_after"] == 0


def test_what_a_sweep_removes_is_written_back_while_others_may_write(
    store: StoreUnderTest, engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left to a commit, it would be done behind the writer_lock."""
    monkeypatch.setattr(sweeper_module, "EASED_AFTER", 300)
    fill(engine, 500)
    engine.queries.move(Filter(queue="default"), Trigger.CANCEL, 500, now=NOW)
    leases = [Lease(job.id, job.version) for job in engine.queries.find(Filter(), 500).jobs]
    engine.maintenance.maintain(["checkpoint"], "all")
    file, other, written_beside = Path(engine.store.path), store.open(), list[str]()
    before, write_back = file.stat().st_mtime_ns, engine.store.write_back

    def beside_others() -> None:
        written_beside.extend(kinds(other.insert([new_job("beside")], now=NOW)))
        write_back()

    engine.retention_store = SqlRetentionStore(engine, beside_others)
    assert len(engine.retention_store.delete(leases[:200])) == 200
    assert (file.stat().st_mtime_ns, written_beside) == (before, [])
    assert len(engine.retention_store.delete(leases[200:])) == 300
    assert written_beside == ["new"]
    assert file.stat().st_mtime_ns > before


def test_upkeep_shortens_a_log_when_nobody_writes_and_a_long_one_always(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(engine, 500)
    monkeypatch.setattr(care_module, "_IDLE_LOG", 1000)
    engine.maintenance.maintain(("vacuum", "optimize"), now=NOW)
    engine.maintenance.maintain(["checkpoint"], now=NOW)
    assert log_of(engine) > 0, "it has just been written to"
    engine.maintenance.maintain(["checkpoint"], now=NOW)
    assert log_of(engine) == 0
    fill_one = new_job("one more")
    engine.insert([fill_one], now=NOW)
    monkeypatch.setattr(care_module, "_LONG_LOG", 1000)
    engine.maintenance.maintain(["checkpoint"], now=NOW)
    assert log_of(engine) == 0


def test_space_is_given_back_in_pieces_where_the_file_was_made_for_it(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(care_module, "_FREE_PAGES", 300)
    engine.prepare()
    engine.close()
    with closing(sqlite3.connect(engine.store.path, isolation_level=None)) as db:
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        db.execute("VACUUM")
    fill(engine, 3000)
    engine.queries.move(Filter(), Trigger.DELETE, 3000, now=NOW)
    fill(engine, 500)

    def free() -> int:
        with engine.store.reading() as db:
            return int(scalar(db, "PRAGMA freelist_count"))

    before, pieces = free(), 0
    assert before > 600
    assert not engine.maintenance.maintain(("checkpoint", "optimize"), now=NOW).more
    assert free() == before
    while engine.maintenance.maintain(["vacuum"], now=NOW).more:
        pieces += 1
    assert 2 <= pieces <= before / 50, "some hundred pages at a time"
    assert free() < before
    assert free() > 0, "some is kept for what comes"
    engine.maintenance.maintain(MAINTENANCE_KINDS, "all")
    assert free() == 0
    assert engine.queries.count(Filter()).jobs == 500


def test_a_full_vacuum_shrinks_any_file(engine: SqliteEngine) -> None:
    fill(engine, 3000)
    engine.maintenance.maintain(["checkpoint"], "all")
    engine.queries.move(Filter(), Trigger.DELETE, 3000, now=NOW)
    assert not engine.maintenance.maintain(["vacuum"], now=NOW).more
    sizes = engine.maintenance.maintain(MAINTENANCE_KINDS, "full").sizes
    assert sizes["size_after"] < sizes["size_before"] / 4


def test_a_damaged_file_is_found_and_nothing_else_is_told_of_it(engine: SqliteEngine) -> None:
    fill(engine, 1000)
    engine.maintenance.maintain(["checkpoint"], "all")
    engine.close()
    data = bytearray(engine.store.path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = b"\xff" * 4096
    engine.store.path.write_bytes(data)
    assert [finding.code for finding in engine.maintenance.inspect(NOW)] == ["damaged"]


# -- pressure


def test_pressure_is_told_to_everybody_once_a_minute(store: StoreUnderTest, engine: SqliteEngine) -> None:
    engine.insert([new_job(f"a-{n}") for n in range(10)], now=NOW)
    engine.maintenance.maintain((), now=NOW)
    engine.insert([new_job(f"b-{n}") for n in range(5)], now=NOW)
    engine.maintenance.maintain((), now=NOW + 59_999)
    other = store.open()
    assert isinstance(other, SqliteEngine)
    other.insert([new_job("c")], now=NOW)
    other.maintenance.maintain((), now=NOW + HOUR)
    engine.maintenance.maintain((), now=NOW + HOUR)
    with engine.store.reading() as db:
        first, second = health.pressure(db)
    assert (first.hour, first.jobs) == (NOW // HOUR, 10)
    assert (second.hour, second.jobs) == (NOW // HOUR + 1, 6)
    assert first.turns > 0


def test_a_write_that_waits_long_for_another_process_counts_as_late(
    store: StoreUnderTest, engine: SqliteEngine
) -> None:
    other = store.open()
    assert isinstance(other, SqliteEngine)
    engine.prepare()
    with other.store.writing():
        waiting = threading.Thread(target=engine.insert, args=([new_job("job")],), kwargs={"now": NOW})
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive()
    waiting.join()
    assert engine.store.turns()[1] == 1
    assert claim_one(engine).id == "job"


def test_an_outgrown_file_is_told_with_the_way_out(engine: SqliteEngine) -> None:
    from headrace.engines.shared.sql_files import as_json
    from headrace.engines.sqlite.statements import SQL

    engine.prepare()
    with engine.store.writing() as db:
        db.execute(SQL["put_write_contention"], {"value": as_json([WriteContention(NOW // HOUR, 10_000, 900, 5)])})
    (finding,) = engine.maintenance.inspect(NOW)
    assert finding.code == "outgrown_busy"
    assert "9%" in finding.sentence
    assert f"headrace copy sqlite:///{engine.store.path} postgresql://" in finding.advice
    assert engine.maintenance.facts().details["late_writes"] == "9.0% of 10000"
    assert engine.maintenance.facts(NOW).busy == 0.09
    assert engine.maintenance.facts(NOW + 2 * HOUR).busy == 0


# -- copies


def test_a_copy_is_of_one_moment_however_much_is_written_meanwhile(engine: SqliteEngine, tmp_path: Path) -> None:
    fill(engine, 2000)
    steps = 0

    def write_more(done: int, total: int) -> None:
        nonlocal steps
        steps += 1
        engine.insert([new_job(f"meanwhile-{steps}")], now=NOW)

    engine.maintenance.backup(tmp_path / "copy.db", lambda view: None, write_more)
    assert steps >= 2
    with closing(sqlite3.connect(tmp_path / "copy.db")) as db:
        assert scalar(db, "SELECT count(*) FROM headrace_jobs") == 2000
        assert scalar(db, "PRAGMA integrity_check") == "ok"
    assert engine.queries.count(Filter(states=(State.PENDING,))).jobs == 2000 + steps


def test_a_restore_is_seen_by_everybody_at_once(store: StoreUnderTest, engine: SqliteEngine, tmp_path: Path) -> None:
    engine.insert([new_job("old")], now=NOW)
    engine.maintenance.backup(tmp_path / "copy.db", lambda view: None)
    other = store.open()
    other.insert([new_job("new")], now=NOW)
    engine.maintenance.restore(tmp_path / "copy.db", lambda: None)
    assert [row.id for row in other.queries.get(["old", "new"])] == ["old"]
    other.insert([new_job("newer")], now=NOW)
    assert claim_one(engine).id == "old"
    assert engine.maintenance.facts().details["journal_mode"] == "wal"


def test_a_changed_schema_is_found(engine: SqliteEngine) -> None:
    engine.insert([new_job("job")], now=NOW)
    with closing(sqlite3.connect(engine.store.path)) as db:
        db.execute("CREATE TRIGGER evil AFTER INSERT ON headrace_jobs BEGIN DELETE FROM headrace_logs; END")
    (finding,) = engine.maintenance.inspect(NOW)
    assert (finding.code, "trigger evil" in finding.sentence) == ("changed_schema", True)
