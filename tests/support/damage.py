"""Damages one stored value behind an engine's back: some of its bits or its end, as a bad disk or a wrong tool does."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec

# What makes a store one, and so no record of it: its layout, its name, its last number.
_NO_RECORDS = {"version", "store", "seq", "headrace_schema", "headrace_store", "headrace_migrations"}


class Value(NamedTuple):
    """One stored value. `kind` is its table and column, or the kind of its key."""

    kind: str
    held: Any
    put: Callable[[Any], None]
    job: str | None = None  # the id of the job whose own record it is of


def values_of(url: str) -> list[Value]:
    """Every value of the records of a store."""
    if url.startswith("sqlite"):
        return list(_of_sqlite(url.removeprefix("sqlite:///")))
    return list(_of_postgres(url) if url.startswith("postgres") else _of_redis(url))


def spoil(held: Any, chance: random.Random) -> Any:
    """The value with some bits changed, or cut short."""
    if isinstance(held, bool):
        return not held
    if isinstance(held, int) and chance.random() < 0.1:
        return "7x"  # as only SQLite takes it
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
                        job = record["id"] if table == "headrace_jobs" else None
                        yield Value(f"{table}.{name}", held, _sqlite_writer(path, table, name, key), job)


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
            job = row[names[1:].index("id")] if table == "headrace_jobs" else None
            for name, held in zip(names[1:], row, strict=True):
                if isinstance(held, bool | int | str | bytes):
                    put = _postgres_writer(db, f'"{schema}"."{table}"', name, place)
                    yield Value(f"{table}.{name}", held, put, job)


def _postgres_writer(db: Any, table: str, column: str, place: str) -> Callable[[Any], None]:
    def put(held: Any) -> None:
        value = held.replace("\0", "") if isinstance(held, str) else held
        db.execute(f"UPDATE {table} SET {column} = %s WHERE ctid = %s::tid", [value, place])

    return put


# -- Redis


def _of_redis(url: str) -> Iterator[Value]:
    from tests.support import servers

    [prefix] = parse_qs(urlsplit(url).query)["prefix"]
    client: Any = servers.redis_connection(url)
    names = {number: job_id.decode() for job_id, number in client.hgetall(f"{{{prefix}}}:ids").items()}
    for key in sorted(client.scan_iter(match=f"{{{prefix}}}:*", count=1000)):
        kind = key.decode()[len(prefix) + 3 :].partition(":")[0]
        if kind not in _NO_RECORDS:
            yield from _of_key(client, key, kind, names if kind in ("jobs", "payloads") else {})


def _of_key(client: Any, key: bytes, kind: str, names: dict[bytes, str]) -> Iterator[Value]:
    read, write = _ACCESS[client.type(key)]
    for place, held in read(client, key):
        yield Value(kind, held, partial(write, client, key, place, held), names.get(place))


def _put_field(client: Any, key: bytes, field: Any, _: bytes, new: bytes) -> None:
    client.hset(key, field, new)


def _put_item(client: Any, key: bytes, place: Any, _: bytes, new: bytes) -> None:
    client.lset(key, place, new)


def _put_scored(client: Any, key: bytes, score: Any, held: bytes, new: bytes) -> None:
    client.zrem(key, held)
    client.zadd(key, {new: score})


def _put_member(client: Any, key: bytes, _: Any, held: bytes, new: bytes) -> None:
    client.srem(key, held)
    client.sadd(key, new)


def _put_text(client: Any, key: bytes, _: Any, __: bytes, new: bytes) -> None:
    client.set(key, new)


def _put_page(client: Any, key: bytes, place: Any, _: bytes, new: bytes) -> None:
    entries = client.xrange(key)
    client.delete(key)
    for entry, fields in entries:
        client.xadd(key, {**fields, b"page": new} if entry == place else fields, id=entry)


# By the type of a key: its values, each with its place, and how to write one.
_ACCESS: dict[bytes, tuple[Callable[..., Iterable[tuple[Any, bytes]]], Callable[..., None]]] = {
    b"hash": (lambda client, key: client.hgetall(key).items(), _put_field),
    b"list": (lambda client, key: enumerate(client.lrange(key, 0, -1)), _put_item),
    b"zset": (lambda client, key: [each[::-1] for each in client.zrange(key, 0, -1, withscores=True)], _put_scored),
    b"set": (lambda client, key: [(None, held) for held in client.smembers(key)], _put_member),
    b"stream": (lambda client, key: [(at, fields[b"page"]) for at, fields in client.xrange(key)], _put_page),
    b"string": (lambda client, key: [(None, client.get(key))], _put_text),
}


# -- one field of one job

_OF_BODY = ("payload", "checksum", "options", "tags", "metadata", "mark", "unique_key")


def put_field(url: str, job_id: str, field: str, new: Any) -> None:
    """Give a job this value in place of what is stored."""
    if url.startswith(("redis", "unix")):
        [body] = [value for value in values_of(url) if value.kind == "payloads" and value.job == job_id]
        fields = msgspec.msgpack.decode(b"\x97" + body.held)
        fields[_OF_BODY.index(field)] = new
        body.put(msgspec.msgpack.encode(fields)[1:])
    elif url.startswith("postgres"):
        from tests.support import servers

        [schema] = parse_qs(urlsplit(url).query)["schema"]
        statement = f'UPDATE "{schema}".headrace_jobs SET {field} = %s WHERE id = %s'
        servers.postgres_connection(url).execute(statement, [new, job_id])
    else:
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as file:
            file.execute(f"UPDATE headrace_jobs SET {field} = ? WHERE id = ?", [new, job_id])
