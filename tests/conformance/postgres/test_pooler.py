"""PostgreSQL behind a pooler of transactions: nothing is kept in a session, and bells ring by themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from headrace import Headrace
from headrace.core.health.findings import MAINTENANCE_KINDS
from headrace.core.jobs.states import State, Trigger
from headrace.engines.postgres.connections import Connection, ConnectionPool
from headrace.engines.postgres.engine import PostgresEngine
from headrace.engines.postgres.maintenance import PostgresMaintenance
from tests.support import servers
from tests.support.builders import (
    EVERYTHING,
    LEASE,
    NOW,
    claim,
    claim_one,
    fail,
    ids,
    lease_of,
    log,
    new_job,
    retry,
    settle,
    states,
    succeed,
    worker_row,
)
from tests.support.engines import StoreUnderTest
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.engines("postgres")
Open = Callable[[str], PostgresEngine]


@pytest.fixture
def engine(store: StoreUnderTest, open_engine: Open) -> PostgresEngine:
    return open_engine(f"{store.address}&pooler=on&poll=50")


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
    """As a pooler would: after each use the session is somebody else's, and everything in it is gone."""
    cleared: list[Connection] = []
    give_back = ConnectionPool._return

    def clear(server: ConnectionPool, connection: Connection, home: Any) -> None:
        if server.address.pooler:
            connection.execute("DISCARD ALL")
            cleared.append(connection)
        give_back(server, connection, home)

    monkeypatch.setattr(ConnectionPool, "_return", clear)
    return cleared


def asked(engine: PostgresEngine, question: str) -> object:
    row = engine.server.run(lambda db: db.execute(question).fetchone())
    assert row is not None
    return row[0]


def live(engine: PostgresEngine) -> None:
    """What a worker and its operators do."""
    engine.register_worker(worker_row()).close()
    engine.insert([new_job(f"j{number}", tags=("a",)) for number in range(20)], now=NOW)
    engine.insert([new_job("later", run_at=NOW + 10)], all_or_nothing=True, now=NOW)
    for _ in range(3):
        claims = claim(engine, 4)
        engine.renew(worker_row(), [lease_of(each) for each in claims], LEASE, now=NOW)
        done, failed, again, left = claims
        engine.exchange([succeed(done), fail(failed), retry(again, NOW + 5)], None, [log(done, "hello")], now=NOW)
        engine.release_unknown_claims("w1", [], now=NOW)
        assert states(engine)[left.id] is State.PENDING
    engine.queries.move(EVERYTHING, Trigger.CANCEL, 2, now=NOW)
    engine.queries.pause_queue("default", False)
    engine.reap(10, now=NOW + LEASE + 1)
    engine.unregister_worker("w1")
    engine.maintenance.inspect(NOW)
    engine.maintenance.facts()


def test_nothing_is_set_for_a_session(engine: PostgresEngine, store: StoreUnderTest, open_engine: Open) -> None:
    plain = psycopg.connect(servers._without(store.address, "schema"))
    with plain:
        usual = plain.execute("SHOW statement_timeout").fetchone()
    plain.close()
    assert usual is not None
    assert asked(engine, "SHOW statement_timeout") == usual[0]
    direct = open_engine(f"{store.address}&statement_timeout=77")
    assert asked(direct, "SHOW statement_timeout") == "77s"
    assert asked(direct, "SHOW idle_in_transaction_session_timeout") == "1min"


