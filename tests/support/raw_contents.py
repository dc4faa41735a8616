"""Everything that a store holds, as its server stores it: to prove that a text is nowhere."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit


def raw_contents(url: str) -> dict[str, str]:
    """The rows of each table, or the values of each key, as text."""
    match urlsplit(url).scheme:
        case "sqlite":
            return dict(_of_sqlite(Path(url.removeprefix("sqlite:///"))))
        case "redis":
            return dict(_of_redis(url))
        case _:
            return dict(_of_postgres(url))


def places_of(mark: str, url: str) -> list[str]:
    """The tables or keys with this text, in a name or a value."""
    return sorted(name for name, text in raw_contents(url).items() if mark in name or mark in text)


def _of_sqlite(path: Path) -> Iterator[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            yield table, "\n".join(map(str, db.execute(f'SELECT * FROM "{table}"')))


def _of_postgres(url: str) -> Iterator[tuple[str, str]]:
    from headrace.engines.postgres.store_url import PostgresUrl

    address = PostgresUrl(url)
    with address.connect() as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [address.schema])
        for (table,) in rows.fetchall():
            found = connection.execute(f'SELECT t::text FROM "{address.schema}"."{table}" AS t')
            yield table, "\n".join(text for (text,) in found.fetchall())


def _of_redis(url: str) -> Iterator[tuple[str, str]]:
    import redis

    prefix = parse_qs(urlsplit(url).query)["prefix"][0]
    with redis.Redis.from_url(url.partition("?")[0]) as client:
        for key in client.scan_iter(f"{{{prefix}}}:*"):
            yield key.decode(), _value(client, key)


def _value(client: Any, key: bytes) -> str:
    match client.type(key):
        case b"string":
            found = client.get(key)
        case b"hash":
            found = client.hgetall(key)
        case b"list":
            found = client.lrange(key, 0, -1)
        case b"set":
            found = client.smembers(key)
        case b"zset":
            found = client.zrange(key, 0, -1, withscores=True)
        case _:
            found = client.xrange(key)
    return json.dumps(found, default=str) if isinstance(found, str) else str(found)
