"""The server's address and connection settings: a PostgreSQL URL with a few parameters of our own."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, unquote, urlencode

import psycopg

from headrace.errors import ConfigError

_SCHEMA = re.compile(r"(?!pg_)[A-Za-z_][A-Za-z0-9_]{0,40}")
_SWITCH = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
_SECRETS = ("password", "sslpassword")
_ENCODE = "write @ / ? # and % in a user name or password as %40 %2F %3F %23 and %25"


class PostgresUrl:
    """A parsed URL. Its `str()` and its errors never contain a password."""

    def __init__(self, url: str) -> None:
        scheme, mark, rest = url.partition("://")
        if not mark or scheme.lower() not in ("postgresql", "postgres"):
            raise ConfigError("url: it should look like postgresql://user@host/database")
        place, _, query = rest.partition("?")
        given = dict(_parameter(text) for text in query.split("&") if text)
        self.schema = given.pop("schema", "public")
        if not _SCHEMA.fullmatch(self.schema):
            raise ConfigError(
                f"url: schema {self.schema!r} must be letters, digits and _, at most 41 of them, and not begin with pg_"
            )
        self.connections = _number("connections", given.pop("connections", "10"), 2, 1000)
        self.statement_timeout = _number("statement_timeout", given.pop("statement_timeout", "30"), 1, 3600)
        self.pooler = _switch("pooler", given.pop("pooler", "off"))
        self.poll = _number("poll", given.pop("poll", "250"), 10, 60_000) / 1000
        self._conninfo = f"postgresql://{place}?{urlencode(given, quote_via=quote)}"
        self._known = _parsed(self._conninfo, place, given)

    def connect(self, **more: Any) -> psycopg.Connection[tuple[Any, ...]]:
        settings: dict[str, Any] = {name: value for name, value in _SETTINGS.items() if name not in self._known}
        if not self.pooler:  # a pooler shares sessions: others would get our settings
            limit = f"-c statement_timeout={self.statement_timeout}s -c idle_in_transaction_session_timeout=60s"
            # The last one of a name wins.
            settings["options"] = f"{limit} {_LEVEL} {_PLANNING} {self._known.get('options', '')}".strip()
        return psycopg.connect(
            self._conninfo, autocommit=True, prepare_threshold=None if self.pooler else 5, **{**settings, **more}
        )

    def __str__(self) -> str:
        known = self._known
        user = f"{quote(str(known['user']))}@" if known.get("user") else ""
        shown = {} if self.schema == "public" else {"schema": self.schema}
        place = _places(str(known.get("host") or ""), str(known.get("port") or ""))
        if str(known.get("host")).startswith("/"):
            place = ""
            shown = {name: str(known[name]) for name in ("host", "port") if known.get(name)} | shown
        query = f"?{urlencode(shown, safe='/,')}" if shown else ""
        return f"postgresql://{user}{place}/{quote(str(known.get('dbname') or ''))}{query}"


# The planner's statistics may be those of an empty store, and a prepared statement keeps a plan made then. All our
# statements are written for indexes and nested loops, so everything else is disabled, and so is JIT.
_PLANNING = "-c enable_seqscan=off -c enable_bitmapscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off"
# Whatever the database's default is: our statements are written for this level, also outside of a transaction.
_LEVEL = "-c default_transaction_isolation=read\\ committed"
_SETTINGS = {
    "connect_timeout": 5,
    "application_name": "headrace",
    "client_encoding": "utf8",  # whatever the environment or the role says: jobs are UTF-8
    # A vanished peer is noticed within half a minute.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:  # perhaps the rest of a password
        raise ConfigError(f"url: what follows the ? must be name=value; {_ENCODE}")
    return unquote(name), unquote(value)


def _parsed(conninfo: str, place: str, given: dict[str, str]) -> dict[str, Any]:
    login, at, where = place.rpartition("@")
    if "@" in login or "/" in login:  # libpq would take a part of the password for the host
        raise ConfigError(f"url: it has more than one @; {_ENCODE}")
    user, colon, _ = login.partition(":")
    harmless = {name: "***" if name in _SECRETS else value for name, value in given.items()}
    try:
        # First without the secrets: the library quotes unparsable parts.
        parse = psycopg.conninfo.conninfo_to_dict
        parse(f"postgresql://{user}{colon}{'***' if colon else ''}{at}{where}?{urlencode(harmless, quote_via=quote)}")
    except psycopg.Error as error:
        raise ConfigError(f"url: {' '.join(str(error).split())}") from None
    try:
        return parse(conninfo)
    except psycopg.Error:
        raise ConfigError(f"url: the password can't be read; {_ENCODE}") from None


def _places(hosts: str, ports: str) -> str:
    """Each host with its port; a single port applies to all hosts."""
    names = [f"[{host}]" if ":" in host else host for host in hosts.split(",")]
    numbers = ports.split(",") if "," in ports else [ports] * len(names)
    return ",".join(f"{name}:{number}" if number else name for name, number in zip(names, numbers, strict=False))


def _number(name: str, text: str, least: int, most: int) -> int:
    if not text.isdecimal() or len(text) > 9 or not least <= int(text) <= most:
        raise ConfigError(f"url: {name}={text:.20} must be a whole number from {least} to {most}")
    return int(text)


def _switch(name: str, text: str) -> bool:
    if text.lower() not in _SWITCH:
        raise ConfigError(f"url: {name}={text:.20} must be on or off")
    return _SWITCH[text.lower()]
