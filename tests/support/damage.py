"""Damages one stored value behind an engine's back: a few of its bytes, or its end, as a bad disk or a wrong tool does."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

# What makes a store one, and so no record of it: its layout, its name, its last number.
_NO_RECORDS = {"schema", "store", "seq", "headrace_schema", "headrace_store", "headrace_migrations"}


class Value(NamedTuple):
    """One stored value. `kind` is its table and column, or the kind of its key."""

    kind: str
    held: Any
    put: Callable[[Any], None]


def values_of(url: str) -> list[Value]:
    """Every value of the records of a store."""
    if url.startswith("sqlite"):
        return list(_of_sqlite(url.removeprefix("sqlite:///")))
    return list(_of_postgres(url) if url.startswith("postgres") else _of_redis(url))


def spoil(held: Any, chance: random.Random) -> Any:
    """The value with some bits changed, or cut short."""
    if isinstance(held, bool):
        return not held
    if isinstance(held, int):
        return _as_int64(held ^ (1 << chance.randrange(63)) ^ (chance.getrandbits(63) if chance.random() < 0.3 else 0))
    if isinstance(held, str):
        return _spoiled(held.encode(), chance).decode("latin-1")
    return _spoiled(held, chance)


def _spoiled(held: bytes, chance: random.Random) -> bytes:
    way = chance.randrange(4)
    if way == 0 or not held:
        return held[: chance.randrange(len(held))] if held else b"\xff"
    if way == 1:
        return held[len(held) // 2 :] + held[: len(held) // 2]
    changed = bytearray(held)
    for _ in range(chance.choice((1, 1, 2, 8))):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _as_int64(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


# -- SQLite


def _of_sqlite(path: str) -> Iterator[Value]:
    with closing(sqlite3.connect(path)) as file:
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in sorted(set(tables) - _NO_RECORDS):
            columns = file.execute(f"PRAGMA table_info({table})").fetchall()
            keys = [column[1] for column in sorted(columns, key=lambda column: column[5]) if column[5]]
            for row in file.execute(f"SELECT * FROM {table}").fetchall():
                record = dict(zip([column[1] for column in columns], row, strict=True))
                for name, held in record.items():
                    if held is not None:
                        key = {key: record[key] for key in keys}
                        yield Value(f"{table}.{name}", held, _sqlite_writer(path, table, name, key))


def _sqlite_writer(path: str, table: str, column: str, key: dict[str, Any]) -> Callable[[Any], None]:
    def put(held: Any) -> None:
        where = " AND ".join(f"{name} = :key_{name}" for name in key)
        given = {f"key_{name}": value for name, value in key.items()}
        # As bytes: a text that is none can't be given otherwise.
        value = held.encode("latin-1") if isinstance(held, str) else held
        new = "CAST(:held AS TEXT)" if isinstance(held, str) else ":held"
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            file.execute(f"UPDATE {table} SET {column} = {new} WHERE {where}", {**given, "held": value})

    return put


# -- PostgreSQL


def _of_postgres(url: str) -> Iterator[Value]:
    from tests.support import servers

    [schema] = parse_qs(urlsplit(url).query)["schema"]
    db = servers.postgres_connection(url)
    tables = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema]).fetchall()
    for table in sorted({name for (name,) in tables} - _NO_RECORDS):
        found = db.execute(f'SELECT ctid::text, * FROM "{schema}"."{table}"')
        names = [column.name for column in found.description or ()]
        for place, *row in found.fetchall():
            for name, held in zip(names[1:], row, strict=True):
                if isinstance(held, bool | int | str | bytes):
                    yield Value(f"{table}.{name}", held, _postgres_writer(db, f'"{schema}"."{table}"', name, place))


def _postgres_writer(db: Any, table: str, column: str, place: str) -> Callable[[Any], None]:
    def put(held: Any) -> None:
        value = held.replace("\0", "") if isinstance(held, str) else held
        db.execute(f"UPDATE {table} SET {column} = %s WHERE ctid = %s::tid", [value, place])

    return put


# -- Redis


def _of_redis(url: str) -> Iterator[Value]:
    from tests.support import servers

    [prefix] = parse_qs(urlsplit(url).query)["prefix"]
    client = servers.redis_connection(url)
    for key in sorted(client.scan_iter(match=f"{{{prefix}}}:*", count=1000)):
        kind = key.decode()[len(prefix) + 3 :].partition(":")[0]
        if kind not in _NO_RECORDS:
            yield from _of_key(client, key, kind)


def _of_key(client: Any, key: bytes, kind: str) -> Iterator[Value]:
    match client.type(key):
        case b"hash":
            for field, held in client.hgetall(key).items():
                yield Value(kind, held, lambda new, field=field: client.hset(key, field, new))
        case b"list":
            for place, held in enumerate(client.lrange(key, 0, -1)):
                yield Value(kind, held, lambda new, place=place: client.lset(key, place, new))
        case b"zset":
            for held, score in client.zrange(key, 0, -1, withscores=True):
                yield Value(kind, held, lambda new, held=held, score=score: _replace(client, key, held, new, score))
        case b"set":
            for held in client.smembers(key):
                yield Value(kind, held, lambda new, held=held: (client.srem(key, held), client.sadd(key, new)))
        case b"stream":
            for place, fields in client.xrange(key):
                yield Value(kind, fields[b"page"], lambda new, place=place: _rewrite(client, key, place, new))
        case b"string":
            yield Value(kind, client.get(key), lambda new: client.set(key, new))


def _replace(client: Any, key: bytes, held: bytes, new: bytes, score: float) -> None:
    client.zrem(key, held)
    client.zadd(key, {new: score})


def _rewrite(client: Any, key: bytes, place: bytes, new: bytes) -> None:
    entries = client.xrange(key)
    client.delete(key)
    for entry, fields in entries:
        client.xadd(key, {**fields, b"page": new} if entry == place else fields, id=entry)
