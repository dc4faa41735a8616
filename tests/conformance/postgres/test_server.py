"""PostgreSQL: connections that break, are refused or interrupted, and the words in which a user learns of it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.unique_rules import InsertResult
from headrace.engines.postgres import connections as module
from headrace.engines.postgres import health
from headrace.engines.postgres.connections import Connection, ConnectionLost, ConnectionPool
from headrace.engines.postgres.engine import PostgresEngine
from headrace.errors import ConfigError, DuplicateJob, EngineUnavailable
from tests.support import servers
from tests.support.builders import (
    EVERYTHING,
    NOW,
    claim,
    ids,
    kinds,
    new_job,
    states,
    worker_row,
)
from tests.support.engines import KINDS, StoreUnderTest
from tests.support.proxy import Proxy
from tests.support.waiting import PATIENCE, eventually

pytestmark = [
    pytest.mark.engines("postgres"),
    pytest.mark.skipif("postgres" not in KINDS, reason="not among $HEADRACE_TEST_ENGINES"),
]
Open = Callable[[str], PostgresEngine]


@pytest.fixture
def engine(store: StoreUnderTest, open_engine: Open) -> PostgresEngine:
    """An engine with tables and a known queue, and with few connections of its own."""
    made = open_engine(f"{store.address}&connections=3&application_name={store.address[-8:]}")
    made.insert([new_job("first")], now=NOW)
    return made


@pytest.fixture
def server(engine: PostgresEngine) -> ConnectionPool:
    return engine.server


@pytest.fixture
def other(store: StoreUnderTest) -> psycopg.Connection[Any]:
    """Somebody else at the same database."""
    return servers.postgres_connection(store.address)


@pytest.fixture
def proxy(store: StoreUnderTest) -> Iterator[Proxy]:
    with Proxy(urlsplit(store.address).port or 5432) as made:
        yield made


def backend(db: Connection) -> int:
    return db.info.backend_pid


def terminate(other: psycopg.Connection[Any], pid: int) -> None:
    """End a backend from outside and wait until it is gone."""
    assert other.execute("SELECT pg_terminate_backend(%s)", [pid]).fetchone() == (True,)
    gone = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
    eventually(lambda: other.execute(gone, [pid]).fetchone() is None, "the backend ends")


def idle(server: ConnectionPool) -> list[Connection]:
    return [connection for connection, _ in server._idle]


def count_jobs(db: Connection, engine: PostgresEngine) -> int:
    found = db.execute(f"SELECT count(*) FROM {engine.address.schema}.headrace_jobs").fetchone()
    assert found is not None
    return int(found[0])


# -- the pool


def test_a_connection_is_used_again(server: ConnectionPool) -> None:
    assert server.run(backend) == server.run(backend) == server.transact(backend)


def test_all_connections_busy_is_an_error_that_says_what_to_do(
    server: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_POOL_TIMEOUT", 0.05)
    inside, leave = threading.Barrier(4), threading.Event()

    def hold(_: Connection) -> bool:
        inside.wait()
        return leave.wait(PATIENCE)

    holders = [threading.Thread(target=server.run, args=(hold,)) for _ in range(3)]
    for holder in holders:
        holder.start()
    inside.wait()
    with pytest.raises(EngineUnavailable, match=r"all 3 connections .* raise `connections` in the URL"):
        server.run(backend)
    leave.set()
    for holder in holders:
        holder.join()
    assert server.run(backend)


def test_a_connection_that_the_server_closed_while_it_was_idle_is_not_used(
    server: ConnectionPool, other: psycopg.Connection[Any]
) -> None:
    (kept,) = idle(server)
    terminate(other, backend(kept))
    eventually(lambda: module._is_readable(kept), "the news of it arrives")
    used: list[int] = []
    server.run(lambda db: used.append(backend(db)))
    assert len(used) == 1, "it was noticed before, not by an error"
    assert idle(server) != [kept]


def test_connections_that_nobody_used_for_long_are_closed_by_whoever_comes_by(server: ConnectionPool) -> None:
    server.run(lambda _: server.run(lambda _: server.run(backend)))
    first, second, third = idle(server)
    server._idle[:] = [(first, time.monotonic() - 61), (second, time.monotonic() - 61), (third, time.monotonic())]
    server.run(backend)
    assert idle(server) == [third]
    assert first.closed
    assert second.closed


def test_a_connection_that_was_idle_for_long_is_not_used(server: ConnectionPool) -> None:
    (old,) = idle(server)
    server._idle[:] = [(old, time.monotonic() - 61)]
    assert server.run(lambda db: db) is not old
    assert old.closed


def test_a_connection_in_use_when_the_engine_is_closed_is_closed_when_it_is_returned(server: ConnectionPool) -> None:
    taken: list[Connection] = []

    def act(db: Connection) -> None:
        taken.append(db)
        server.close()

    server.run(act)
    assert taken[0].closed
    assert idle(server) == []
    assert server.run(backend)


def test_a_closed_engine_leaves_no_connection_at_the_server(
    engine: PostgresEngine, store: StoreUnderTest, other: psycopg.Connection[Any]
) -> None:
    bell = engine.listen("work")
    ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
    name = [store.address[-8:]]
    assert other.execute(ours, name).fetchone() == (2,)
    bell.close()
    engine.close()
    eventually(lambda: other.execute(ours, name).fetchone() == (0,), "all are gone")


def test_the_name_of_a_connection_is_forgotten_when_it_breaks(
    server: ConnectionPool, other: psycopg.Connection[Any]
) -> None:
    """Or whoever is given the same name later, as after a restart of the server, would not be heard."""
    names: list[int] = []

    def act(db: Connection) -> None:
        names.append(backend(db))
        assert server.is_own_backend(names[0])
        terminate(other, names[0])
        db.execute("SELECT 1")

    with pytest.raises(ConnectionLost):
        server.run(act)
    assert not server.is_own_backend(names[0])


def test_the_names_of_idle_connections_that_broke_are_forgotten_when_the_line_is_called_anew(
    engine: PostgresEngine, server: ConnectionPool, other: psycopg.Connection[Any]
) -> None:
    server.run(lambda _: server.run(backend))
    broken = idle(server)
    for connection in broken:
        terminate(other, backend(connection))
    eventually(lambda: all(map(module._is_readable, broken)), "the news of it arrives")
    names = list(server._backends.values())
    engine._server_bells._connect().disconnect()
    assert not any(server.is_own_backend(name) for name in names)


# -- transactions


def test_a_transaction_that_breaks_off_before_its_commit_is_done_anew(
    engine: PostgresEngine, server: ConnectionPool, other: psycopg.Connection[Any]
) -> None:
    rounds: list[int] = []

    def act(db: Connection) -> str:
        db.execute(f"DELETE FROM {engine.address.schema}.headrace_jobs")
        rounds.append(backend(db))
        if len(rounds) == 1:
            terminate(other, rounds[0])
        db.execute("SELECT 1")
        return "done"

    assert server.transact(act) == "done"
    assert len(set(rounds)) == 2
    assert engine.queries.count(EVERYTHING).jobs == 0


def test_a_server_that_breaks_off_every_time_is_an_error_in_the_end(
    server: ConnectionPool, other: psycopg.Connection[Any]
) -> None:
    rounds: list[int] = []

    def act(db: Connection) -> None:
        rounds.append(backend(db))
        terminate(other, rounds[-1])
        db.execute("SELECT 1")

    # The last word comes from the server, or from the library if its socket closed without one.
    with pytest.raises(ConnectionLost, match=r"terminating connection due to administrator command|socket closed"):
        server.transact(act)
    assert 2 <= len(rounds) <= 5


def test_a_connection_that_is_given_up_while_its_answer_is_awaited_has_broken_off(server: ConnectionPool) -> None:
    """The library may say that the socket closed before the connection itself knows that it is lost."""
    rounds: list[int] = []

    def act(db: Connection) -> None:
        rounds.append(backend(db))
        if len(rounds) == 1:
            db.pgconn.send_query(b"SELECT pg_sleep(1)")
            raise psycopg.OperationalError("connection socket closed")

    server.transact(act)
    assert len(set(rounds)) == 2


def test_a_transaction_that_breaks_off_at_its_commit_is_not_done_anew(
    engine: PostgresEngine, server: ConnectionPool
) -> None:
    """Nobody knows whether it happened."""
    schema = engine.address.schema
    rounds: list[int] = []

    def act(db: Connection) -> None:
        rounds.append(backend(db))
        script = """CREATE FUNCTION {0}.stab() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(10); RETURN NULL; END';
            CREATE CONSTRAINT TRIGGER stab AFTER INSERT ON {0}.headrace_store DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION {0}.stab();
            INSERT INTO {0}.headrace_store VALUES ('a', 'b')"""
        db.execute(script.format(schema))

    with pytest.raises(ConnectionLost):
        server.transact(act)
    assert len(rounds) == 1


def test_a_single_statement_that_breaks_off_is_repeated_only_where_that_is_said(
    server: ConnectionPool, other: psycopg.Connection[Any]
) -> None:
    rounds: list[int] = []

    def act(db: Connection) -> int:
        rounds.append(backend(db))
        if len(rounds) % 2:
            terminate(other, rounds[-1])
        db.execute("SELECT 1")
        return len(rounds)

    with pytest.raises(ConnectionLost):
        server.run(act)
    assert len(rounds) == 1
    rounds.clear()
    assert server.repeat(act) == 2


@pytest.mark.parametrize("undone", ["deadlock_detected", "serialization_failure"])
def test_what_the_database_undid_is_done_anew(engine: PostgresEngine, server: ConnectionPool, undone: str) -> None:
    rounds: list[int] = []

    def act(db: Connection) -> str:
        rounds.append(1)
        db.execute(f"DELETE FROM {engine.address.schema}.headrace_jobs")
        if len(rounds) < 3:
            db.execute(f"DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '{undone}'; END $$")
        return "done"

    assert server.transact(act) == "done"
    assert len(rounds) == 3
    assert engine.queries.count(EVERYTHING).jobs == 0


@pytest.mark.slow
def test_two_who_store_the_same_jobs_in_opposite_order_both_get_an_answer(
    engine: PostgresEngine, other: psycopg.Connection[Any], store: StoreUnderTest
) -> None:
    """Each waits for the other's row: a deadlock inside of single statements."""
    script = """CREATE FUNCTION {0}.linger() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_sleep(0.1); RETURN NEW; END';
        CREATE TRIGGER linger BEFORE INSERT ON {0}.headrace_jobs FOR EACH ROW EXECUTE FUNCTION {0}.linger()"""
    other.execute(script.format(engine.address.schema))
    start = threading.Barrier(2)
    answers: dict[str, list[str]] = {}

    def insert(who: str, *names: str) -> None:
        start.wait()
        answers[who] = kinds(engine.insert([new_job(name, payload=f'["{who}"]') for name in names], now=NOW))

    threads = [
        threading.Thread(target=insert, args=("one", "a", "b")),
        threading.Thread(target=insert, args=("two", "b", "a")),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    servers.drop(store.address)  # with the trigger; nobody else should get this schema
    assert sorted(answers) == ["one", "two"]
    assert sorted(answers["one"] + answers["two"]) == ["new", "new", "taken", "taken"]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_database_with_a_stricter_default_is_no_hindrance(
    store: StoreUnderTest, open_engine: Open, level: str
) -> None:
    option = f"-c%20default_transaction_isolation={level.replace(' ', '%5C%20')}"
    engine = open_engine(f"{store.address}&options={option}")
    assert engine.server.run(lambda db: db.execute("SHOW default_transaction_isolation").fetchone()) == (level,)
    engine.insert([new_job(f"j{number}") for number in range(60)], now=NOW)
    taken: list[str] = []

    def drain(worker: str) -> None:
        while claims := claim(engine, 3, worker=worker):
            taken.extend(ids(claims))

    threads = [threading.Thread(target=drain, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(taken) == sorted(f"j{number}" for number in range(60))


def test_what_the_database_undoes_every_time_is_an_error_of_ours_in_the_end(server: ConnectionPool) -> None:
    rounds: list[int] = []

    def act(db: Connection) -> None:
        rounds.append(1)
        db.execute("DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = 'serialization_failure'; END $$")

    for do in (server.transact, server.run):
        rounds.clear()
        with pytest.raises(EngineUnavailable, match="it kept conflicting with other transactions"):
            do(act)
        assert 2 <= len(rounds) <= 5
    assert server.run(backend)


# -- interruptions


def test_a_statement_over_its_time_limit_is_an_error_with_advice_and_the_connection_stays(
    server: ConnectionPool,
) -> None:
    before = server.run(backend)

    def act(db: Connection) -> None:
        db.execute("SET LOCAL statement_timeout = '20ms'")
        db.execute("SELECT pg_sleep(10)")

    with pytest.raises(EngineUnavailable, match=r"statement timeout; .* overloaded, or a lock held\?"):
        server.transact(act)
    assert server.run(backend) == before


def interrupt(db: Connection) -> None:
    """Ctrl-C comes while the server works on a statement."""
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    db.execute("SELECT pg_sleep(30)")


def raise_half_way(_: Connection) -> None:
    raise KeyboardInterrupt


def fail_half_way(_: Connection) -> None:
    raise KeyError("half way")


def break_a_rule(db: Connection) -> None:
    db.execute("SELECT 1 / 0")


@pytest.mark.parametrize("end", [interrupt, raise_half_way, fail_half_way, break_a_rule])
def test_a_transaction_that_is_cut_short_leaves_nothing_behind_in_the_pool_or_the_tables(
    engine: PostgresEngine, server: ConnectionPool, end: Callable[[Connection], None]
) -> None:
    def act(db: Connection) -> None:
        db.execute(f"DELETE FROM {engine.address.schema}.headrace_jobs")
        end(db)

    with pytest.raises((KeyboardInterrupt, KeyError, psycopg.DataError)):
        server.transact(act)
    assert all(each.info.transaction_status == TransactionStatus.IDLE for each in idle(server))
    assert sorted(states(engine)) == ["first"]
    assert set(server._backends) == set(idle(server))


def test_a_second_interruption_during_the_rollback_leaves_no_half_transaction(
    server: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = psycopg.Connection.execute

    def interrupted(db: Any, query: Any, *values: Any, **how: Any) -> Any:
        if query == "ROLLBACK":
            raise KeyboardInterrupt
        return execute(db, query, *values, **how)

    with monkeypatch.context() as impatient:
        impatient.setattr(psycopg.Connection, "execute", interrupted)
        with pytest.raises(KeyboardInterrupt):
            server.transact(raise_half_way)
    assert idle(server) == []
    assert set(server._backends) == set()
    assert server.run(backend)


# -- inserts whose answer is lost


def insert_in_a_thread(act: Callable[[], list[InsertResult]]) -> tuple[threading.Thread, list[object]]:
    answers: list[object] = []

    def insert() -> None:
        try:
            answers.append(kinds(act()))
        except Exception as error:
            answers.append(error)

    thread = threading.Thread(target=insert)
    thread.start()
    return thread, answers


@pytest.mark.parametrize("all_or_nothing", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_an_insert_whose_answer_is_lost_recognizes_its_own_jobs(
    store: StoreUnderTest,
    open_engine: Open,
    proxy: Proxy,
    other: psycopg.Connection[Any],
    all_or_nothing: bool,
    known: bool,
) -> None:
    """The commit happens, the news of it never arrives."""
    engine = open_engine(proxy.through(store.address))
    engine.insert([new_job("first", queue="default" if known else "elsewhere")], now=NOW)
    jobs = [new_job("a"), new_job("b", payload="[2]")]
    with psycopg.connect(servers._without(store.address, "schema")) as holder:
        holder.execute(f"LOCK TABLE {engine.address.schema}.headrace_jobs IN SHARE MODE")
        thread, answers = insert_in_a_thread(lambda: engine.insert(jobs, all_or_nothing=all_or_nothing, now=NOW))
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
        table = [f"{engine.address.schema}.headrace_jobs"]
        eventually(lambda: other.execute(waits, table).fetchone(), "the insert waits for the lock")
        proxy.pause()
    stored = 3 if known else 1  # with a new queue it is a transaction, whose COMMIT we hold up
    eventually(lambda: other.execute(waits, table).fetchone() is None, "the insert is through")
    eventually(lambda: count_jobs(other, engine) == stored, "the jobs are there")
    proxy.cut()
    proxy.resume()
    thread.join(PATIENCE)
    assert answers == [["new", "new"]]
    assert sorted(states(engine)) == ["a", "b", "first"]


def test_an_insert_that_is_repeated_does_not_take_anothers_job_for_its_own(
    engine: PostgresEngine, server: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.insert([new_job("taken", payload='["another"]', checksum=1)], now=NOW)
    run, lost = server.run, [True]

    def lose_the_first_answer(act: Callable[[Connection], Any]) -> Any:
        if lost and lost.pop():
            raise ConnectionLost("cut before it was sent")
        return run(act)

    monkeypatch.setattr(server, "run", lose_the_first_answer)
    assert kinds(engine.insert([new_job("taken"), new_job("new")], now=NOW)) == ["taken", "new"]
    lost.append(True)
    with pytest.raises(DuplicateJob):
        engine.insert([new_job("newer"), new_job("taken")], all_or_nothing=True, now=NOW)
    assert sorted(states(engine)) == ["first", "new", "taken"]


def test_dependencies_alone_do_not_count_as_stored_after_a_lost_answer(
    engine: PostgresEngine, server: ConnectionPool
) -> None:
    engine.insert([new_job("second")], now=NOW)
    edge = Dependency("first", "second")

    def lose(act: Callable[[Connection], Any]) -> Any:
        raise ConnectionLost("cut before the commit")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "transact", lose)
        with pytest.raises(ConnectionLost):
            engine.insert([], edges=[edge], now=NOW)
    for _ in range(2):
        engine.insert([], edges=[edge], now=NOW)
    assert [(found.parent, found.child) for found in engine.flow_store.edges(["second"])] == [("first", "second")]


# -- what a user is told


def other_password(url: str) -> str:
    secret = urlsplit(url).password
    assert secret
    return url.replace(secret, "swordfish")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (other_password, "password authentication failed"),
        (lambda url: urlsplit(url)._replace(path="/no_such_database").geturl(), '"no_such_database" does not exist'),
        (lambda url: url.replace(f":{urlsplit(url).port}/", ":1/"), "refused"),
        (lambda url: f"{url}&sslmode=sideways", "sideways"),
        (lambda url: f"{url}&sslmode=require", "SSL"),
        (lambda url: f"{url}&options=-c%20no_such_setting%3D1", "no_such_setting"),
    ],
)
def test_a_server_that_does_not_let_us_in_is_told_in_one_line_without_the_password(
    store: StoreUnderTest, open_engine: Open, change: Callable[[str], str], told: str
) -> None:
    url = change(store.address)
    with pytest.raises(EngineUnavailable) as caught:
        open_engine(url).insert([new_job("job")], now=NOW)
    message = str(caught.value)
    assert told in message
    assert "\n" not in message
    assert str(urlsplit(url).password) not in message
    assert "postgresql://headrace@127.0.0.1" in message


def test_a_setting_that_the_driver_can_not_read_is_an_error_of_the_configuration(
    store: StoreUnderTest, open_engine: Open
) -> None:
    with pytest.raises(ConfigError, match=r"url: .*connect_timeout"):
        open_engine(f"{store.address}&connect_timeout=soon").queries.count(EVERYTHING)


def test_what_the_role_may_not_do_is_told_with_what_to_do(
    engine: PostgresEngine, other: psycopg.Connection[Any]
) -> None:
    table = f"{engine.address.schema}.headrace_jobs"
    other.execute(f"REVOKE INSERT ON {table} FROM current_user")
    try:
        with pytest.raises(EngineUnavailable, match=r"permission denied .* grant it"):
            engine.insert([new_job("job")], now=NOW)
    finally:
        other.execute(f"GRANT INSERT ON {table} TO current_user")
    assert kinds(engine.insert([new_job("job")], now=NOW)) == ["new"]


def test_a_read_only_server_is_told_with_what_to_do_and_may_be_read(store: StoreUnderTest, open_engine: Open) -> None:
    open_engine(store.address).insert([new_job("job")], now=NOW)
    engine = open_engine(f"{store.address}&options=-c%20default_transaction_read_only%3Don")
    for act in (lambda: engine.insert([new_job("other")], now=NOW), lambda: claim(engine)):
        with pytest.raises(EngineUnavailable, match=r"read-only .* use the address of the primary"):
            act()
    assert engine.queries.count(EVERYTHING).jobs == 1


def test_tables_that_are_gone_are_told_with_what_to_do(engine: PostgresEngine, store: StoreUnderTest) -> None:
    servers.drop(store.address)
    for act in (lambda: engine.queries.count(EVERYTHING).jobs, lambda: engine.insert([new_job("job")], now=NOW)):
        with pytest.raises(EngineUnavailable, match=r"`headrace migrate` creates (it|them) again"):
            act()
    assert engine.migrate().applied == ["0001_initial"]
    assert kinds(engine.insert([new_job("job")], now=NOW)) == ["new"]


def test_a_database_that_has_no_connection_left_is_told_with_what_to_do(open_engine: Open) -> None:
    url = servers.postgres_url(own_database=True)
    name = urlsplit(url).path.strip("/")
    servers.postgres_connection(servers._postgres.url()).execute(f"ALTER DATABASE {name} CONNECTION LIMIT 0")
    try:
        with pytest.raises(EngineUnavailable, match="lower `connections` in the URL"):
            open_engine(url).queries.count(EVERYTHING)
    finally:
        servers.drop(url)


def test_a_server_that_is_too_old_is_refused(engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.close()
    monkeypatch.setattr(module, "_OLDEST", 990_000)
    with pytest.raises(ConfigError, match=r"is PostgreSQL \d+; .* is needed"):
        engine.insert([new_job("job")], now=NOW)


def test_a_server_that_is_away_is_soon_not_asked_any_more_and_found_when_it_is_back(
    store: StoreUnderTest, open_engine: Open, proxy: Proxy
) -> None:
    engine = open_engine(proxy.through(store.address))
    engine.insert([new_job("before")], now=NOW)
    proxy.refuse()
    proxy.cut()
    for _ in range(6):
        with pytest.raises(EngineUnavailable):
            engine.insert([new_job("job")], now=NOW)
    with pytest.raises(EngineUnavailable, match="next try in"):
        engine.insert([new_job("job")], now=NOW)
    asked = proxy.connections
    proxy.accept_again()
    with pytest.raises(EngineUnavailable, match="next try in"):
        engine.insert([new_job("job")], now=NOW)
    assert proxy.connections == asked, "it was not even asked"

    def is_back() -> bool:
        try:
            return kinds(engine.insert([new_job("after")], now=NOW)) == ["new"]
        except EngineUnavailable:
            return False

    eventually(is_back, "it is found again")
    assert sorted(states(engine)) == ["after", "before"]


# -- bells


def test_a_line_that_the_server_cuts_is_called_anew_and_everybody_is_rung(
    engine: PostgresEngine,
    server: ConnectionPool,
    other: psycopg.Connection[Any],
    store: StoreUnderTest,
    open_engine: Open,
) -> None:
    bell = engine.listen("work")
    (line,) = set(server._backends) - set(idle(server))
    terminate(other, backend(line))
    assert bell.wait(PATIENCE)
    eventually(lambda: not line_is(line, server), "there is a new line")
    while bell.wait(0.3):
        pass  # the rings of the cut
    open_engine(store.address).ring("work")
    assert bell.wait(PATIENCE)
    bell.close()


def line_is(line: Connection, server: ConnectionPool) -> bool:
    listening = set(server._backends) - set(idle(server))
    return not listening or line in listening


def test_whatever_the_environment_says_jobs_are_stored_in_full(
    store: StoreUnderTest, open_engine: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    engine = open_engine(store.address)
    engine.insert([new_job("job", payload='["ἄνθρωπος 🐘"]', queue="Ωμέγα")], now=NOW)
    (claimed,) = claim(engine)
    assert (claimed.payload, claimed.queue) == ('["ἄνθρωπος 🐘"]', "Ωμέγα")


# -- what an operator is told


def test_a_pooler_that_was_not_announced_is_guessed(engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise psycopg.OperationalError("FATAL:  unsupported startup parameter: options")

    engine.close()
    monkeypatch.setattr(engine.address, "connect", refuse)
    with pytest.raises(EngineUnavailable, match="add `pooler=on` to the URL"):
        engine.queries.count(EVERYTHING)


def test_jobs_that_a_crash_of_the_server_would_lose_are_warned_of(store: StoreUnderTest, open_engine: Open) -> None:
    careless = open_engine(f"{store.address}&options=-c%20synchronous_commit%3Doff")
    assert any("synchronous_commit is off" in finding for finding in map(str, careless.maintenance.inspect(NOW)))
    assert careless.maintenance.facts().details["synchronous_commit"] == "off"
    assert not any(
        "synchronous_commit" in finding for finding in map(str, open_engine(store.address).maintenance.inspect(NOW))
    )


def test_a_transaction_that_is_open_for_long_is_named(
    engine: PostgresEngine, store: StoreUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not any("transaction has been open" in finding for finding in map(str, engine.maintenance.inspect(NOW)))
    monkeypatch.setattr(health, "_LONG_MS", -1)
    with psycopg.connect(servers._without(store.address, "schema")) as holder:
        holder.execute("SELECT 1")
        assert any(
            "a transaction has been open for 0 minutes" in finding
            for finding in map(str, engine.maintenance.inspect(NOW))
        )
    holder.close()


def test_jobs_under_workers_that_never_signed_on_are_counted(engine: PostgresEngine) -> None:
    claim(engine, worker="stranger")
    assert any(
        "1 job is running under a worker that never registered" in finding
        for finding in map(str, engine.maintenance.inspect(NOW))
    )
    engine.register_worker(worker_row("stranger")).close()
    assert not any("never registered" in finding for finding in map(str, engine.maintenance.inspect(NOW)))


def test_the_facts_of_a_store_have_no_password(engine: PostgresEngine, store: StoreUnderTest) -> None:
    facts = engine.maintenance.facts().details
    assert facts["engine"] == "postgresql"
    assert facts["schema"] == facts["schema_expected"]
    assert int(facts["size"]) > 0
    assert str(urlsplit(store.address).password) not in str(facts)


@pytest.mark.parametrize("all_or_nothing", [False, True])
def test_an_insert_that_the_server_is_still_at_when_it_is_sent_again_recognizes_its_own_jobs(
    store: StoreUnderTest,
    open_engine: Open,
    proxy: Proxy,
    other: psycopg.Connection[Any],
    all_or_nothing: bool,
) -> None:
    engine = open_engine(proxy.through(store.address))
    engine.insert([new_job("first")], now=NOW)
    jobs = [new_job("a"), new_job("b", payload="[2]")]
    table = f"{engine.address.schema}.headrace_jobs"
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
    with psycopg.connect(servers._without(store.address, "schema")) as holder:
        holder.execute(f"LOCK TABLE {table} IN SHARE MODE")
        thread, answers = insert_in_a_thread(lambda: engine.insert(jobs, all_or_nothing=all_or_nothing, now=NOW))
        eventually(lambda: other.execute(waits, [table]).fetchone() == (1,), "the insert waits for the lock")
        proxy.cut()
        eventually(lambda: other.execute(waits, [table]).fetchone() == (2,), "and so does its repetition")
    thread.join(PATIENCE)
    assert answers == [["new", "new"]]


def test_twins_in_an_insert_whose_answer_was_lost_are_told_apart(
    engine: PostgresEngine, server: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, lost = server.run, [True]

    def lose(act: Callable[[Connection], Any]) -> Any:
        done = run(act)
        if lost and lost.pop():
            raise ConnectionLost("cut after the commit")
        return done

    monkeypatch.setattr(server, "run", lose)
    assert kinds(engine.insert([new_job("a"), new_job("a"), new_job("b")], now=NOW)) == ["new", "taken", "new"]
