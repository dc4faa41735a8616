"""How long jobs may stay, in Redis: the terms of tasks and queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from headrace.core.lifecycle import Kind, Terms, TermsRow
from headrace.engines.redis import records
from headrace.engines.redis.scripts import load

if TYPE_CHECKING:
    from headrace.engines.redis.desk import Office
    from headrace.engines.redis.wire import Value

_terms = load("terms")


class RedisUpkeep:
    """Reads and writes terms."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def terms(self) -> list[TermsRow]:
        self._office.prepare()
        declared, ordered = (
            records.named(self._office.wire.ask("HGETALL", f"{{{self._office.prefix}}}:{name}"), records.terms.decode)
            for name in ("declared", "ordered")
        )
        none = Terms()
        rows = []
        for key in sorted({*declared, *ordered}):
            kind, _, name = key.partition(":")
            said = declared.get(key, none), ordered.get(key, none)
            rows.append(TermsRow("queue" if kind == "queue" else "task", name, *said))
        return rows

    def declare_terms(self, rows: Sequence[TermsRow]) -> None:
        if rows:
            self._put("declared", [part for row in rows for part in _told(row.kind, row.name, row.declared)])

    def order_terms(self, kind: Kind, name: str, terms: Terms | None) -> None:
        self._put("ordered", _told(kind, name, terms or Terms()))

    def _put(self, whose: Literal["declared", "ordered"], told: Sequence[Value]) -> None:
        self._office.prepare()
        self._office.wire.run(_terms, whose, *told, repeat=(whose, *told))


def _told(kind: Kind, name: str, terms: Terms) -> tuple[str, bytes]:
    return f"{kind}:{name}", b"" if terms == Terms() else msgspec.json.encode(terms)
