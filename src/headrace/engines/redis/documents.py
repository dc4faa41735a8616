"""The versioned documents in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.documents import Document
from headrace.engines.redis import serialization
from headrace.engines.redis.script_loader import load
from headrace.engines.shared.operation_timing import timed_part

if TYPE_CHECKING:
    from headrace.engines.redis.connections import Value
    from headrace.engines.redis.queries import RedisDatabase

_put, _remove = load("documents/put"), load("documents/remove")
_drop, _browse = load("documents/drop"), load("documents/browse")


@timed_part
class RedisDocumentStore:
    """Reads and writes documents."""

    def __init__(self, database: RedisDatabase) -> None:
        self._database = database

    def get(self, kind: str, keys: Sequence[str]) -> list[Document]:
        self._database.prepare()
        if not keys:
            return []
        sorted_keys = sorted(set(keys))
        stored = self._database.connections.command(
            "HMGET", f"{{{self._database.prefix}}}:documents:{kind}", *sorted_keys
        )
        return [
            _document(kind, key, found) for key, found in zip(sorted_keys, stored, strict=True) if found is not None
        ]

    def browse(
        self, kind: str, first: str = "", last: str | None = None, limit: int = 1000, *, newest_first: bool = False
    ) -> list[Document]:
        self._database.prepare()
        ends = (f"[{first}" if first else "-", "+" if last is None else f"({last}")
        range_args = ("ZREVRANGEBYLEX", *ends[::-1]) if newest_first else ("ZRANGEBYLEX", *ends)
        args: tuple[Value, ...] = (kind, *range_args, limit)
        answer = self._database.connections.run(_browse, *args, repeat=args)
        stored = zip(answer[::2], answer[1::2], strict=True)
        return [_document(kind, serialization.text(key), found) for key, found in stored if found is not None]

    def put(self, documents: Sequence[Document]) -> bool:
        self._database.prepare()
        args: list[Value] = []
        for document in documents:
            args += [document.kind, document.key, document.version, document.value]
        return not documents or bool(self._database.connections.run(_put, *args))

    def remove(self, documents: Sequence[Document]) -> bool:
        self._database.prepare()
        args: list[Value] = []
        for document in documents:
            args += [document.kind, document.key, document.version]
        return not documents or bool(self._database.connections.run(_remove, *args))

    def drop(self, kind: str, before: str, limit: int) -> int:
        self._database.prepare()
        return int(self._database.connections.run(_drop, kind, before, limit)) if limit > 0 else 0

    def kinds(self, prefix: str = "") -> list[str]:
        self._database.prepare()
        found = self._database.connections.command("ZRANGE", f"{{{self._database.prefix}}}:document_kinds", 0, -1)
        return [kind for kind in map(serialization.text, found) if kind.startswith(prefix)]


def _document(kind: str, key: str, stored: bytes) -> Document:
    version, _, value = stored.partition(b" ")
    return Document(kind, key, int(version) if version.isdigit() else 0, serialization.text(value))