def test_a_view_of_one_moment_leaves_the_session_as_it_was(
    store: StoreUnderTest, open_engine: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = "options=-c%20idle_in_transaction_session_timeout%3D77s"  # as if it were the server's own
    engine = open_engine(f"{store.address}&pooler=on&{usual}")
    timeouts: list[object] = []

    def look(db: Connection) -> None:
        timeouts.extend(db.execute("SHOW idle_in_transaction_session_timeout").fetchone() or ())

    disconnect = ConnectionPool.disconnect

    def look_and_hang_up(server: ConnectionPool, db: Connection) -> None:
        look(db)
        disconnect(server, db)

    monkeypatch.setattr(ConnectionPool, "disconnect", look_and_hang_up)
    engine.maintenance.backup(Path("nowhere"), lambda view: look(cast(Any, view)._tx._db))
    assert timeouts == ["0", "77s"], "it may take its time, and only it"


def test_no_limit_of_a_session_is_lifted_or_put_back_by_a_vacuum(engine: PostgresEngine) -> None:
    """A pooler may keep what its clients set: to put back the default would take it from them."""
    asked(engine, "SELECT set_config('statement_timeout', '77s', false)")
    engine.maintenance.maintain(MAINTENANCE_KINDS, "all")
    assert asked(engine, "SHOW statement_timeout") == "77s"


def test_without_a_pooler_a_vacuum_has_all_the_time_it_needs(
    store: StoreUnderTest, open_engine: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct = open_engine(f"{store.address}&statement_timeout=77")
    timeouts: list[object] = []
    tables = PostgresMaintenance._tables

    def look(maintenance: PostgresMaintenance, db: Connection) -> list[str]:
        timeouts.extend(db.execute("SHOW statement_timeout").fetchone() or ())
        return tables(maintenance, db)

    monkeypatch.setattr(PostgresMaintenance, "_tables", look)
    direct.maintenance.maintain(MAINTENANCE_KINDS, "all")
    assert timeouts == ["0"]
    assert asked(direct, "SHOW statement_timeout") == "77s"


def test_nothing_is_prepared(engine: PostgresEngine, store: StoreUnderTest, open_engine: Open) -> None:
    prepared = "SELECT count(*) FROM pg_prepared_statements WHERE NOT from_sql"
    direct = open_engine(store.address)
    for each in (engine, direct):
        for number in range(12):
            each.insert([new_job(f"{each.address.pooler}{number}")], now=NOW)
            settle(each, succeed(claim_one(each)))
    assert asked(engine, prepared) == 0
    assert asked(direct, prepared) != 0, "the question would find some"


def test_nothing_depends_on_what_a_session_remembers(engine: PostgresEngine, forgetful: list[Connection]) -> None:
    live(engine)
    assert len(forgetful) > 30


def test_no_connection_is_kept_to_listen(engine: PostgresEngine) -> None:
    engine.insert([new_job("job")], now=NOW)
    before = list(engine.server._backends)
    bells = [engine.listen("work"), engine.listen("done", ["default"])]
    assert list(engine.server._backends) == before
    assert not any(thread.name == "headrace-bell" for thread in threading.enumerate())
    for bell in bells:
        bell.close()


def test_work_of_another_process_is_found_by_looking(
    engine: PostgresEngine, store: StoreUnderTest, open_engine: Open
) -> None:
    bell = engine.listen("work")
    open_engine(store.address).insert([new_job("job")], now=NOW)
    assert bell.wait(PATIENCE)
    assert ids(claim(engine)) == ["job"]
    bell.close()


def test_those_who_listen_in_earnest_hear_who_is_behind_a_pooler(
    engine: PostgresEngine, store: StoreUnderTest, open_engine: Open
) -> None:
    bell = open_engine(store.address).listen("work")
    engine.insert([new_job("job")], now=NOW)
    assert bell.wait(PATIENCE)
    bell.close()


def test_a_ring_within_the_process_is_not_waited_for(store: StoreUnderTest, open_engine: Open) -> None:
    engine = open_engine(f"{store.address}&pooler=on&poll=60000")
    bell, other = engine.listen("work", ["default"]), engine.listen("work", ["mail"])
    engine.insert([new_job("job")], now=NOW)
    assert bell.wait(0)
    assert not other.wait(0)
    bell.close()
    other.close()


def test_a_worker_behind_a_pooler_takes_up_work_and_its_client_sees_the_end(
    store: StoreUnderTest, forgetful: list[Connection]
) -> None:
    with Headrace(f"{store.address}&pooler=on&poll=50") as app, Headrace(store.address) as client:

        @app.task
        def double(number: int) -> int:
            return number * 2

        with app.worker(concurrency=2):
            assert [client.enqueue(double.name, number).result(PATIENCE) for number in range(3)] == [0, 2, 4]
    assert forgetful


def test_an_operator_is_told_how_workers_are_woken(
    engine: PostgresEngine, store: StoreUnderTest, open_engine: Open
) -> None:
    assert engine.maintenance.facts().details["wake_up"] == "poll every 0.05 s"
    assert open_engine(store.address).maintenance.facts().details["wake_up"] == "LISTEN"
