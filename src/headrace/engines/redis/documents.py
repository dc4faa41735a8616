"""The shelf in Redis."""

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

_put, _remove = load("shelf_put"), load("shelf_remove")
_drop, _browse = load("shelf_drop"), load("shelf_browse")


@timed_part
class RedisDocumentStore:
    """Reads and writes papers."""

    def __init__(self, office: RedisDatabase) -> None:
        self._office = office

    def get(self, kind: str, keys: Sequence[str]) -> list[Document]:
        self._office.prepare()
        if not keys:
            return []
        asked = sorted(set(keys))
        held = self._office.wire.ask("HMGET", f"{{{self._office.prefix}}}:papers:{kind}", *asked)
        return [_paper(kind, key, found) for key, found in zip(asked, held, strict=True) if found is not None]

    def browse(
        self, kind: str, first: str = "", last: str | None = None, limit: int = 1000, *, newest_first: bool = False
    ) -> list[Document]:
        self._office.prepare()
        ends = (f"[{first}" if first else "-", "+" if last is None else f"({last}")
        way = ("ZREVRANGEBYLEX", *ends[::-1]) if newest_first else ("ZRANGEBYLEX", *ends)
        asked: tuple[Value, ...] = (kind, *way, limit)
        answer = self._office.wire.run(_browse, *asked, repeat=asked)
        held = zip(answer[::2], answer[1::2], strict=True)
        return [_paper(kind, serialization.text(key), found) for key, found in held if found is not None]

    def put(self, papers: Sequence[Document]) -> bool:
        self._office.prepare()
        told: list[Value] = []
        for paper in papers:
            told += [paper.kind, paper.key, paper.version, paper.value]
        return not papers or bool(self._office.wire.run(_put, *told))

    def remove(self, papers: Sequence[Document]) -> bool:
        self._office.prepare()
        told: list[Value] = []
        for paper in papers:
            told += [paper.kind, paper.key, paper.version]
        return not papers or bool(self._office.wire.run(_remove, *told))

    def drop(self, kind: str, before: str, limit: int) -> int:
        self._office.prepare()
        return int(self._office.wire.run(_drop, kind, before, limit)) if limit > 0 else 0

    def kinds(self, prefix: str = "") -> list[str]:
        self._office.prepare()
        found = self._office.wire.ask("ZRANGE", f"{{{self._office.prefix}}}:shelves", 0, -1)
        return [kind for kind in map(serialization.text, found) if kind.startswith(prefix)]


def _paper(kind: str, key: str, held: bytes) -> Document:
    version, _, value = held.partition(b" ")
    return Document(kind, key, int(version) if version.isdigit() else 0, serialization.text(value))
