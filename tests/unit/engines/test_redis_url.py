"""Redis URLs: what they say, what they must not show, and what is wrong with the wrong ones."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from headrace.engines.redis.engine import RedisEngine
from headrace.engines.redis.store_url import RedisUrl, parse
from headrace.errors import ConfigError


def fields_of(address: RedisUrl, *names: str) -> tuple[Any, ...]:
    return tuple(getattr(address, name) for name in names)


@pytest.mark.parametrize(
    ("url", "hosts", "db"),
    [
        ("redis://", (("localhost", 6379),), 0),
        ("redis://ann@", (("localhost", 6379),), 0),
        ("redis://host", (("host", 6379),), 0),
        ("redis://host:7000/3", (("host", 7000),), 3),
        ("redis://[::1]:7000/3", (("::1", 7000),), 3),
        ("redis://10.0.0.1/", (("10.0.0.1", 6379),), 0),
        ("valkey://host", (("host", 6379),), 0),
    ],
)
def test_a_server_has_a_host_a_port_and_a_database(url: str, hosts: tuple[tuple[str, int], ...], db: int) -> None:
    address = parse(url)
    assert fields_of(address, "kind", "hosts", "db", "tls", "prefix") == ("server", hosts, db, None, "headrace")
    assert address.shown == url


@pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
def test_tls_takes_its_files(scheme: str) -> None:
    address = parse(f"{scheme}://host?ssl_ca_certs=/a/ca.pem&ssl_cert_reqs=none")
    assert address.tls == {"ssl_ca_certs": "/a/ca.pem", "ssl_cert_reqs": "none"}
    assert parse(f"{scheme}://host").tls == {}


@pytest.mark.parametrize("scheme", ["unix", "redis+unix"])
def test_a_socket_has_a_path(scheme: str) -> None:
    address = parse(f"{scheme}:///run/my%20redis@home.sock?db=2&prefix=x")
    assert fields_of(address, "kind", "path", "db", "prefix") == ("socket", "/run/my redis@home.sock", 2, "x")
    named = parse(f"{scheme}://ann:secret@/run/r.sock")
    assert fields_of(named, "username", "password", "path") == ("ann", "secret", "/run/r.sock")


def test_sentinels_are_several_and_watch_a_service() -> None:
    address = parse("redis+sentinel://ann:secret@one:1,two,[::1]:3/my%20service/4?sentinel_password=other")
    assert address.hosts == (("one", 1), ("two", 26379), ("::1", 3))
    assert fields_of(address, "kind", "service", "db", "password", "sentinel_password") == (
        "sentinel",
        "my service",
        4,
        "secret",
        "other",
    )


def test_a_cluster_has_several_hosts_to_begin_with() -> None:
    address = parse("rediss+cluster://one:1,two?prefix=jobs")
    assert fields_of(address, "kind", "hosts", "prefix", "tls") == ("cluster", (("one", 1), ("two", 6379)), "jobs", {})


def test_limits_may_be_set() -> None:
    usual, set_ = parse("redis://"), parse("redis://?connect_timeout=0.5&timeout=60&max_connections=7")
    assert fields_of(usual, "connect_timeout", "timeout", "max_connections") == (5.0, 15.0, 50)
    assert fields_of(set_, "connect_timeout", "timeout", "max_connections") == (0.5, 60.0, 7)


@pytest.mark.parametrize(
    ("url", "username", "password", "shown"),
    [
        ("redis://:p%40ss@host", None, "p@ss", "redis://:***@host"),
        ("redis://ann:secret@host/1", "ann", "secret", "redis://ann:***@host/1"),
        ("redis://ann@host", "ann", None, "redis://ann@host"),
        ("redis://ann:se/cr@et@host", "ann", "se/cr@et", "redis://ann:***@host"),
        ("redis+sentinel://x:1/s?sentinel_password=secret", None, None, "redis+sentinel://x:1/s?sentinel_password=***"),
    ],
)
def test_a_password_is_known_and_never_shown(url: str, username: str | None, password: str | None, shown: str) -> None:
    address = parse(url)
    assert fields_of(address, "username", "password", "shown") == (username, password, shown)
    assert "secret" not in repr(address)
    assert RedisEngine(url).url == shown


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://ann:secret@host", ["'http'", "redis+cluster"]),
        ("redis://ann:secret@host?prefex=a&b=1", ["b, prefex", "prefix"]),
        ("redis://ann:secret@host?db=1", ["db"]),
        ("redis://ann:secret@host?ssl_ca_certs=x", ["ssl_ca_certs"]),
        ("redis://ann:secret@host?sentinel_password=x", ["sentinel_password"]),
        ("redis://ann:secret@host?prefix=", ["prefix"]),
        ("redis://ann:secret@host?prefix={a}", ["prefix"]),
        ("redis://ann:secret@host?prefix=a:b", ["prefix"]),
        ("redis://ann:secret@host/x", ["database", "'x'"]),
        ("redis://ann:secret@host/-1", ["database"]),
        ("redis://ann:secret@host:x", ["host"]),
        ("redis://ann:secret@host:70000", ["host"]),
        ("redis://ann:secret@a,b", ["redis+sentinel"]),
        ("redis://ann:secret@host?timeout=soon", ["timeout", "'soon'"]),
        ("redis://ann:secret@host?timeout=0", ["timeout"]),
        ("redis+sentinel://ann:secret@host", ["service"]),
        ("redis+cluster://ann:secret@host/1", ["database 0"]),
        ("unix://ann:secret@relative.sock", ["absolute"]),
        ("unix:///r.sock?db=x", ["database"]),
    ],
)
def test_an_error_in_a_url_is_named_without_its_password(url: str, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(url)
    for part in parts:
        assert part in str(caught.value)
    assert "secret" not in str(caught.value)


def test_without_the_client_package_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['redis'] = None\n"
        "from headrace.engines.redis.engine import RedisEngine\n"
        "try: RedisEngine('redis://:secret@host')\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.startswith("ConfigError url redis://:***@host: it needs a driver")
    assert "pip install 'headrace[redis]'" in output


def test_headrace_itself_loads_nothing_of_redis() -> None:
    code = "import sys, headrace; print([name for name in sys.modules if 'redis' in name])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_a_transaction_of_the_caller_is_refused_with_the_way_out() -> None:
    with pytest.raises(
        Exception, match="enqueue after your commit, or put the queue on PostgreSQL or SQLite"
    ) as caught:
        _ = RedisEngine("redis://").joined
    assert type(caught.value).__name__ == "UnsupportedByEngine"
