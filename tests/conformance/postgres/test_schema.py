"""PostgreSQL: tables are made, brought up to date, or left exactly as they are; each schema is a store of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import psycopg
import pytest

from headrace.engines.postgres import schema
from headrace.engines.postgres.engine import PostgresEngine
from headrace.engines.shared.sql_files import Migration
from headrace.errors import ConfigError, EngineUnavailable, SchemaMismatch
from tests.support import servers
from tests.support.builders import (
    EVERYTHING,
    NOW,
    claim,
    ids,
    kinds,
    new_job,
    states,
    want,
)
from tests.support.engines import KINDS
from tests.support.processes import Child
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.skipif("postgres" not in KINDS, reason="not among $HEADRACE_TEST_ENGINES")
ALL_MIGRATIONS = [migration.full_name for migration in schema.MIGRATIONS]
Open = Callable[..., PostgresEngine]


@pytest.fixture
def url() -> Iterator[str]:
    """The name of a schema that is not there yet."""
    made = servers.postgres_url()
    yield made
    servers.drop(made)


@pytest.fixture
def database() -> Iterator[str]:
    """A database of the test's own."""
    made = servers.postgres_url(own_database=True)
    yield made
    servers.postgres_connection(made).close()
    servers.drop(made)


@pytest.fixture
def db(url: str) -> psycopg.Connection[Any]:
    return servers.postgres_connection(url)


def name_in(url: str) -> str:
    return parse_qs(urlsplit(url).query)["schema"][0]


def tables(db: psycopg.Connection[Any], url: str) -> dict[str, int]:
    """Every table of the schema with the number of its columns."""
    found = db.execute(
        "SELECT table_name, count(*) FROM information_schema.columns WHERE table_schema = %s GROUP BY 1 ORDER BY 1",
        [name_in(url)],
    )
    return dict(found.fetchall())


def set_version(db: psycopg.Connection[Any], url: str, version: int, needs: int) -> None:
    values = [version, needs]
    db.execute(f"INSERT INTO {name_in(url)}.headrace_schema VALUES (%s, 'from the future', %s, 0)", values)


def with_migration(monkeypatch: pytest.MonkeyPatch, script: str) -> list[Migration]:
    migrations = [*schema.MIGRATIONS, Migration(schema.CURRENT + 1, "next", script, schema.CURRENT + 1)]
    monkeypatch.setattr(schema, "MIGRATIONS", migrations)
    monkeypatch.setattr(schema, "CURRENT", schema.CURRENT + 1)
    return migrations


# -- a schema that is not there yet


def test_a_schema_and_its_tables_are_made_by_their_first_use(
    url: str, open_engine: Open, db: psycopg.Connection[Any]
) -> None:
    engine = open_engine(url)
    assert engine.migrate(dry_run=True)[:2] == (0, schema.CURRENT)
    assert tables(db, url) == {}
    engine.insert([new_job("job")], now=NOW)
    assert engine.migrate(dry_run=True)[:2] == (schema.CURRENT, schema.CURRENT)
    assert ids(claim(engine)) == ["job"]


def test_a_fresh_schema_is_made_ready_even_where_migrations_are_by_hand(url: str, open_engine: Open) -> None:
    engine = open_engine(url, auto_migrate=False)
    engine.insert([new_job("job")], now=NOW)
    assert ids(claim(engine)) == ["job"]


@pytest.mark.parametrize("first", ["desk", "bell", "reap", "sign off", "ring", "facts", "check"])
def test_any_operation_may_be_the_first(url: str, open_engine: Open, first: str) -> None:
    engine = open_engine(url)
    acts: dict[str, Callable[[], object]] = {
        "desk": lambda: engine.queries.count(EVERYTHING).jobs,
        "bell": lambda: engine.listen("work").close(),
        "reap": lambda: engine.reap(1, now=NOW),
        "sign off": lambda: engine.unregister_worker("w1"),
        "ring": lambda: engine.ring("work"),
        "facts": engine.maintenance.facts,
        "check": engine.maintenance.inspect,
    }
    acts[first]()
    assert kinds(engine.insert([new_job("job")], now=NOW)) == ["new"]


