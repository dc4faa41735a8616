"""Maintenance of a Redis store: orphaned entries, jobs missing from an index, histories that are too long.

While a script runs Redis does nothing else, so every scan is done in pages of a millisecond or two.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headrace.core.health.findings import (
    KEPT_AT_START,
    LATE,
    Effort,
    Finding,
    IntegrityCounts,
    MaintenanceKind,
    MaintenanceResult,
    RecordKind,
    StoragePart,
    StoreFacts,
    TrimResult,
    findings_of,
    is_gone,
    unindexed_finding,
)
from headrace.core.jobs.records import Filter
from headrace.engines.protocol.maintenance import StoreView
from headrace.engines.redis import health, serialization
from headrace.engines.redis.script_loader import Script, load
from headrace.engines.shared.unmet_needs import NeedyLane, needs_findings
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.engines.redis.connections import RedisConnections, Value
    from headrace.engines.redis.damaged_records import Damaged

_integrity_counts, _index_page, _job_keys_page = (
    load("maintenance/integrity_counts"),
    load("maintenance/check_index"),
    load("maintenance/check_job_keys"),
)
_flows_page, _places_page, _trim_history = (
    load("maintenance/check_flows"),
    load("maintenance/check_job_places"),
    load("maintenance/trim_history"),
)
_storage_page, _lanes_needing = load("maintenance/list_keys"), load("queues/lanes_needing")

_LANES_SCANNED = 1000  # that one script reads
_SCAN_SIZE = 1000
_ENTRIES_PER_PAGE = 300
_JOB_PAGE_SIZE = 100  # whole records, each of which may be large
_ENTRY_SCAN_SIZE = 2000
_KEYS_MEASURED = 100
_PAGES_INSPECTED = 1000  # about a second; a larger store is inspected in part, but repaired as a whole
_EVERYTHING = 1 << 40

_JOB_KEYS = {
    "history": "history",
    "logs": "logs",
    "stream": "logs",
    "steps": "steps",
    "parents": "dependencies",
    "children": "dependencies",
    "blocks": "dependencies",
}
_INDEXES = {
    *("due", "leases", "expiring", "in", "lane", "held", "queue", "task", "tag", "state", "worker", "flow"),
    *("unique", "unique_done"),
}
_KEPT = {"version", "store", "seq", "status"}
_GLOB = re.compile(r"([\[\]*?\\])")


class RedisMaintenanceHost(StoreView, Protocol):
    """The engine, as far as it is needed here."""

    connections: RedisConnections
    prefix: str
    damaged: Damaged

    def prepare(self) -> None: ...
    def at(self, now: int | None) -> int: ...
    def unregister_worker(self, worker_id: str) -> None: ...


class RedisMaintenance:
    """Checks, repairs and compacts the store."""

    def __init__(self, engine: RedisMaintenanceHost) -> None:
        self._engine = engine

    # -- inspection and repair

    def inspect(self, now: int | None = None) -> list[Finding]:
        connections = self._engine.connections
        found = health.findings_of_server(connections)
        if health.is_replica(connections):
            return found
        self._engine.prepare()
        at = self._engine.at(now)
        *counts, ids, jobs, payloads, states = connections.run(
            _integrity_counts, at - LATE, _SCAN_SIZE, repeat=(at - LATE, _SCAN_SIZE)
        )
        is_consistent = ids == jobs == payloads == states
        scan = _KeyScan(self._engine, at, _PAGES_INSPECTED if is_consistent else _EVERYTHING)
        orphans = scan.orphans(_EVERYTHING)
        lost, damaged = scan.places(_EVERYTHING)
        orphans["times"] = len(self._lost_times(_SCAN_SIZE))
        strays, unreaped, overdue, forlorn = counts
        workers = self._engine.queries.workers()
        integrity_counts = IntegrityCounts(orphans=orphans, strays=strays, damaged=len(damaged), workers=workers)
        needs: list[Finding] = []
        if self._engine.transfer.store_status() is None:
            needs = [*needs_findings(self._needy_lanes(), workers, at)]
            integrity_counts.unreaped, integrity_counts.overdue, integrity_counts.forlorn = unreaped, overdue, forlorn
        sizes = {"ids": ids, "jobs": jobs, "payloads": payloads, "states": states}
        return [*found, *_loss_findings(sizes, lost), *findings_of(integrity_counts, at), *needs]

    def _needy_lanes(self) -> list[NeedyLane]:
        """The lanes of pending jobs that need a capability; a lane that occurs twice counts once."""
        found: dict[tuple[str, str], tuple[int, str]] = {}
        connections = self._engine.connections
        for queue in connections.command("SMEMBERS", f"{{{self._engine.prefix}}}:queues_with_lanes"):
            reached: bytes | None = None
            while reached != b"0":
                args = (queue, reached or b"0", _LANES_SCANNED)
                reached, *lanes = connections.run(_lanes_needing, *args, repeat=args)
                for lane, jobs, job_id in zip(lanes[::3], lanes[1::3], lanes[2::3], strict=True):
                    found[serialization.text(queue), serialization.text(lane)] = jobs, serialization.text(job_id)
        return [(*lane, *known) for lane, known in found.items()]

    def repair(self, codes: Collection[str], limit: int, now: int | None = None) -> dict[str, int]:
        self._engine.prepare()
        at = self._engine.at(now)
        scan = _KeyScan(self._engine, at, _EVERYTHING, frozenset(codes))
        done: dict[str, int] = {}
        if "unindexed" in codes:
            done["unindexed"] = scan.places(limit)[0]
        if "damaged_records" in codes:
            _, damaged = _KeyScan(self._engine, at, _EVERYTHING).places(_EVERYTHING)
            done["damaged_records"] = self._engine.damaged.fail(damaged[:limit], at)
        if "orphan_times" in codes:
            done["orphan_times"] = self._drop_lost_times(limit)
        wanted = {code for code in codes if code.startswith("orphan_")} - {"orphan_times"}
        if wanted:
            found = scan.orphans(limit)
            done |= {code: found.get(code.removeprefix("orphan_"), 0) for code in wanted}
        if "silent_workers" in codes:
            done["silent_workers"] = self._remove_workers(at)
        return done

    def _lost_times(self, limit: int) -> list[bytes]:
        """The earliest times to fire without a schedule, up to the limit."""
        tag = f"{{{self._engine.prefix}}}"
        ids = self._engine.connections.command("ZRANGE", f"{tag}:schedules_due", 0, -1)
        known = set(self._engine.connections.command("HKEYS", f"{tag}:schedules")) if ids else set()
        return [schedule_id for schedule_id in ids if schedule_id not in known][:limit]

    def _drop_lost_times(self, limit: int) -> int:
        lost = self._lost_times(limit)
        return (
            int(self._engine.connections.command("ZREM", f"{{{self._engine.prefix}}}:schedules_due", *lost))
            if lost
            else 0
        )

    def _remove_workers(self, now: int) -> int:
        gone = [worker.id for worker in self._engine.queries.workers() if is_gone(worker, now)]
        for worker in gone:
            self._engine.unregister_worker(worker)
        return len(gone)

    def trim_history(self, what: RecordKind, most: int, after: int, limit: int) -> TrimResult:
        self._engine.prepare()
        first = min(KEPT_AT_START, most // 2)
        limits = (what, most, first, (most - first) // 2, _ENTRY_SCAN_SIZE)
        reached, removed = self._engine.connections.run(
            _trim_history, serialization.encode_filter(Filter(), (), ()), after, min(limit, _SCAN_SIZE), *limits
        )
        return TrimResult(removed, reached or 0, reached is not None)

    # -- memory

    def facts(self, now: int | None = None) -> StoreFacts:
        self._engine.prepare()
        connections = self._engine.connections
        details = health.facts(connections)
        schedules = int(connections.command("HLEN", f"{{{self._engine.prefix}}}:schedules"))
        return StoreFacts(details, int(details["size"]), schedules, clients=health.clients(connections))

    def storage(self, pattern: str, limit: int) -> list[StoragePart]:
        self._engine.prepare()
        found = dict[bytes, None]()  # a key may occur twice
        for keys in _keys(self._engine, pattern):
            found |= dict.fromkeys(keys)
            if len(found) >= limit:
                break
        chosen = list(found)[:limit]
        pages = (chosen[first : first + _KEYS_MEASURED] for first in range(0, len(chosen), _KEYS_MEASURED))
        return [part for page in pages for part in self._measured(page)]

    def _measured(self, keys: list[bytes]) -> list[StoragePart]:
        return [
            StoragePart(
                name=_name(self._engine.prefix, key, "backslashreplace"),
                kind=kind.decode(),
                entries=entries,
                bytes=None if size < 0 else size,
                expires=None if left < 0 else left / 1000,
            )
            for key, kind, entries, left, size in self._engine.connections.run(_storage_page, *keys, repeat=keys)
        ]

    def maintain(
        self, kinds: Collection[MaintenanceKind], effort: Effort = "due", now: int | None = None
    ) -> MaintenanceResult:
        self._engine.prepare()
        if effort == "due" or "vacuum" not in kinds:
            return MaintenanceResult()
        before = health.size(self._engine.connections)
        self.repair([f"orphan_{what}" for what in {*_JOB_KEYS.values(), "flows", "index"}], _EVERYTHING)
        # Not every server allows these commands, and they are optional.
        with contextlib.suppress(HeadraceError):
            self._engine.connections.command("MEMORY", "PURGE")
        if effort == "full":
            with contextlib.suppress(HeadraceError):
                self._engine.connections.command("BGREWRITEAOF")
        return MaintenanceResult(sizes={"size_before": before, "size_after": health.size(self._engine.connections)})

    # -- copies

    def backup(
        self, path: Path, copy: Callable[[StoreView], object], progress: Callable[[int, int], None] | None = None
    ) -> None:
        self._engine.prepare()
        copy(self._engine)

    def restore(self, path: Path, copy: Callable[[], object], *, replace: bool = False) -> None:
        if replace:
            self._clear()
        copy()

    def _clear(self) -> None:
        self._engine.prepare()
        for keys in _keys(self._engine):
            if deleted := [key for key in keys if _kind(self._engine.prefix, key) not in _KEPT]:
                self._engine.connections.command("UNLINK", *deleted)


class _KeyScan:
    """One scan of all keys, up to a number of pages. Findings in `repaired` are repaired on the way."""

    def __init__(
        self, engine: RedisMaintenanceHost, now: int, pages: int, repaired: frozenset[str] = frozenset()
    ) -> None:
        self._engine = engine
        self._now = now
        self._pages = pages
        self._repaired = repaired

    def orphans(self, limit: int) -> dict[str, int]:
        """The number of entries without a job, by kind."""
        found: Counter[str] = Counter(dict.fromkeys([*_JOB_KEYS.values(), "flows", "index"], 0))
        for keys in _keys(self._engine):
            self._check_job_keys(keys, found)
            for key in keys:
                if _kind(self._engine.prefix, key) in _INDEXES:
                    found["index"] += self._check_entries(_index_page, (key,), "orphan_index", limit)
            if self._pages <= 0 or max(found.values()) >= limit:
                break
        found["flows"] += self._check_entries(_flows_page, (), "orphan_flows", limit)
        return dict(found)

    def _check_job_keys(self, keys: list[bytes], found: Counter[str]) -> None:
        for what in set(_JOB_KEYS.values()):
            args: list[Value] = [int(f"orphan_{what}" in self._repaired)]
            for key in keys:
                kind, _, number = self._name(key).partition(":")
                if _JOB_KEYS.get(kind) == what:
                    args += [key, number, int(kind in ("parents", "children"))]
            if len(args) > 1:
                self._pages -= 1
                found[what] += sum(self._engine.connections.run(_job_keys_page, *args, repeat=args))

    def _check_entries(self, script: Script, key: tuple[Value, ...], code: str, limit: int) -> int:
        """The number of orphaned entries in a sorted set, a page at a time."""
        first, lost = 0, 0
        while self._pages > 0 and lost < limit:
            self._pages -= 1
            args = (*key, first, _ENTRIES_PER_PAGE, int(code in self._repaired))
            scanned, fresh = self._engine.connections.run(script, *args, repeat=args)
            lost += fresh
            first += scanned - (fresh if code in self._repaired else 0)
            if scanned < _ENTRIES_PER_PAGE:
                break
        return lost

    def places(self, limit: int) -> tuple[int, list[bytes]]:
        """The number of jobs missing from an index, and the numbers of jobs with damaged records."""
        cursor, lost, damaged = b"0", 0, list[bytes]()
        while self._pages > 0 and lost < limit:
            self._pages -= 1
            args = (cursor, _JOB_PAGE_SIZE, self._now, int("unindexed" in self._repaired))
            cursor, fresh, damaged_page = self._engine.connections.run(_places_page, *args, repeat=args)
            lost, damaged = lost + fresh, damaged + damaged_page
            if cursor == b"0":
                break
        return lost, damaged

    def _name(self, key: bytes) -> str:
        return _name(self._engine.prefix, key)


def _kind(prefix: str, key: bytes) -> str:
    return _name(prefix, key).partition(":")[0]


def _name(prefix: str, key: bytes, errors: str = "surrogateescape") -> str:
    return key.decode("utf-8", errors)[len(prefix) + 3 :]


def _keys(engine: RedisMaintenanceHost, pattern: str = "*") -> Iterator[list[bytes]]:
    """Every matching key of the store, a page at a time; a key that exists all the time occurs at least once."""
    cursor = b"0"
    literal = _GLOB.sub(r"\\\1", engine.prefix)
    while True:
        cursor, keys = engine.connections.command(
            "SCAN", cursor, "MATCH", f"{{{literal}}}:{pattern}", "COUNT", _SCAN_SIZE
        )
        if keys:
            yield keys
        if cursor == b"0":
            return


def _loss_findings(sizes: dict[str, int], lost: int) -> Iterator[Finding]:
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        yield Finding(
            code="damaged",
            sentence=f"the store is damaged, its parts do not have the same number of jobs: {listed}",
            advice="repair what can be with `headrace check --repair`, or restore a backup",
        )
    yield from unindexed_finding(lost)
