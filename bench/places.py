"""Where stores are made: files of SQLite, schemas of a PostgreSQL, prefixes of a Redis.

The two servers are those of the tests, started for the run on this machine, unless $HEADRACE_TEST_POSTGRES or
$HEADRACE_TEST_REDIS name others. PostgreSQL has its default durability, so each commit waits for the disk; Redis
writes its log once a second, as our documentation asks for it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import urlsplit

Engine = Literal["sqlite", "postgres", "redis"]
ENGINES: tuple[Engine, ...] = ("sqlite", "postgres", "redis")
_DATABASE_OF_PEERS = 15
_PATIENCE = 60.0
_CONNECTIONS = 400  # for 64 workers, with up to four each


class Place(Protocol):
    """Makes stores of one engine and removes them."""

    engine: Engine

    def new_store(self) -> str:
        """The URL of a store that does not exist yet."""
        ...

    def drop(self, url: str) -> None: ...

    def rest(self, url: str) -> None:
        """Let the store do now what it would do behind our back while we measure."""
        ...

    def size(self, url: str) -> int:
        """Bytes the store takes, of disk or of memory."""
        ...

    def for_peer(self) -> contextlib.AbstractContextManager[str]:
        """An empty database for somebody who does not share."""
        ...

    def fact(self) -> str:
        """Version and durability, for the head of the report."""
        ...


class SqliteFiles:
    """A file for each store."""

    engine: Engine = "sqlite"

    def __init__(self, folder: Path, durability: str) -> None:
        self._folder = folder
        self._durability = durability
        self._numbers = itertools.count(1)

    def new_store(self) -> str:
        # A short name: the doorbell's sockets lie below it and their paths have a limit.
        return f"sqlite:///{self._folder / f'{next(self._numbers)}.db'}"

    def drop(self, url: str) -> None:
        path = Path(url.removeprefix("sqlite:///"))
        for left in path.parent.glob(f"{path.name}*"):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)

    def rest(self, url: str) -> None:
        pass  # it does nothing behind our back

    def size(self, url: str) -> int:
        path = Path(url.removeprefix("sqlite:///"))
        return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*") if file.is_file())

    @contextlib.contextmanager
    def for_peer(self) -> Iterator[str]:
        url = self.new_store()
        try:
            yield url
        finally:
            self.drop(url)

    def fact(self) -> str:
        return f"{sqlite3.sqlite_version}, durability {self._durability}"


class PostgresSchemas:
    """A schema for each store, a database for each peer."""

    engine: Engine = "postgres"

    def __init__(self) -> None:
        from tests.support import servers

        self._servers = servers
        named = os.environ.get("HEADRACE_TEST_POSTGRES")
        self._url = named or servers.PostgresServer(durable=True, connections=_CONNECTIONS).start().url
        self._where = "a named server" if named else "this machine"

    def new_store(self) -> str:
        return f"{self._url}{'&' if '?' in self._url else '?'}schema={_new_name()}"

    def drop(self, url: str) -> None:
        self._servers.drop(url)

    def rest(self, url: str) -> None:
        from psycopg import errors

        from headrace.engines.postgres.statements import qualified
        from headrace.engines.postgres.store_url import PostgresUrl

        db = self._servers.postgres_connection(url)
        db.execute(qualified("VACUUM (ANALYZE) headrace_jobs, headrace_ids", PostgresUrl(url).schema))
        with contextlib.suppress(errors.InsufficientPrivilege):  # at a named server
            # Whatever is changed first after it costs a whole page: few or many jobs, it is the same for both.
            db.execute("CHECKPOINT")

    def size(self, url: str) -> int:
        from headrace.engines.postgres.store_url import PostgresUrl

        row = self._servers.postgres_connection(url).execute(_POSTGRES_SIZE, [PostgresUrl(url).schema]).fetchone()
        assert row is not None
        return int(row[0])

    @contextlib.contextmanager
    def for_peer(self) -> Iterator[str]:
        from psycopg import sql

        db, name = self._servers.postgres_connection(self._url), _new_name()
        db.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield urlsplit(self._url)._replace(path=f"/{name}").geturl()
        finally:
            db.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def fact(self) -> str:
        row = self._servers.postgres_connection(self._url).execute(_POSTGRES_FACTS).fetchone()
        assert row is not None
        version, fsync, commit = row
        return f"{version}, fsync {fsync}, synchronous_commit {commit}, on {self._where}"


class RedisPrefixes:
    """A prefix for each store, and a database of their own for the peers, who know no prefixes."""

    engine: Engine = "redis"

    def __init__(self) -> None:
        from tests.support import servers

        self._servers = servers
        named = os.environ.get("HEADRACE_TEST_REDIS")
        self._url = named or servers.RedisServer().start().url
        self._used_before: dict[str, int] = {}
        self._where = "a named server" if named else "this machine"

    def new_store(self) -> str:
        url = f"{self._url}{'&' if '?' in self._url else '?'}prefix={_new_name()}"
        self._used_before[url] = self._used()
        return url

    def drop(self, url: str) -> None:
        self._servers.drop(url)
        client, until = self._servers.redis_connection(url), time.monotonic() + _PATIENCE
        while client.info("memory")["lazyfree_pending_objects"] and time.monotonic() < until:
            time.sleep(0.1)  # the size of the next store is what the server has grown by

    def rest(self, url: str) -> None:
        client, until = self._servers.redis_connection(url), time.monotonic() + _PATIENCE
        while client.info("persistence")["aof_rewrite_in_progress"] and time.monotonic() < until:
            time.sleep(0.1)

    def size(self, url: str) -> int:
        """What the server has grown by since the store was new: stores that live at the same time share it."""
        return max(0, self._used() - self._used_before.get(url, 0))

    def _used(self) -> int:
        return int(self._servers.redis_connection(self._url).info("memory")["used_memory"])

    @contextlib.contextmanager
    def for_peer(self) -> Iterator[str]:
        url = urlsplit(self._url)._replace(path=f"/{_DATABASE_OF_PEERS}").geturl()
        client = self._servers.redis_connection(url)
        if client.dbsize():
            raise AssertionError(f"database {_DATABASE_OF_PEERS} of the named Redis is in use; peers would share it")
        try:
            yield url
        finally:
            client.flushdb()

    def fact(self) -> str:
        told = self._servers.redis_connection(self._url).info()
        log = self._servers.redis_connection(self._url).config_get("append*")
        return (
            f"{told['redis_version']}, appendonly {log['appendonly']}, appendfsync {log['appendfsync']}, "
            f"on {self._where}"
        )


_POSTGRES_FACTS = """SELECT current_setting('server_version'), current_setting('fsync'),
    current_setting('synchronous_commit')"""
_POSTGRES_SIZE = """SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind IN ('r', 'm')"""


def open_place(engine: Engine, folder: Path, durability: str) -> Place:
    """The place of an engine, with its server running."""
    if engine == "sqlite":
        return SqliteFiles(folder, durability)
    return PostgresSchemas() if engine == "postgres" else RedisPrefixes()


def stop_servers() -> None:
    """End the servers that were started for the run."""
    from tests.support import servers

    servers.stop_all()


def _new_name() -> str:
    return f"bench_{secrets.token_hex(6)}"
