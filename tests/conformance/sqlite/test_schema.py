"""SQLite: tables are made, brought up to date, or left exactly as they are."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.engines.shared.sql_files import Migration
from headrace.engines.sqlite import schema
from headrace.engines.sqlite.engine import SqliteEngine
from headrace.errors import EngineUnavailable, SchemaMismatch
from tests.support.builders import (
    EVERYTHING,
    NOW,
    claim,
    ids,
    kinds,
    new_job,
    want,
)

ALL_MIGRATIONS = [f"{migration.version:04d}_{migration.name}" for migration in schema.MIGRATIONS]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "q.db"


@pytest.fixture
def engine(path: Path) -> Iterator[SqliteEngine]:
    made = SqliteEngine(path)
    yield made
    made.close()


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return list(db.iterdump())


def set_version(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM headrace_schema")
        db.execute("INSERT INTO headrace_schema VALUES (?, 'somehow', 0)", (version,))


def made_by_current(path: Path) -> None:
    engine = SqliteEngine(path)
    engine.insert([new_job("job")], now=NOW)
    engine.close()


@pytest.fixture
def newer_code(monkeypatch: pytest.MonkeyPatch) -> list[Migration]:
    """A headrace with one migration more than this one."""
    migrations = [
        *schema.MIGRATIONS,
        Migration(
            schema.CURRENT + 1,
            "next",
            "CREATE TABLE headrace_next (a INTEGER);\nINSERT INTO headrace_next VALUES (1);\n",
        ),
    ]
    monkeypatch.setattr(schema, "MIGRATIONS", migrations)
    monkeypatch.setattr(schema, "CURRENT", schema.CURRENT + 1)
    return migrations


# -- a fresh file


def test_a_fresh_file_is_made_ready_by_its_first_use(engine: SqliteEngine) -> None:
    assert engine.migrate(dry_run=True)[:2] == (0, schema.CURRENT)
    engine.insert([new_job("job")], now=NOW)
    assert engine.migrate(dry_run=True)[:2] == (schema.CURRENT, schema.CURRENT)


def test_a_fresh_file_is_made_ready_even_where_migrations_are_by_hand(path: Path) -> None:
    engine = SqliteEngine(path, auto_migrate=False)
    engine.insert([new_job("job")], now=NOW)
    assert ids(claim(engine)) == ["job"]
    engine.close()


@pytest.mark.parametrize("first", ["desk", "workers", "bell", "reap", "sign off"])
def test_any_operation_may_be_the_first(engine: SqliteEngine, first: str) -> None:
    acts = {
        "desk": lambda: engine.queries.count(EVERYTHING).jobs,
        "workers": engine.queries.workers,
        "bell": lambda: engine.listen("work").close(),
        "reap": lambda: engine.reap(1, now=NOW),
        "sign off": lambda: engine.unregister_worker("w1"),
    }
    acts[first]()
    assert engine.migrate(dry_run=True)[:2] == (schema.CURRENT, schema.CURRENT)


def test_migrations_are_numbered_without_gaps_and_in_order() -> None:
    assert [migration.version for migration in schema.MIGRATIONS] == list(range(1, schema.CURRENT + 1))


@pytest.mark.parametrize("round", range(8))
def test_many_may_open_a_fresh_file_at_once(path: Path, round: int) -> None:
    engines = [SqliteEngine(path) for _ in range(4)]
    start = threading.Barrier(4)
    errors: list[BaseException] = []

    def open_and_insert(number: int) -> None:
        start.wait()
        try:
            engines[number].insert([new_job(f"j{number}")], now=NOW)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=open_and_insert, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert engines[0].queries.count(EVERYTHING).jobs == 4
    for engine in engines:
        engine.close()


# -- migrate


def test_migrate_tells_what_it_did_and_does_it_once(engine: SqliteEngine) -> None:
    assert engine.migrate().applied == ALL_MIGRATIONS
    assert engine.migrate().applied == []
    assert engine.migrate(dry_run=True)[:2] == (schema.CURRENT, schema.CURRENT)


def test_an_older_file_is_brought_up_to_date_and_keeps_its_jobs(path: Path, newer_code: list[Migration]) -> None:
    with pytest.MonkeyPatch.context() as before:
        before.setattr(schema, "MIGRATIONS", newer_code[:-1])
        before.setattr(schema, "CURRENT", schema.CURRENT - 1)
        made_by_current(path)
    engine = SqliteEngine(path)
    assert ids(claim(engine)) == ["job"]
    assert engine.migrate(dry_run=True)[:2] == (schema.CURRENT, schema.CURRENT)
    engine.close()
    assert 'INSERT INTO "headrace_next" VALUES(1);' in dump(path)


def test_an_older_file_is_refused_where_migrations_are_by_hand(path: Path, newer_code: list[Migration]) -> None:
    with pytest.MonkeyPatch.context() as before:
        before.setattr(schema, "MIGRATIONS", newer_code[:-1])
        before.setattr(schema, "CURRENT", schema.CURRENT - 1)
        made_by_current(path)
    untouched = dump(path)
    engine = SqliteEngine(path, auto_migrate=False)
    with pytest.raises(SchemaMismatch, match="headrace migrate") as caught:
        engine.insert([new_job("other")], now=NOW)
    assert str(schema.CURRENT) in str(caught.value)
    assert str(schema.CURRENT - 1) in str(caught.value)
    assert str(path) in str(caught.value)
    assert dump(path) == untouched
    assert engine.migrate().applied == [f"{schema.CURRENT:04d}_next"]
    assert kinds(engine.insert([new_job("other")], now=NOW)) == ["new"]
    engine.close()


def test_a_newer_file_is_refused_in_words_and_left_untouched(path: Path) -> None:
    made_by_current(path)
    set_version(path, schema.CURRENT + 7)
    untouched = dump(path)
    engine = SqliteEngine(path)
    acts = (
        lambda: engine.insert([new_job("other")], now=NOW),
        lambda: claim(engine),
        lambda: engine.queries.count(EVERYTHING).jobs,
        lambda: engine.reap(1, now=NOW),
        engine.migrate,
        lambda: engine.listen("work"),
    )
    for act in acts:
        with pytest.raises(SchemaMismatch, match="newer headrace") as caught:
            act()
        assert str(schema.CURRENT + 7) in str(caught.value)
        assert "Upgrade" in str(caught.value)
    assert engine.migrate(dry_run=True)[:2] == (schema.CURRENT + 7, schema.CURRENT)
    engine.close()
    assert dump(path) == untouched


@pytest.mark.parametrize("version", [1, 9])
def test_a_file_of_before_the_first_release_is_refused_with_what_to_do(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE headrace_schema (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER)")
        db.execute(
            "INSERT INTO headrace_schema VALUES (1, 'foundation', 0), (?, 'events', 0) ON CONFLICT DO NOTHING",
            [version],
        )
        db.execute("CREATE TABLE headrace_bonds (child INTEGER)")
    untouched = dump(path)
    engine = SqliteEngine(path)
    for act in (
        engine.migrate,
        lambda: engine.insert([new_job("job")], now=NOW),
        lambda: claim(engine),
        engine.maintenance.facts,
    ):
        with pytest.raises(SchemaMismatch, match="finish its jobs, then start with a new file; nothing was changed"):
            act()
    engine.close()
    assert dump(path) == untouched


@pytest.mark.parametrize(
    "script", ["CREATE TABLE headrace_half (a);\nthis is not SQL;\n", "CREATE TABLE headrace_jobs (a);\n"]
)
def test_a_migration_that_fails_half_way_leaves_nothing_behind(
    path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    made_by_current(path)
    untouched = dump(path)
    good = Migration(schema.CURRENT + 1, "good", "CREATE TABLE headrace_good (a);\n")
    bad = Migration(schema.CURRENT + 2, "bad", script)
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, good, bad])
    monkeypatch.setattr(schema, "CURRENT", schema.CURRENT + 2)
    engine = SqliteEngine(path)
    for act in (engine.migrate, lambda: engine.insert([new_job("other")], now=NOW)):
        with pytest.raises(sqlite3.OperationalError):
            act()
    engine.close()
    assert dump(path) == untouched


def test_a_migration_that_fails_on_a_fresh_file_leaves_it_fresh(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, Migration(schema.CURRENT + 1, "bad", "nonsense;\n")])
    engine = SqliteEngine(path)
    with pytest.raises(sqlite3.OperationalError):
        engine.migrate()
    assert engine.migrate(dry_run=True).found == 0
    engine.close()
    assert [line for line in dump(path) if "headrace" in line] == []


def test_the_last_statement_of_a_migration_is_not_forgotten_for_want_of_a_semicolon(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    careless = Migration(schema.CURRENT + 1, "careless", "CREATE TABLE headrace_a (a);\nCREATE TABLE headrace_b (b)")
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, careless])
    engine = SqliteEngine(path)
    engine.migrate()
    engine.close()
    assert "CREATE TABLE headrace_b (b);" in dump(path)


# -- files that are not ours


def test_tables_of_others_in_the_same_file_are_left_alone(path: Path, engine: SqliteEngine) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE users (name TEXT)")
        db.execute("INSERT INTO users VALUES ('ann')")
    engine.insert([new_job("job")], now=NOW)
    assert "INSERT INTO \"users\" VALUES('ann');" in dump(path)


def test_a_file_that_is_no_database_is_refused_in_words_and_kept(path: Path, engine: SqliteEngine) -> None:
    path.write_text("dear diary, " * 1000)
    with pytest.raises(EngineUnavailable, match="not an SQLite database"):
        engine.insert([new_job("job")], now=NOW)
    assert path.read_text() == "dear diary, " * 1000


# -- closing


def test_a_closed_engine_opens_itself_again(engine: SqliteEngine) -> None:
    engine.insert([new_job("a")], now=NOW)
    engine.close()
    engine.insert([new_job("b")], now=NOW)
    assert ids(claim(engine)) == ["a", "b"]


def test_a_file_removed_while_the_engine_was_closed_is_made_anew(path: Path, engine: SqliteEngine) -> None:
    engine.insert([new_job("a")], now=NOW)
    engine.close()
    path.unlink()
    engine.insert([new_job("b")], now=NOW)
    assert ids(claim(engine)) == ["b"]


def test_a_temporary_store_is_gone_when_closed_and_works_when_used_again() -> None:
    engine = SqliteEngine(None)
    engine.insert([new_job("a")], now=NOW)
    folder = engine.store.path.parent
    engine.close()
    assert not folder.exists()
    engine.insert([new_job("b")], now=NOW)
    assert ids(claim(engine)) == ["b"]
    engine.close()
    assert not folder.exists()


def test_the_time_is_the_clocks_unless_it_is_given(path: Path) -> None:
    class Stopped:
        def now(self) -> int:
            return NOW

    engine = SqliteEngine(path, clock=Stopped())
    engine.insert([new_job("due"), new_job("not yet", run_at=NOW + 1)])
    assert ids(engine.exchange([], want()).claims) == ["due"]
    engine.close()
