"""Every engine there is, as the suite sees it: how to make an empty store, open it, and look behind the desk.

A new engine is one more entry here and nothing else; each conformance test then runs on it. This module is also
imported by `actor`, in other processes, and so does not know pytest. $HEADRACE_TEST_ENGINES names the engines to
test, all of them if it is not set: `sqlite,redis`.
"""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qs, urlsplit

import msgspec

from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.engines.protocol.engine import Engine
from headrace.engines.sql.events import SqlEventStore
from headrace.engines.sqlite import engine as sqlite_engine
from headrace.engines.sqlite.engine import SqliteEngine
from headrace.engines.sqlite.temporary_store import TemporaryStore
from tests.support.memory_engine import MemoryEngine, MemoryStore
from tests.support.processes import Actor
from tests.support.waiting import PATIENCE


class DeadLetter(NamedTuple):
    """What the suite asks of a dead letter, until the desk has a question for it."""

    job_id: str
    reason: str
    status: str
    snapshot: dict[str, Any]


class Kind(NamedTuple):
    """One engine.

    `has` names what it has beyond the core, None is everything: tests that are marked with another need leave it out.
    `create` takes an empty folder and returns the address of an empty store, `discard` ends its use. `close` ends an
    engine at this address and keeps its connections, which the next `open` takes over.
    """

    create: Callable[[Path], str]
    open: Callable[[str], Engine]
    close: Callable[[Any, str], None]
    discard: Callable[[str], None]
    url: Callable[[str], str]
    has: Collection[str] | None = None


# -- SQLite: a new store is a copy of a file that has the tables already. To make them takes 15 ms, to copy them 1 ms.


@functools.cache
def _template() -> bytes:
    with tempfile.TemporaryDirectory(prefix="hr-") as folder:
        path = Path(folder, "template.db")
        engine = SqliteEngine(path, durability="off")
        engine.prepare()
        engine.close()
        return path.read_bytes()


def _create_sqlite(folder: Path) -> str:
    path = folder / "q.db"
    path.write_bytes(_template())
    return str(path)


def _open_sqlite(address: str) -> Engine:
    return SqliteEngine(Path(address), durability="off")


def copy_tables_into_memory_stores() -> None:
    """Let every `memory://` of this process begin as such a copy, too."""

    def scratch() -> TemporaryStore:
        made = TemporaryStore()
        made.path.write_bytes(_template())
        return made

    sqlite_engine._new_temporary_store = scratch


# -- PostgreSQL. The modules of servers are imported where they are used: another process starts faster without them.


