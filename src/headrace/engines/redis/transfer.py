"""Carries the contents of a Redis store out and in, a page of jobs at a time, and minds its door meanwhile."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.records import DeadLetterRow, Filter, QueueRow
from headrace.core.jobs.transfer import JobExport, StoreStatus
from headrace.engines.redis import serialization
from headrace.engines.redis.insert import unless_closed
from headrace.engines.redis.script_loader import load
from headrace.engines.shared.decisions import CopyFinished

if TYPE_CHECKING:
    from headrace.engines.redis.connections import Value
    from headrace.engines.redis.queries import RedisDatabase

_post, _swap, _pack, _unpack = load("post"), load("swap"), load("pack"), load("unpack")
_unpack_flows, _unpack_bonds = load("unpack_flows"), load("unpack_bonds")
_pack_dead, _unpack_dead, _unpack_queues = load("pack_dead"), load("unpack_dead"), load("unpack_queues")


class RedisTransfer:
    """Packs and unpacks."""

    def __init__(self, office: RedisDatabase) -> None:
        self._office = office

    def notice(self) -> StoreStatus | None:
        self._office.prepare()
        key = f"{{{self._office.prefix}}}:notice"
        kind, other, at = self._office.wire.ask("HMGET", key, "kind", "other", "at")
        if kind is None:
            return None
        return StoreStatus("moved" if kind == b"moved" else "arriving", other.decode(), int(at))

    def post(self, notice: StoreStatus | None) -> None:
        self._office.prepare()
        told = () if notice is None else (notice.kind, notice.other, notice.at)
        self._office.wire.run(_post, *told, repeat=told)

    def swap(self, before: StoreStatus | None, notice: StoreStatus | None) -> bool:
        self._office.prepare()
        told = [() if each is None else (each.kind, each.other, each.at) for each in (before, notice)]
        return bool(self._office.wire.run(_swap, *map(serialization.encode, told)))

    def pack(self, after: int, limit: int) -> list[JobExport]:
        self._office.prepare()
        args = (serialization.question(Filter(), (), ()), after, limit)
        found = self._office.wire.run(_pack, *args, repeat=args)
        return parcels(found, self._office.damaged.names)

    def unpack(self, packed: Sequence[JobExport], origin: str | None = None) -> int:
        self._office.prepare()
        args: list[Value] = [self._office.at(None), secrets.randbits(50), origin or ""]
        for parcel in packed:
            args.append(serialization.encode(parcel.job))
            for filed in (parcel.history, parcel.logs, parcel.steps):
                args += [len(filed), *map(serialization.encode, filed)]
        return _unless_opened(unless_closed(self._office.wire.run(_unpack, *args))) if packed else 0

    def pack_dead(self, after: str, limit: int) -> list[DeadLetterRow]:
        self._office.prepare()
        return serialization.letters(*self._office.wire.run(_pack_dead, after, limit, repeat=(after, limit)))

    def unpack_dead(self, letters: Sequence[DeadLetterRow], origin: str | None = None) -> int:
        self._office.prepare()
        if not letters:
            return 0
        return _unless_opened(self._office.wire.run(_unpack_dead, origin or "", *map(serialization.encode, letters)))

    def unpack_queues(self, queues: Sequence[QueueRow]) -> None:
        self._office.prepare()
        args = [part for row in queues for part in (row.name, int(row.paused), _kept(row))]
        if args:
            self._office.wire.run(_unpack_queues, *args, repeat=args)

    def unpack_flows(self, flows: Sequence[FlowRow]) -> None:
        self._office.prepare()
        args = [part for flow in flows for part in (flow.id, serialization.encode(flow))]
        if args:
            self._office.wire.run(_unpack_flows, *args, repeat=args)

    def unpack_bonds(self, bonds: Sequence[Dependency]) -> None:
        self._office.prepare()
        if bonds:
            told = serialization.encode_batch(bonds)
            self._office.wire.run(_unpack_bonds, told, repeat=(told,))


def parcels(answer: Any, names: serialization.Names) -> list[JobExport]:
    """The jobs of an answer, each with its history, its log and its steps."""
    return [
        JobExport(
            serialization.job(row, names),
            [serialization.filing.decode(entry) for entry in history],
            [serialization.line.decode(entry) for entry in log],
            [serialization.step.decode(entry) for entry in steps],
        )
        for row, history, log, steps in zip(answer[::4], answer[1::4], answer[2::4], answer[3::4], strict=True)
    ]


def _unless_opened(stored: int | None) -> int:
    if stored is None:
        raise CopyFinished
    return stored


def _kept(row: QueueRow) -> str:
    """When the queue was made, and its rules, as they are kept."""
    return f"{row.created_at} {row.rules}" if row.rules else str(row.created_at)