def test_many_processes_may_start_on_an_empty_schema_at_once(url: str, open_engine: Open) -> None:
    def start(number: int) -> Callable[[Connection], object]:
        def act(pipe: Connection) -> object:
            engine = PostgresEngine(url)
            pipe.send("ready")
            pipe.recv()
            stored = kinds(engine.insert([new_job(f"j{number}")], now=NOW))
            engine.close()
            return stored

        return act

    children = [Child(start(number)) for number in range(8)]
    assert [child.hear() for child in children] == ["ready"] * 8
    for child in children:
        child.pipe.send("go")
    answers = [child.hear() for child in children]
    for child in children:
        child.end()
    assert answers == [["new"]] * 8
    assert sorted(states(open_engine(url))) == sorted(f"j{number}" for number in range(8))


def test_who_comes_while_another_migrates_waits_for_it(
    url: str, open_engine: Open, db: psycopg.Connection[Any]
) -> None:
    engine = open_engine(url)
    first = psycopg.connect(servers._without(url, "schema"))
    made: list[list[str]] = []
    with first:
        assert schema.migrate(first, name_in(url), url, NOW) == ALL_MIGRATIONS
        second = threading.Thread(target=lambda: made.append(engine.migrate().applied))
        second.start()
        waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        eventually(lambda: db.execute(waits).fetchone(), "the second waits")
    first.close()
    second.join(PATIENCE)
    assert made == [[]]
    assert kinds(engine.insert([new_job("job")], now=NOW)) == ["new"]


# -- migrate


def test_migrate_tells_what_it_did_and_does_it_once(url: str, open_engine: Open) -> None:
    engine = open_engine(url)
    assert engine.migrate().applied == ALL_MIGRATIONS
    assert engine.migrate().applied == []


def test_migrations_are_numbered_without_gaps_and_in_order() -> None:
    assert [migration.version for migration in schema.MIGRATIONS] == list(range(1, schema.CURRENT + 1))


@pytest.fixture
def older(url: str, open_engine: Open) -> str:
    """A store whose tables are of the version before the last."""
    open_engine(url).insert([new_job("job")], now=NOW)
    return url


NEXT = "CREATE TABLE headrace_tags_next AS SELECT current_setting('statement_timeout') AS time_limit"


