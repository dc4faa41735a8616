"""The servers the suite starts for itself: they are apart, they come back, and they leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
import redis

from tests.support import servers
from tests.support.daemon import ServerFailed
from tests.support.proxy import Proxy
from tests.support.servers import PostgresServer, RedisServer
from tests.support.waiting import PATIENCE, eventually

ROOT = Path(__file__).parents[3]


def name_in(url: str) -> str:
    [(_, [name])] = parse_qs(urlsplit(url).query).items()
    return name


def test_a_schema_is_dropped_with_its_tables_and_its_neighbor_stays() -> None:
    own, other = servers.postgres_url(), servers.postgres_url()
    db = servers.postgres_connection(own)
    for url in (own, other):
        db.execute(f"CREATE SCHEMA {name_in(url)} CREATE TABLE kept (n int)")
    servers.drop(own)
    found = db.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 't\\_%'").fetchall()
    assert (name_in(other),) in found
    assert (name_in(own),) not in found
    servers.drop(other)


def test_a_database_of_its_own_is_empty_and_is_dropped_while_in_use() -> None:
    url = servers.postgres_url(own_database=True)
    with psycopg.connect(url) as db:
        assert db.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
        servers.drop(url)
        with pytest.raises(psycopg.OperationalError):
            db.execute("SELECT 1")


def test_the_role_is_no_superuser() -> None:
    db = servers.postgres_connection(servers.postgres_url())
    assert db.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (False,)


def test_a_prefix_is_dropped_and_its_neighbor_stays() -> None:
    own, other = servers.redis_url(), servers.redis_url()
    client = servers.redis_connection(own)
    for url in (own, other):
        client.mset({f"{{{name_in(url)}}}:{n}": "x" for n in range(10_000)})
    servers.drop(own)
    assert not client.keys(f"*{name_in(own)}*")
    assert len(client.keys(f"*{name_in(other)}*")) == 10_000
    servers.drop(other)


@pytest.mark.slow
def test_postgres_comes_back_with_all_it_had_however_it_ended() -> None:
    with PostgresServer() as server:
        endings: list[Callable[[], None]] = [server.stop, lambda: server.stop("immediate"), server.kill]
        with psycopg.connect(server.url) as db:
            db.execute("CREATE TABLE kept (n int)")
        for n, end in enumerate(endings):
            with psycopg.connect(server.url) as db:
                db.execute("INSERT INTO kept VALUES (%s)", [n])
            end()
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(server.url)
            server.start()
        with psycopg.connect(server.socket_url) as db:
            assert db.execute("SELECT n FROM kept ORDER BY n").fetchall() == [(0,), (1,), (2,)]
            assert db.execute("SHOW fsync").fetchone() == ("on",)


def test_redis_comes_back_with_all_it_had_when_it_ended_in_order() -> None:
    with RedisServer() as server:
        with redis.Redis.from_url(server.url) as client:
            client.set("kept", "1")
            server.restart()
            assert client.get("kept") == b"1"
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        server.kill()
        with redis.Redis.from_url(server.url, retry=None) as client, pytest.raises(redis.ConnectionError):
            client.ping()
        server.start()


_RUN = """
import os, signal, sys
from tests.support import servers
servers.postgres_url(), servers.redis_url()
for server in servers._servers:
    print(server._daemon.folder, server._daemon.process.pid, flush=True)
if sys.argv[1] == "exit":
    sys.exit()
if sys.argv[1] == "abort":
    os._exit(1)
