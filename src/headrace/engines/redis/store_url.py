"""Redis URLs: the server's address, our user there, and the prefix of our keys.

    redis://user:password@host:6379/0?prefix=headrace       rediss:// the same over TLS; valkey:// and valkeys:// too
    unix:///run/redis.sock?db=0                             a socket of this host (also redis+unix://)
    redis+sentinel://user:password@one:26379,two/mymaster/0 the current master of this service
    redis+cluster://one:6379,two:6379                       the node of a cluster that holds our slot

It needs no client library, and never shows a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlencode

from msgspec import Struct

from headrace.errors import ConfigError

Kind = Literal["server", "socket", "sentinel", "cluster"]

_SCHEMES: dict[str, tuple[Kind, bool]] = {
    "redis": ("server", False),
    "rediss": ("server", True),
    "valkey": ("server", False),
    "valkeys": ("server", True),
    "unix": ("socket", False),
    "redis+unix": ("socket", False),
    "redis+sentinel": ("sentinel", False),
    "rediss+sentinel": ("sentinel", True),
    "redis+cluster": ("cluster", False),
    "rediss+cluster": ("cluster", True),
}
_PORTS = {"server": 6379, "sentinel": 26379, "cluster": 6379, "socket": 0}
_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")
_PREFIX = re.compile(r"[A-Za-z0-9._-]+")
_HOST = re.compile(r"(\[[^\[\]]+\]|[^\[\]:,]+)(?::(\d+))?")
_HIDDEN = "***"


class RedisUrl(Struct, frozen=True):
    """A parsed URL. `shown` is the URL without its secrets."""

    shown: str
    kind: Kind
    hosts: tuple[tuple[str, int], ...]
    path: str
    service: str
    db: int
    username: str | None
    password: str | None
    prefix: str
    tls: dict[str, str] | None
    connect_timeout: float
    timeout: float
    max_connections: int
    sentinel_username: str | None = None
    sentinel_password: str | None = None

    def __repr__(self) -> str:
        return f"<Address {self.shown}>"


def parse(url: str) -> RedisUrl:
    """The parsed URL; ConfigError names the mistake."""
    scheme, _, rest = url.partition("://")
    where, _, query = rest.partition("?")
    user, where = _credentials(where)
    given = dict(parse_qsl(query, keep_blank_values=True))
    shown = _shown(scheme, user, where, given)
    if scheme not in _SCHEMES:
        raise ConfigError(f"url {shown}: {scheme!r} is not known; use one of {', '.join(_SCHEMES)}")
    kind, secure = _SCHEMES[scheme]
    username, _, password = user.partition(":")
    hosts, path = ("", where) if kind == "socket" else where.partition("/")[::2]
    options = _Options(shown, kind, secure, given)
    service, db = _service_and_db(shown, kind, path, options)
    return RedisUrl(
        shown=shown,
        kind=kind,
        hosts=_hosts(shown, kind, hosts),
        path=_socket_path(shown, path) if kind == "socket" else "",
        service=service,
        db=db,
        username=unquote(username) or None,
        password=unquote(password) or None,
        prefix=options.prefix(),
        tls={name: given[name] for name in _TLS if name in given} if secure else None,
        connect_timeout=options.number("connect_timeout", 5),
        timeout=options.number("timeout", 15),
        max_connections=int(options.number("max_connections", 50)),
        sentinel_username=given.get("sentinel_username"),
        sentinel_password=given.get("sentinel_password"),
    )


def _credentials(where: str) -> tuple[str, str]:
    # Up to the last @: a password that should have been quoted must not show up as part of a host.
    if where.startswith("/") or "@" not in where:
        return "", where
    user, _, rest = where.rpartition("@")
    return user, rest


def _shown(scheme: str, user: str, where: str, given: Mapping[str, str]) -> str:
    name, colon, _ = user.partition(":")
    who = f"{name}{colon}{_HIDDEN if colon else ''}@" if user else ""
    query = urlencode({key: _HIDDEN if "password" in key else value for key, value in given.items()}, safe="*/")
    return f"{scheme}://{who}{where}" + (f"?{query}" if query else "")


class _Options:
    """The query of a URL; an unknown option is an error that names it."""

    def __init__(self, shown: str, kind: Kind, secure: bool, given: Mapping[str, str]) -> None:
        known = {"prefix", "connect_timeout", "timeout", "max_connections"}
        known |= set(_TLS) if secure else set()
        known |= {"sentinel_username", "sentinel_password"} if kind == "sentinel" else set()
        known |= {"db"} if kind == "socket" else set()
        if unknown := sorted(set(given) - known):
            raise ConfigError(
                f"url {shown}: {', '.join(unknown)} is not known here; known are {', '.join(sorted(known))}"
            )
        self._shown = shown
        self._given = given

    def prefix(self) -> str:
        value = self._given.get("prefix", "headrace")
        if not _PREFIX.fullmatch(value):
            raise ConfigError(f"url {self._shown}: prefix takes letters, digits and - _ .")
        return value

    def number(self, name: str, default: float) -> float:
        text = self._given.get(name)
        if text is None:
            return default
        if not re.fullmatch(r"\d{1,6}(\.\d+)?", text) or float(text) <= 0:
            raise ConfigError(f"url {self._shown}: {name} takes a number above zero, not {text!r}")
        return float(text)

    def db(self, text: str | None) -> int:
        text = self._given.get("db") if text is None else text
        if text and not re.fullmatch(r"\d{1,5}", text):
            raise ConfigError(f"url {self._shown}: the database is a number, not {text!r}")
        return int(text or 0)


def _service_and_db(shown: str, kind: Kind, path: str, options: _Options) -> tuple[str, int]:
    if kind == "socket":
        return "", options.db(None)
    if kind == "sentinel":
        service, _, number = path.partition("/")
        if not service:
            raise ConfigError(f"url {shown}: name the service that the sentinels watch, as in …@host:26379/mymaster/0")
        return unquote(service), options.db(number)
    db = options.db(path)
    if kind == "cluster" and db:
        raise ConfigError(f"url {shown}: a cluster has only database 0; separate stores by ?prefix=")
    return "", db


def _hosts(shown: str, kind: Kind, text: str) -> tuple[tuple[str, int], ...]:
    if kind == "socket":
        return ()
    found = [_HOST.fullmatch(part) for part in (text or "localhost").split(",")]
    if kind == "server" and len(found) > 1:
        raise ConfigError(f"url {shown}: several hosts are for redis+sentinel:// and redis+cluster://")
    hosts = []
    for match in found:
        if match is None or int(match[2] or 1) > 65535:
            raise ConfigError(f"url {shown}: a host should look like name, name:6379 or [::1]:6379")
        hosts.append((unquote(match[1]).strip("[]"), int(match[2] or _PORTS[kind])))
    return tuple(hosts)


def _socket_path(shown: str, text: str) -> str:
    path = unquote(text)
    if not path.startswith("/"):
        raise ConfigError(f"url {shown}: a socket has an absolute path, as in unix:///run/redis.sock")
    return path
