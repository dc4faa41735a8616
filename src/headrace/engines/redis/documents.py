"""The versioned documents in Redis.

A document is stored as its version, a blank and its value. A long value is compressed, with `z` instead of the blank:
metrics are hundreds of thousands of documents of some kilobytes.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.documents import Document
from headrace.engines.redis import serialization
from headrace.engines.redis.script_loader import load
from headrace.engines.shared.operation_timing import timed_part

if TYPE_CHECKING:
    from headrace.engines.redis.connections import Value
    from headrace.engines.redis.database import RedisDatabase

_put, _browse = load("documents/put"), load("documents/browse")
_COMPRESSED_FROM = 512  # characters; a shorter value gains little


@timed_part
class RedisDocumentStore:
    """Reads and writes documents."""

    def __init__(self, database: RedisDatabase) -> None:
        self._database = database

    def get(
        self,
        kind: str,
        keys: Sequence[str] | None = None,
        *,
        first: str = "",
        last: str | None = None,
        limit: int = 1000,
        newest_first: bool = False,
    ) -> list[Document]:
        self._database.prepare()
        if keys is None:
            return self._in_range(kind, first, last, limit, newest_first)
        found = self._named(kind, keys)
        return found[::-1] if newest_first else found

    def _named(self, kind: str, keys: Sequence[str]) -> list[Document]:
        if not keys:
            return []
        sorted_keys = sorted(set(keys))
        stored = self._database.connections.command(
            "HMGET", f"{{{self._database.prefix}}}:documents:{kind}", *sorted_keys
        )
        return [
            _document(kind, key, found) for key, found in zip(sorted_keys, stored, strict=True) if found is not None
        ]

    def _in_range(self, kind: str, first: str, last: str | None, limit: int, newest_first: bool) -> list[Document]:
        ends = (f"[{first}" if first else "-", "+" if last is None else f"({last}")
        range_args = ("ZREVRANGEBYLEX", *ends[::-1]) if newest_first else ("ZRANGEBYLEX", *ends)
        args: tuple[Value, ...] = (kind, *range_args, limit)
        answer = self._database.connections.run(_browse, *args, repeat=args)
        stored = zip(answer[::2], answer[1::2], strict=True)
        return [_document(kind, serialization.text(key), found) for key, found in stored if found is not None]

    def put(self, documents: Sequence[Document], delete: Sequence[Document] = ()) -> bool:
        self._database.prepare()
        args: list[Value] = [len(documents)]
        for document in documents:
            args += [document.kind, document.key, document.version, _encoded(document.value)]
        for document in delete:
            args += [document.kind, document.key, document.version]
        return len(args) == 1 or bool(self._database.connections.run(_put, *args))

    def kinds(self, prefix: str = "") -> list[str]:
        self._database.prepare()
        found = self._database.connections.command("ZRANGE", f"{{{self._database.prefix}}}:document_kinds", 0, -1)
        return [kind for kind in map(serialization.text, found) if kind.startswith(prefix)]


def _encoded(value: str) -> bytes:
    plain = value.encode()
    return b" " + plain if len(value) < _COMPRESSED_FROM else b"z" + zlib.compress(plain, 1)


def _document(kind: str, key: str, stored: bytes) -> Document:
    version, separator, value = stored.partition(b" ")
    if not version.isdigit():
        version, separator, value = stored.partition(b"z")
    if separator == b"z":
        with contextlib.suppress(zlib.error):  # damaged: its decoder will find out
            value = zlib.decompress(value)
    return Document(kind, key, int(version) if version.isdigit() else 0, serialization.text(value))