def test_older_tables_are_brought_up_to_date_without_a_time_limit_and_keep_their_jobs(
    older: str, open_engine: Open, db: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_migration(monkeypatch, f"SET LOCAL search_path = {name_in(older)}; {NEXT}")
    engine = open_engine(older)
    assert ids(claim(engine)) == ["job"]
    assert engine.migrate(dry_run=True)[:2] == (schema.CURRENT, schema.CURRENT)
    assert db.execute(f"SELECT time_limit FROM {name_in(older)}.headrace_tags_next").fetchone() == ("0",)


def test_older_tables_are_refused_where_migrations_are_by_hand(
    older: str, open_engine: Open, db: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_migration(monkeypatch, f"SET LOCAL search_path = {name_in(older)}; {NEXT}")
    before = tables(db, older)
    engine = open_engine(older, auto_migrate=False)
    with pytest.raises(SchemaMismatch, match="run `headrace migrate`") as caught:
        engine.insert([new_job("other")], now=NOW)
    assert f"of version {schema.CURRENT - 1}, this headrace needs {schema.CURRENT}" in str(caught.value)
    assert name_in(older) in str(caught.value)
    assert str(urlsplit(older).password) not in str(caught.value)
    assert tables(db, older) == before
    assert engine.migrate().applied == [f"{schema.CURRENT:04d}_next"]
    assert kinds(engine.insert([new_job("other")], now=NOW)) == ["new"]


def test_newer_tables_are_refused_in_words_and_left_untouched(
    older: str, open_engine: Open, db: psycopg.Connection[Any]
) -> None:
    set_version(db, older, schema.CURRENT + 7, needs=schema.CURRENT + 1)
    before = tables(db, older)
    engine = open_engine(older)
    acts: list[Callable[[], object]] = [
        lambda: engine.insert([new_job("other")], now=NOW),
        lambda: claim(engine),
        lambda: engine.queries.count(EVERYTHING).jobs,
        lambda: engine.reap(1, now=NOW),
        engine.migrate,
        lambda: engine.listen("work"),
    ]
    for act in acts:
        with pytest.raises(SchemaMismatch, match="Upgrade headrace here; nothing was changed") as caught:
            act()
        assert f"of version {schema.CURRENT + 7}, written by a newer headrace" in str(caught.value)
    assert engine.migrate(dry_run=True)[:2] == (schema.CURRENT + 7, schema.CURRENT)
    assert tables(db, older) == before


def test_tables_of_before_the_first_release_are_refused_with_what_to_do(
    older: str, open_engine: Open, db: psycopg.Connection[Any]
) -> None:
    db.execute(f"DROP TABLE {name_in(older)}.headrace_ids CASCADE")
    before = tables(db, older)
    engine = open_engine(older)
    acts: list[Callable[[], object]] = [engine.migrate, lambda: claim(engine), engine.maintenance.facts]
    for act in acts:
        with pytest.raises(SchemaMismatch, match="finish its jobs, then start with a new schema; nothing was changed"):
            act()
    assert tables(db, older) == before


def test_newer_tables_that_still_serve_this_version_are_used_as_they_are(
    older: str, open_engine: Open, db: psycopg.Connection[Any]
) -> None:
    set_version(db, older, schema.CURRENT + 7, needs=schema.CURRENT)
    engine = open_engine(older)
    assert ids(claim(engine)) == ["job"]
    assert engine.migrate().applied == []
    assert engine.migrate(dry_run=True)[:2] == (schema.CURRENT + 7, schema.CURRENT)


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("script", ["CREATE TABLE half (a int); this is not SQL", "CREATE TABLE headrace_jobs (a int)"])
def test_a_migration_that_fails_half_way_leaves_nothing_behind(
    url: str, open_engine: Open, db: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch, script: str, fresh: bool
) -> None:
    if not fresh:
        open_engine(url).insert([new_job("job")], now=NOW)
    before = tables(db, url)
    with_migration(monkeypatch, f"CREATE SCHEMA IF NOT EXISTS {name_in(url)}_more; {script}")
    engine = open_engine(url)
    acts: list[Callable[[], object]] = [engine.migrate, lambda: engine.insert([new_job("other")], now=NOW)]
    for act in acts:
        with pytest.raises(psycopg.ProgrammingError):
            act()
    assert tables(db, url) == before
    assert engine.migrate(dry_run=True).found == (0 if fresh else schema.CURRENT - 1)
    made = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE %s"
    assert db.execute(made, [f"{name_in(url)}%"]).fetchone() == (0 if fresh else 1,)


# -- rights


def test_a_schema_that_can_not_be_made_is_told_with_what_to_do(database: str, open_engine: Open) -> None:
    servers.postgres_connection(database).execute(
        f"REVOKE CREATE ON DATABASE {urlsplit(database).path[1:]} FROM current_user"
    )
    engine = open_engine(f"{database}?schema=crew")
    with pytest.raises(EngineUnavailable, match=r"permission denied for database .* grant it"):
        engine.insert([new_job("job")], now=NOW)


def test_a_schema_that_is_there_without_a_right_to_it_is_told_with_what_to_do(database: str, open_engine: Open) -> None:
    db = servers.postgres_connection(database)
    db.execute("CREATE SCHEMA crew")
    db.execute("REVOKE ALL ON SCHEMA crew FROM current_user")
    engine = open_engine(f"{database}?schema=crew")
    with pytest.raises(EngineUnavailable, match=r"permission denied for schema crew; .* grant it"):
        engine.insert([new_job("job")], now=NOW)
    db.execute("GRANT USAGE ON SCHEMA crew TO current_user")
    with pytest.raises(EngineUnavailable, match=r"permission denied for schema crew; .* grant it"):
        engine.insert([new_job("job")], now=NOW)


def test_a_schema_made_by_an_administrator_is_used_without_the_right_to_make_one(
    database: str, open_engine: Open
) -> None:
    db = servers.postgres_connection(database)
    db.execute("CREATE SCHEMA crew")
    db.execute(f"REVOKE CREATE ON DATABASE {urlsplit(database).path[1:]} FROM current_user")
    assert kinds(open_engine(f"{database}?schema=crew").insert([new_job("job")], now=NOW)) == ["new"]


# -- several stores in one database


def test_two_schemas_of_one_database_neither_see_nor_hear_each_other(database: str, open_engine: Open) -> None:
    here, there = open_engine(f"{database}?schema=here"), open_engine(f"{database}?schema=there")
    plain = open_engine(database)
    bells = {engine.url: engine.listen("work") for engine in (here, there, plain)}
    here.insert([new_job("job")], now=NOW)
    here.ring("work")
    assert bells[here.url].wait(PATIENCE)
    for engine in (there, plain):  # what is rung now comes after whatever could have come before
        assert not bells[engine.url].wait(0)
        open_engine(f"{engine.url.replace('@', f':{urlsplit(database).password}@')}").ring("work")
        assert bells[engine.url].wait(PATIENCE)
        assert claim(engine) == []
        assert engine.queries.rules().queues == []
    assert ids(claim(here)) == ["job"]
    for bell in bells.values():
        bell.close()


def test_the_names_of_two_schemas_that_differ_in_case_are_two_stores(database: str, open_engine: Open) -> None:
    lower, upper = open_engine(f"{database}?schema=crew"), open_engine(f"{database}?schema=CREW")
    lower.insert([new_job("job")], now=NOW)
    assert claim(upper) == []
    assert ids(claim(lower)) == ["job"]


@pytest.mark.parametrize("name", ["headrace_jobs", "select", "A", "_", "x" * 41, "headrace_schema"])
def test_any_name_that_is_let_in_works(database: str, open_engine: Open, name: str) -> None:
    engine = open_engine(f"{database}?schema={name}")
    bell = engine.listen("work")
    engine.insert([new_job("job", tags=("a",))], now=NOW)
    assert ids(claim(engine)) == ["job"]
    assert engine.maintenance.facts().details["schema_name"] == name
    assert isinstance(engine.maintenance.inspect(NOW), list)
    bell.close()


def test_a_role_whose_search_path_leads_elsewhere_works_in_its_schema_and_nowhere_else(
    database: str, open_engine: Open
) -> None:
    db = servers.postgres_connection(database)
    db.execute("CREATE SCHEMA decoy")
    for table in ("jobs", "queues", "schema", "store", "workers", "tags", "history", "logs", "dead_letters"):
        db.execute(f"CREATE TABLE decoy.headrace_{table} (trap int)")
    engine = open_engine(f"{database}?schema=crew&options=-c%20search_path%3Ddecoy")
    engine.insert([new_job("job", tags=("a",))], now=NOW)
    engine.exchange([], want(), now=NOW)
    engine.reap(10, now=NOW)
    assert engine.queries.count(EVERYTHING).jobs == 1
    assert engine.maintenance.inspect(NOW) is not None
    for table in ("jobs", "queues", "schema", "store", "workers"):
        assert db.execute(f"SELECT count(*) FROM decoy.headrace_{table}").fetchone() == (0,)


@pytest.mark.parametrize("name", ['crew"; DROP SCHEMA public; --', "crew'", "crew.jobs", "a b", "a\\", "a%", "$1"])
def test_a_name_that_could_end_a_quotation_is_not_let_in(name: str) -> None:
    with pytest.raises(ConfigError, match="must be letters, digits and _"):
        PostgresEngine(f"postgresql://db.invalid/jobs?schema={quote(name)}")


# -- closing


def test_a_store_removed_while_the_engine_was_closed_is_made_anew(url: str, open_engine: Open) -> None:
    engine = open_engine(url)
    engine.insert([new_job("a")], now=NOW)
    engine.close()
    servers.drop(url)
    engine.insert([new_job("b")], now=NOW)
    assert ids(claim(engine)) == ["b"]
