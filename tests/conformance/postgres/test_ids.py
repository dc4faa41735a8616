"""PostgreSQL: the table of ids gives each job its number, and never disagrees with the table of jobs."""

from __future__ import annotations

import psycopg
import pytest

from headrace.core.jobs.states import State
from headrace.engines.postgres.engine import PostgresEngine
from tests.support import servers
from tests.support.builders import NOW, claim, kinds, new_job, row, settle, states, succeed
from tests.support.engines import StoreUnderTest

pytestmark = pytest.mark.engines("postgres")

DIFFERENCES = """SELECT count(*) FROM {0}.headrace_jobs AS job FULL JOIN {0}.headrace_ids AS named
    ON named.id = job.id AND named.seq = job.seq WHERE job.seq IS NULL OR named.seq IS NULL"""


@pytest.fixture
def engine(store: StoreUnderTest) -> PostgresEngine:
    engine = store.open()
    assert isinstance(engine, PostgresEngine)
    return engine


@pytest.fixture
def db(store: StoreUnderTest, engine: PostgresEngine) -> psycopg.Connection:
    return servers.postgres_connection(store.address)


def differences(db: psycopg.Connection, engine: PostgresEngine) -> int:
    (found,) = db.execute(DIFFERENCES.format(engine.address.schema)).fetchone() or (None,)
    return int(found)


def test_new_jobs_between_taken_ids_and_twins_get_rising_numbers(
    engine: PostgresEngine, db: psycopg.Connection
) -> None:
    engine.insert([new_job("b")], now=NOW)
    batch = [new_job(name, payload=f"[{place}]") for place, name in enumerate("abcac")]
    assert kinds(engine.insert(batch, now=NOW)) == ["new", "taken", "new", "taken", "taken"]
    assert [row(engine, name).payload for name in "ac"] == ["[0]", "[2]"]
    assert row(engine, "b").seq < row(engine, "a").seq < row(engine, "c").seq
    assert differences(db, engine) == 0


def test_the_id_of_a_job_that_was_deleted_by_hand_is_free(engine: PostgresEngine, db: psycopg.Connection) -> None:
    engine.insert([new_job("a"), new_job("b")], now=NOW)
    db.execute(f"DELETE FROM {engine.address.schema}.headrace_jobs WHERE id = 'a'")
    assert differences(db, engine) == 0
    assert kinds(engine.insert([new_job("a"), new_job("b")], now=NOW)) == ["new", "taken"]


def test_a_remembered_number_that_is_another_jobs_settles_nothing(
    engine: PostgresEngine, db: psycopg.Connection
) -> None:
    """So it is in a store that was emptied and filled again while a worker ran."""
    engine.insert([new_job("a"), new_job("b")], now=NOW)
    late, kept = claim(engine)
    schema = engine.address.schema
    db.execute(f"DELETE FROM {schema}.headrace_jobs WHERE id = 'a'")
    db.execute(f"UPDATE {schema}.headrace_jobs SET seq = {late.ref} WHERE id = 'b'")
    db.execute(f"UPDATE {schema}.headrace_ids SET seq = {late.ref} WHERE id = 'b'")
    assert [outcome.id for outcome in settle(engine, succeed(late))] == ["a"]
    assert states(engine) == {"b": State.RUNNING}
    assert kept.version == row(engine, "b").version


def test_a_job_that_another_process_claimed_is_settled_by_its_id(store: StoreUnderTest, engine: PostgresEngine) -> None:
    engine.insert([new_job("a")], now=NOW)
    (claimed,) = claim(store.open())
    assert settle(engine, succeed(claimed)) == []
    assert states(engine) == {"a": State.COMPLETED}
