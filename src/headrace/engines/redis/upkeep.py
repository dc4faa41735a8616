"""How long jobs may stay, in Redis: the terms of tasks and queues, and the jobs that stay long.

A walk takes many scripts, each of a thousand jobs or so, so that nobody else waits for it.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from headrace.core.lifecycle import Kind, Terms, TermsRow
from headrace.core.staleness import REASON, Aged, AgedPage, Judgment, Watch
from headrace.core.states import State
from headrace.engines.redis import records
from headrace.engines.redis.scripts import load

if TYPE_CHECKING:
    from headrace.engines.redis.desk import Office
    from headrace.engines.redis.wire import Value

_LOOKS = 300  # jobs that one script looks at; 2 ms, and 4 where all are stale, for which every other client waits
_WAYS = (State.WAITING, State.SCHEDULED, State.RETRYING, State.RUNNING, State.PENDING)
_terms, _aged, _judge = load("terms"), load("aged"), load("judge")


class RedisUpkeep:
    """Reads and writes terms, finds old jobs and carries out what is decided of them."""

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

    def aged(self, watch: Watch, limit: int, cursor: str | None = None) -> AgedPage:
        self._office.prepare()
        name, _, reached = (cursor or f"{_WAYS[0]}:").partition(":")
        step, found = _WAYS.index(State(name)), list[Aged]()
        while step < len(_WAYS):
            state = _WAYS[step]
            if limit <= 0:
                return AgedPage(found, f"{state}:{reached}")
            since, due = watch.since.get(state, ""), "" if watch.due is None else watch.due
            last: bytes | None = None
            if since != "" or due != "":
                looks = min(limit, _LOOKS)
                asked = (state.value, reached, looks, since, due)
                last, looked, jobs = self._office.wire.run(_aged, *asked, repeat=asked)
                found += records.aged.decode(jobs)
                limit -= looked
            step, reached = (step + 1, "") if last is None else (step, last.decode())
        return AgedPage(found, None)

    def judge(self, judgments: Sequence[Judgment], now: int | None = None) -> list[bool]:
        self._office.prepare()
        if not judgments:
            return []
        told: list[Value] = [self._office.at(now), secrets.token_hex(8), REASON]
        for one in judgments:
            told += [one.id, one.version, one.action, one.detail, one.fingerprint]
        return [bool(written) for written in self._office.wire.run(_judge, *told)]

    def _put(self, whose: Literal["declared", "ordered"], told: Sequence[Value]) -> None:
        self._office.prepare()
        self._office.wire.run(_terms, whose, *told, repeat=(whose, *told))


def _told(kind: Kind, name: str, terms: Terms) -> tuple[str, bytes]:
    return f"{kind}:{name}", b"" if terms == Terms() else msgspec.json.encode(terms)
