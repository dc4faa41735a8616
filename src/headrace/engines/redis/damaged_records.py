"""Reads what is left of damaged records, and fails their jobs.

Undamaged records never come here: an answer is decoded at once, and only a failure is taken apart value by value.
"""

from __future__ import annotations

import re
import secrets
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from headrace.core.damaged_records import DAMAGE
from headrace.engines.redis.script_loader import load
from headrace.engines.shared.damaged_records import record_from, types_of, valid_values

if TYPE_CHECKING:
    from headrace.engines.redis.connections import RedisConnections

T = TypeVar("T", bound=Struct)
_fail = load("jobs/fail_damaged")
_PAGE = 1000
_AT_ONCE = 100
_ARRAY = re.compile(rb"[\x90-\x9f]|\xdc..|\xdd....", re.DOTALL)
_NUMBERS = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_PLAIN = {0xC0: None, 0xC2: False, 0xC3: True}
_TEXTS = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}


class Salvage(Generic[T]):
    """Decodes records of a kind, also damaged ones: their unreadable values are empty."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._list = msgspec.msgpack.Decoder(list[kind])  # type: ignore[valid-type]  # mypy takes it for a value

    def decode(self, stored: bytes) -> T:
        try:
            return self._decoder.decode(stored)
        except DAMAGE:
            return self.salvage(stored)[0]

    def decode_all(self, stored: bytes) -> list[T]:
        """The records of a list made by a script: their texts may be damaged, but not their lengths."""
        try:
            return self._list.decode(stored)
        except DAMAGE:
            head = _ARRAY.match(stored)
            place, found = head.end() if head else len(stored), list[T]()
        while place < len(stored):
            record = stored[place:]
            found.append(self.salvage(record)[0])
            place += _length(record, len(types_of(self._kind)))
        return found

    def salvage(self, stored: bytes) -> tuple[T, int]:
        """The record, and how many of its first values are undamaged."""
        found = valid_values(self._kind, list(values_in(stored)))
        valid_count = next(place for place in range(len(found) + 1) if place not in found)
        return record_from(
            self._kind, {place: value for place, value in found.items() if place < valid_count}
        ), valid_count


def values_in(stored: bytes) -> Iterator[Any]:
    """The values of an array, up to the first damaged one. No record contains arrays."""
    head = _ARRAY.match(stored)
    place = head.end() if head else len(stored)
    while place < len(stored):
        try:
            value, place = _value(stored, place)
        except (struct.error, IndexError, ValueError):
            return
        yield value


def _length(stored: bytes, values: int) -> int:
    """The length of the array with this many values at the beginning; all of it if that is unknown."""
    head = _ARRAY.match(stored)
    place = head.end() if head else len(stored)
    try:
        for _ in range(values):
            place = _value(stored, place)[1]
    except (struct.error, IndexError, ValueError):
        return len(stored)
    return place


def _value(stored: bytes, place: int) -> tuple[Any, int]:
    kind = stored[place]
    place += 1
    if kind <= 0x7F or kind >= 0xE0:
        return (kind if kind <= 0x7F else kind - 0x100), place
    if kind in _PLAIN:
        return _PLAIN[kind], place
    if kind in _NUMBERS:
        form = _NUMBERS[kind]
        return struct.unpack_from(form, stored, place)[0], place + struct.calcsize(form)
    if kind in _TEXTS:
        form = _TEXTS[kind]
        length, place = struct.unpack_from(form, stored, place)[0], place + struct.calcsize(form)
    elif 0xA0 <= kind <= 0xBF:
        length = kind - 0xA0
    else:
        raise ValueError("this is in no record")
    if place + length > len(stored):
        raise ValueError("its end is missing")
    return stored[place : place + length].decode("utf-8", "replace"), place + length


class DamagedRecordsHost(Protocol):
    """The engine, as far as it is needed here."""

    connections: RedisConnections
    prefix: str

    def at(self, now: int | None) -> int: ...


class Damaged:
    """The jobs of a store whose records are damaged."""

    def __init__(self, database: DamagedRecordsHost) -> None:
        self._database = database

    def fail(self, members: Iterable[bytes], now: int | None = None) -> int:
        """Fail the damaged ones of these jobs, given by number; how many there were."""
        numbers = [member for member in dict.fromkeys(members) if member.isdigit()]
        names, done = self.names(numbers), 0
        for first in range(0, len(numbers), _AT_ONCE):
            some = numbers[first : first + _AT_ONCE]
            args = [part for number in some for part in (number, names.get(number, b""))]
            done += self._database.connections.run(_fail, self._database.at(now), secrets.token_hex(8), *args)
        return done

    def fail_these(self, ids: Sequence[str]) -> int:
        """The same by ids."""
        members = self._database.connections.command("HMGET", f"{{{self._database.prefix}}}:ids", *ids) if ids else []
        return self.fail(member for member in members if member is not None)

    def names(self, members: Sequence[bytes]) -> dict[bytes, bytes]:
        """The ids of jobs by their numbers. This scans all ids: a damaged record cannot give its own."""
        wanted, found, cursor = set(members), dict[bytes, bytes](), b"0"
        while wanted:
            cursor, page = self._database.connections.command(
                "HSCAN", f"{{{self._database.prefix}}}:ids", cursor, "COUNT", _PAGE
            )
            for job_id, member in zip(page[::2], page[1::2], strict=True):
                if member in wanted:
                    found[member] = job_id
            wanted -= found.keys()
            if cursor == b"0":
                break
        return found
