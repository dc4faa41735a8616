"""PostgreSQL: the table of ids gives each job its number, and never disagrees with the table of jobs."""

from __future__ import annotations

from collections.abc import Iterator

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


# -- damage that no operation does


@pytest.fixture
def jobs(db: psycopg.Connection, engine: PostgresEngine) -> Iterator[str]:
    """The table of jobs without its trigger, and with three jobs."""
    engine.insert([new_job("a"), new_job("b"), new_job("c")], now=NOW)
    jobs = f"{engine.address.schema}.headrace_jobs"
    db.execute(f"ALTER TABLE {jobs} DISABLE TRIGGER headrace_jobs_gone")
    yield jobs
    db.execute(f"ALTER TABLE {jobs} ENABLE TRIGGER headrace_jobs_gone")


def found(engine: PostgresEngine) -> dict[str, int]:
    findings = engine.maintenance.inspect(NOW)
    return {finding.code: finding.count for finding in findings if finding.code in ("orphan_index", "unindexed")}


def repair(engine: PostgresEngine, *codes: str) -> dict[str, int]:
    return engine.maintenance.repair(codes, 100, NOW)


def test_an_id_without_its_job_is_found_and_dropped(engine: PostgresEngine, db: psycopg.Connection, jobs: str) -> None:
    assert found(engine) == {}
    db.execute(f"DELETE FROM {jobs} WHERE id = 'a'")
    assert kinds(engine.insert([new_job("a")], now=NOW)) == ["taken"], "it would be lost"
    assert found(engine) == {"orphan_index": 1}
    assert repair(engine, "orphan_index") == {"orphan_index": 1}
    assert (found(engine), differences(db, engine)) == ({}, 0)
    assert kinds(engine.insert([new_job("a"), new_job("b")], now=NOW)) == ["new", "taken"]
    assert repair(engine, "orphan_index") == {"orphan_index": 0}


def test_a_job_without_its_id_is_found_and_gets_it_back(
    engine: PostgresEngine, db: psycopg.Connection, jobs: str
) -> None:
    db.execute(f"DELETE FROM {engine.address.schema}.headrace_ids WHERE id = 'a'")
    assert engine.queries.get(["a"]) == []
    assert found(engine) == {"unindexed": 1}
    assert repair(engine, "unindexed") == {"unindexed": 1}
    assert (found(engine), differences(db, engine)) == ({}, 0)
    assert kinds(engine.insert([new_job("a")], now=NOW)) == ["taken"]
    assert repair(engine, "unindexed") == {"unindexed": 0}


@pytest.mark.parametrize("codes", [("orphan_index", "unindexed"), ("unindexed",)])
def test_an_id_that_leads_to_another_job_leads_to_its_own_again(
    engine: PostgresEngine, db: psycopg.Connection, jobs: str, codes: tuple[str, ...]
) -> None:
    db.execute(f"UPDATE {engine.address.schema}.headrace_ids SET seq = %s WHERE id = 'a'", [row(engine, "b").seq])
    assert found(engine) == {"orphan_index": 1, "unindexed": 1}
    assert repair(engine, *codes)["unindexed"] == 1
    assert (found(engine), differences(db, engine)) == ({}, 0)
    assert row(engine, "a").id == "a"


@pytest.mark.parametrize("keeps_its_id", [True, False])
def test_of_two_jobs_with_one_id_the_newer_gets_another(
    engine: PostgresEngine, db: psycopg.Connection, jobs: str, keeps_its_id: bool
) -> None:
    ids = f"{engine.address.schema}.headrace_ids"
    first = row(engine, "a").seq
    db.execute(f"DELETE FROM {ids} WHERE id = 'a'")
    assert kinds(engine.insert([new_job("a")], now=NOW)) == ["new"], "it is doubled"
    twin = row(engine, "a").seq
    db.execute(
        f"UPDATE {ids} SET seq = {first} WHERE id = 'a'" if keeps_its_id else f"DELETE FROM {ids} WHERE id = 'a'"
    )
    damage = {"unindexed": 1 if keeps_its_id else 2}
    assert found(engine) == damage
    assert repair(engine, "unindexed") == damage
    assert (found(engine), differences(db, engine)) == ({}, 0)
    assert [row(engine, name).seq for name in ("a", f"a-{twin}")] == [first, twin]


def test_a_running_job_keeps_its_id_until_it_ends(engine: PostgresEngine, db: psycopg.Connection, jobs: str) -> None:
    claimed = claim(engine)[0]
    db.execute(f"DELETE FROM {engine.address.schema}.headrace_ids WHERE id = 'a'")
    engine.insert([new_job("a")], now=NOW)
    assert repair(engine, "unindexed") == {"unindexed": 0}
    assert settle(engine, succeed(claimed)) == []
    assert repair(engine, "unindexed") == {"unindexed": 1}
    assert row(engine, f"a-{claimed.ref}").state is State.COMPLETED