os.kill(os.getpid(), int(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["exit", "abort", str(signal.SIGINT.value), str(signal.SIGTERM.value), "9"])
def test_nothing_is_left_of_a_run_however_it_ends(ending: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _RUN, ending],
        env={**os.environ, "PYTHONPATH": str(ROOT), "HEADRACE_TEST_POSTGRES": "", "HEADRACE_TEST_REDIS": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    left = [line.split() for line in run.stdout.splitlines()]
    assert len(left) == 2, "it started two servers"
    for folder, pid in left:
        eventually(partial(_is_gone, Path(folder), int(pid)), "the end of a server and its folder")


def _is_gone(folder: Path, pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, 0)
        # It may be dead and yet listed, if its new parent does not wait for it.
        return ") Z " in Path(f"/proc/{pid}/stat").read_text() and not folder.exists()
    return not folder.exists()


def test_a_missing_server_is_reported_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with contextlib.closing(RedisServer()) as server, pytest.raises(ServerFailed, match="HEADRACE_TEST_REDIS"):
        server.start()


_GUEST = """
from tests.support import servers
url = servers.redis_url()
client = servers.redis_connection(url)
client.set("{" + url.split("prefix=")[1] + "}:left", 1)
assert len(client.keys("*")) == 2
assert servers._servers == []
"""


def test_a_named_server_is_used_and_what_was_left_there_is_removed() -> None:
    with RedisServer() as server, redis.Redis.from_url(server.url) as client:
        client.set("theirs", 1)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "HEADRACE_TEST_REDIS": server.url}
        subprocess.run([sys.executable, "-c", _GUEST], env=environment, check=True)
        assert client.keys("*") == [b"theirs"]


# -- the proxy


class Echo:
    """A server that answers with what it receives."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                wire, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=[wire], daemon=True).start()

    @staticmethod
    def _talk(wire: socket.socket) -> None:
        with wire, contextlib.suppress(ConnectionError):
            while data := wire.recv(65536):
                wire.sendall(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # closed already
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    echo = Echo()
    yield echo
    echo.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy(echo.port) as proxy:
        yield proxy


@pytest.fixture
def wire(proxy: Proxy) -> Iterator[socket.socket]:
    with _connected(proxy) as wire:
        yield wire


def _connected(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE)


def hears(wire: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size and (more := wire.recv(65536)):
        received += more
    return received


def test_a_proxy_forwards_whatever_comes(proxy: Proxy, wire: socket.socket) -> None:
    much = os.urandom(3_000_000)
    threading.Thread(target=wire.sendall, args=[much]).start()
    assert hears(wire, len(much)) == much
    assert (proxy.connections, proxy.open_connections) == (1, 1)
    wire.close()
    eventually(lambda: proxy.open_connections == 0, "the end of the connection")


def test_a_cut_resets_and_a_new_connection_is_welcome(proxy: Proxy, wire: socket.socket) -> None:
    wire.sendall(b"one")
    assert hears(wire, 3) == b"one"
    proxy.cut()
    assert proxy.open_connections == 0
    with pytest.raises(ConnectionResetError):
        wire.recv(1)
    with _connected(proxy) as again:
        again.sendall(b"two")
        assert hears(again, 3) == b"two"


def test_a_paused_proxy_accepts_and_says_nothing(proxy: Proxy, wire: socket.socket) -> None:
    wire.sendall(b"one")
    assert hears(wire, 3) == b"one"
    proxy.pause()
    with _connected(proxy) as late:
        for each in (wire, late):
            each.sendall(b"two")
            each.settimeout(0.05)
            with pytest.raises(TimeoutError):
                each.recv(1)
            each.settimeout(PATIENCE)
        proxy.resume()
        assert (hears(wire, 3), hears(late, 3)) == (b"two", b"two")


def test_a_paused_proxy_may_be_cut(proxy: Proxy, wire: socket.socket) -> None:
    proxy.pause()
    wire.sendall(b"one")
    eventually(lambda: proxy.open_connections == 1, "the connection")
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        wire.recv(1)


def test_a_proxy_that_refuses_keeps_what_is_open(proxy: Proxy, wire: socket.socket) -> None:
    wire.sendall(b"one")
    assert hears(wire, 3) == b"one"
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        _connected(proxy)
    wire.sendall(b"two")
    assert hears(wire, 3) == b"two"
    proxy.accept_again()
    _connected(proxy).close()


def test_a_proxy_before_a_server_that_is_down_resets(proxy: Proxy, echo: Echo) -> None:
    echo.close()
    with pytest.raises(ConnectionResetError), _connected(proxy) as wire:  # it may be quicker than our own call
        wire.recv(1)


def test_a_url_keeps_all_but_its_place(proxy: Proxy) -> None:
    assert (
        proxy.through("redis://:secret@localhost:1/0?prefix=x") == f"redis://:secret@127.0.0.1:{proxy.port}/0?prefix=x"
    )


def test_a_store_is_reached_through_a_proxy() -> None:
    url = servers.postgres_connection(servers.postgres_url()).info
    with Proxy(url.port) as proxy, psycopg.connect(proxy.through(servers._postgres.url())) as db:
        assert db.execute("SELECT 1").fetchone() == (1,)
        proxy.cut()
        with pytest.raises(psycopg.OperationalError):
            db.execute("SELECT 1")