class _Schemas:
    """Schemas of PostgreSQL that have our tables already, used again and again, each with its connections.

    To make the tables anew takes 30 ms, to empty them 1 ms. One that has grown is not worth keeping: what was
    deleted from it slows down the next test.
    """

    LARGEST = 4_000_000
    CONNECTIONS = 3

    def __init__(self) -> None:
        self._clean: list[str] = []
        self._connections: dict[tuple[int, str], list[Any]] = {}

    def take(self, _: Path | None = None) -> str:
        from tests.support import servers

        return self._clean.pop() if self._clean else servers.postgres_url()

    def give_back(self, url: str) -> None:
        import psycopg

        from tests.support import servers

        with suppress(psycopg.OperationalError):  # a lock is held in it: it is left to go with the server
            if self._empty(url):
                self._clean.append(url)
                return
            servers.drop(url)
        for connection in self._connections.pop((os.getpid(), url), ()):
            connection.close()

    def open(self, url: str) -> Engine:
        from headrace.engines.postgres.engine import PostgresEngine

        engine = PostgresEngine(url)
        for connection in self._connections.pop((os.getpid(), url), ()):
            engine.server._backends[connection] = connection.info.backend_pid
            engine.server._idle.append((connection, time.monotonic()))
        return engine

    def close(self, engine: Any, url: str) -> None:
        kept = self._connections.setdefault((os.getpid(), url), [])
        with engine.server._lock:
            while engine.server._idle and len(kept) < self.CONNECTIONS:
                connection, _ = engine.server._idle.pop()
                del engine.server._backends[connection]
                kept.append(connection)
        engine.close()

    def close_kept(self) -> None:
        for address in [address for address in self._connections if address[0] == os.getpid()]:
            for connection in self._connections.pop(address):
                connection.close()

    def _empty(self, url: str) -> bool:
        """Empty every table but the one that tells their version, and give the store a new identity."""
        from psycopg import sql

        from tests.support import servers

        db = servers.postgres_connection(url)
        [schema] = parse_qs(urlsplit(url).query)["schema"]
        for name in _partitions(db, schema):
            db.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(schema, name)))
        found = db.execute(
            "SELECT relname, pg_relation_size(oid) FROM pg_class WHERE relkind = 'r' AND relname <> 'headrace_schema' "
            "AND relnamespace = to_regnamespace(%s)",
            [schema],
        )
        sizes = dict(found.fetchall())
        if "headrace_store" not in sizes or sum(sizes.values()) > self.LARGEST:
            return False
        empty = {name: sql.SQL("DELETE FROM {}").format(sql.Identifier(schema, name)) for name in sizes}
        empty["headrace_store"] += sql.SQL(" WHERE name <> 'identity'")
        renew = sql.SQL("UPDATE {} SET value = gen_random_uuid()").format(sql.Identifier(schema, "headrace_store"))
        db.execute(sql.SQL("; ").join([*empty.values(), renew]))
        return True


def read_events_past_other_tests() -> None:
    """Let every PostgreSQL engine of this process wait for the transactions of others before it reads events.

    A page of events is shown when all transactions that were open before its commit have ended, and the server
    counts those of all its databases: other test processes would hold up what a test expects at once. The test's own
    open transactions, all in one database, do so as ever.
    """
    others = (
        "SELECT pid, backend_xid::text FROM pg_stat_activity WHERE backend_xid IS NOT NULL "
        "AND (datname IS DISTINCT FROM current_database() OR backend_type IS DISTINCT FROM 'client backend')"
    )

    def waiting(read: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(read)
        def read_later(events: SqlEventStore, *arguments: Any, **how: Any) -> Any:
            if server := getattr(events._database, "server", None):
                deadline = time.monotonic() + PATIENCE
                open_now = set(server.repeat(lambda db: db.execute(others).fetchall()))
                while open_now and time.monotonic() < deadline:
                    time.sleep(0.001)
                    open_now &= set(server.repeat(lambda db: db.execute(others).fetchall()))
            return read(events, *arguments, **how)

        return read_later

    SqlEventStore.read = waiting(SqlEventStore.read)  # type: ignore[method-assign]


def _partitions(db: Any, schema: str) -> list[str]:
    found = db.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^headrace_archive_[0-9]' "
        "AND relnamespace = to_regnamespace(%s)",
        [schema],
    )
    return [name for (name,) in found.fetchall()]


# -- Redis: a new store is a new prefix, and its engine takes over the connections of the last one.


class _Prefixes:
    """Prefixes of one Redis, and the connections to it."""

    CONNECTIONS = 3

    def __init__(self) -> None:
        self._connections: dict[int, list[Any]] = {}

    def create(self, _: Path) -> str:
        from tests.support import servers

        return servers.redis_url()

    def open(self, address: str) -> Engine:
        from headrace.engines.redis.engine import RedisEngine

        engine = RedisEngine(address)
        engine.connections._idle.extend(self._connections.pop(os.getpid(), ()))
        return engine

    def close(self, engine: Any, _: str) -> None:
        kept = self._connections.setdefault(os.getpid(), [])
        while engine.connections._idle and len(kept) < self.CONNECTIONS:
            kept.append(engine.connections._idle.pop())
        engine.close()

    def close_kept(self) -> None:
        for connection in self._connections.pop(os.getpid(), ()):
            connection.disconnect()

    def discard(self, address: str) -> None:
        from tests.support import servers

        servers.drop(address)


# -- The toy engine: a store is a place in a dictionary, which no other process reaches.

_toys: dict[str, MemoryStore] = {}


def _create_toy(folder: Path) -> str:
    _toys[str(folder)] = MemoryStore()
    return str(folder)


TOY = Kind(
    _create_toy,
    lambda address: cast(Engine, MemoryEngine(_toys[address])),
    lambda engine, _: engine.close(),
    _toys.__delitem__,
    lambda address: f"toy://{address}",
    has=(),
)


_schemas, _prefixes = _Schemas(), _Prefixes()
_EVERY_KIND = {
    "sqlite": Kind(
        _create_sqlite, _open_sqlite, lambda engine, _: engine.close(), lambda _: None, lambda path: f"sqlite:///{path}"
    ),
    "postgres": Kind(_schemas.take, _schemas.open, _schemas.close, _schemas.give_back, lambda address: address),
    "redis": Kind(_prefixes.create, _prefixes.open, _prefixes.close, _prefixes.discard, lambda address: address),
}


def _asked_for() -> list[str]:
    names = os.environ.get("HEADRACE_TEST_ENGINES", "").replace(",", " ").split() or list(_EVERY_KIND)
    if unknown := set(names) - set(_EVERY_KIND):
        raise ValueError(f"HEADRACE_TEST_ENGINES: {sorted(unknown)} is not among {list(_EVERY_KIND)}")
    return names


def close_kept_connections() -> None:
    """At the end of a test process."""
    _schemas.close_kept()
    _prefixes.close_kept()


KINDS: dict[str, Kind] = {name: _EVERY_KIND[name] for name in _asked_for()}


@contextmanager
def empty_store(kind: str, folder: Path) -> Iterator[str]:
    """The URL of an empty store, for an app; of SQLite it is in memory."""
    if kind == "sqlite":
        yield "memory://"
        return
    address = KINDS[kind].create(folder)
    yield KINDS[kind].url(address)
    KINDS[kind].discard(address)


def kind_of(name: str) -> Kind:
    """The engine of this name, also the toy."""
    return TOY if name == "toy" else KINDS[name]


class StoreUnderTest:
    """One empty store, which any number of engines and processes may open."""

    def __init__(self, kind: str, folder: Path, at_end: ExitStack) -> None:
        self._kind = kind
        self._at_end = at_end
        self.folder = folder
        self.address = kind_of(kind).create(folder)
        at_end.callback(kind_of(kind).discard, self.address)

    def open(self) -> Engine:
        """One more engine on this store, with connections of its own."""
        kind = kind_of(self._kind)
        engine = kind.open(self.address)
        self._at_end.callback(kind.close, engine, self.address)
        return engine

    def has(self, part: str) -> bool:
        """Whether the engine has this part."""
        has = kind_of(self._kind).has
        return has is None or part in has

    def send(self, act: str, *arguments: object) -> Actor:
        """Start another process that does this act."""
        actor = Actor(self._kind, self.address, act, *arguments)
        self._at_end.callback(actor.close)
        return actor

    def dead_letters(self) -> list[DeadLetter]:
        rows = sorted(
            self.open().dead_letters.find(DeadLetterFilter(), 100_000, oldest_first=True),
            key=lambda row: (row.entered_at, row.job_id),
        )
        return [DeadLetter(row.job_id, row.reason, row.status, msgspec.json.decode(row.snapshot)) for row in rows]


def new_store(kind: str, at_end: ExitStack) -> StoreUnderTest:
    """An empty store in a folder of its own, for where no fixture makes one; both go with the stack."""
    folder = at_end.enter_context(tempfile.TemporaryDirectory(prefix="hr-", ignore_cleanup_errors=True))
    return StoreUnderTest(kind, Path(folder), at_end)
