"""Finds stale jobs and applies their lifecycle policy: any worker, in small batches.

A job may have changed since it was read, so each action names a version: a job that has moved on is left alone. Two
workers may scan at the same time; the second one finds nothing left to do.
"""

from __future__ import annotations

import contextlib
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from headrace.core.damaged_records import read_or, readable
from headrace.core.documents import Document
from headrace.core.events.log import EventGroup
from headrace.core.jobs.outcomes import opens_dead_letter
from headrace.core.metrics.histogram import Histogram
from headrace.core.retention.lifecycle import Policies, PolicyRow
from headrace.core.retention.staleness import REASON, StaleFinding, age_query, check_staleness, stale_action
from headrace.core.settings.settings import Settings
from headrace.core.text import why
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.retention.policies import policies

log = logging.getLogger("headrace.maintenance")

_PAGE_SIZE = 2000  # jobs per read: some ten milliseconds, mostly where nearly all are stale
_LONGEST_FIRST_PAUSE = 60.0  # seconds
_SCAN_KIND = "~survey"


class StaleScanResult(Struct, frozen=True):
    """The result of the last scan by any worker. `error` is why the latest one stopped."""

    at: int
    stale: int = 0
    nearly: int = 0
    error: str | None = None


_scan_results = msgspec.json.Decoder(StaleScanResult)


def last_scan(engine: Engine) -> StaleScanResult | None:
    """The last recorded scan."""
    documents = engine.document_store.get(_SCAN_KIND, ["stale"])
    return next(readable(_scan_results.decode, (document.value for document in documents)), None)


class StaleScan:
    """One scan of all open jobs, by these policies or by those of the store at its beginning.

    If staleness creates no dead letters, jobs that would get one only fail.
    """

    def __init__(self, engine: Engine, settings: Settings, rows: list[PolicyRow] | None = None) -> None:
        rows = policies(engine.document_store) if rows is None else rows
        self._engine = engine
        self._policies = Policies(rows, settings)
        self._now = engine.clock.now()
        self._query = age_query(rows, settings, self._now)
        self._creates_dead_letters = opens_dead_letter(settings.dead_letters, REASON)
        self._cursor: str | None = None
        self.is_over = False

    def next_findings(self) -> list[StaleFinding]:
        """The stale and nearly stale jobs among the next ones."""
        page = self._engine.staleness_store.by_age(self._query, _PAGE_SIZE, self._cursor)
        self._cursor, self.is_over = page.cursor, page.cursor is None
        found = [found for job in page.jobs if (found := check_staleness(job, self._policies, self._now)) is not None]
        if self._creates_dead_letters:
            return found
        return [structs.replace(one, action="fail") if one.action == "dead" else one for one in found]


def apply(engine: Engine, findings: list[StaleFinding]) -> list[bool]:
    """Apply the actions for these stale jobs in one commit; returns for each whether it was done."""
    # A job already marked for review in this version is not marked again.
    new = [finding for finding in findings if not _is_noted(finding)]
    done = iter(engine.staleness_store.mark_stale([stale_action(finding) for finding in new]))
    return [_is_noted(finding) or next(done) for finding in findings]


def _is_noted(finding: StaleFinding) -> bool:
    return finding.action == "review" and finding.job.reviewed


def emit_scan(engine: Engine, settings: Settings, done: Mapping[str, int], lasted: Sequence[int]) -> None:
    """Emit how many jobs were ended or newly marked, if any, and how long they lasted; metrics use this event."""
    names = {"dead": "stale_dead", "fail": "stale_failed", "review": "stale_reviewed"}
    data: dict[str, Any] = {name: done[act] for act, name in names.items() if done.get(act)}
    if data and lasted:
        data["lasted"] = msgspec.to_builtins(Histogram.of(lasted), str_keys=True)
    _emit(engine, settings, "stale.checked", data)


def emit_failure(engine: Engine, settings: Settings, error: Exception) -> None:
    """Emit an event that a scan failed."""
    _emit(engine, settings, "stale.failed", {"error": why(error)})


def _emit(engine: Engine, settings: Settings, kind: str, data: Mapping[str, Any]) -> None:
    with contextlib.suppress(EngineUnavailable):
        if data and settings.events:
            engine.events.append([EventGroup(kind, engine.clock.now(), data=[dict(data)])])


def record_scan(engine: Engine, stale: int, nearly: int) -> None:
    """Record the result of a scan. A second worker records the same."""
    _record(engine, lambda _: StaleScanResult(engine.clock.now(), stale, nearly))


def record_failure(engine: Engine, error: Exception) -> None:
    """Record why a scan failed, beside the result of the last one."""
    now = engine.clock.now()
    _record(engine, lambda last: structs.replace(last or StaleScanResult(now), at=now, error=why(error)))


def _record(engine: Engine, update: Callable[[StaleScanResult | None], StaleScanResult]) -> None:
    # An unavailable store can't be written either.
    with contextlib.suppress(EngineUnavailable):
        known = next(iter(engine.document_store.get(_SCAN_KIND, ["stale"])), None)
        last = None if known is None else read_or(_scan_results.decode, known.value, None)
        text = msgspec.json.encode(update(last)).decode()
        engine.document_store.put([Document(_SCAN_KIND, "stale", 0 if known is None else known.version, text)])


class StaleCheck:
    """Maintenance task: a scan at each interval, in small pieces."""

    def __init__(self, engine: Engine, settings: Settings, every: float) -> None:
        self._engine = engine
        self._settings = settings
        self._every = every
        self._is_first = True
        self._scan: StaleScan | None = None
        self._stale: list[StaleFinding] = []
        self._lasted: list[int] = []
        self._counts: Counter[str] = Counter()

    def do(self) -> float:
        if self._is_first:  # not all workers of a deploy at the same moment
            self._is_first = False
            return random.uniform(0.0, min(self._every, _LONGEST_FIRST_PAUSE))
        try:
            self._continue()
        except Exception as error:
            record_failure(self._engine, error)
            emit_failure(self._engine, self._settings, error)
            raise
        if self._stale or self._scan is not None:
            return 0.0
        record_scan(self._engine, self._counts["stale"], self._counts["nearly stale"])
        self._report()
        return self._every

    def _continue(self) -> None:
        if self._stale:
            self._act()
        else:
            self._scan_page()

    def _scan_page(self) -> None:
        scan = self._scan = self._scan or StaleScan(self._engine, self._settings)
        found = scan.next_findings()
        if not self._settings.stale_dry_run:
            self._stale = [finding for finding in found if finding.is_stale and not _is_noted(finding)]
        self._counts["stale"] += sum(finding.is_stale for finding in found)
        self._counts["nearly stale"] += sum(not finding.is_stale for finding in found)
        if scan.is_over:
            self._scan = None

    def _act(self) -> None:
        some = self._stale[: self._settings.stale_batch]
        done = apply(self._engine, some)
        del self._stale[: self._settings.stale_batch]
        for finding, is_done in zip(some, done, strict=True):
            self._counts[finding.action if is_done else "moved on"] += 1
            if is_done:
                self._lasted.append(finding.lasted)
            if is_done and finding.action != "review":
                job = finding.job
                extra = {"event": "job.stale", "job": job.id, "task": job.task, "queue": job.queue}
                log.warning("job %s (%s) is stale: %s", job.id, job.task, finding.describe(), extra=extra)

    def _report(self) -> None:
        counts, self._counts = self._counts, Counter()
        lasted, self._lasted = self._lasted, []
        emit_scan(self._engine, self._settings, counts, lasted)
        text = "%d stale jobs: %d dead letters, %d failed, %d new for review, %d moved on; %d nearly stale"
        names = ("stale", "dead", "fail", "review", "moved on", "nearly stale")
        changed = any(counts[name] for name in names[1:4])
        level = logging.WARNING if changed else logging.INFO if counts.total() else logging.DEBUG
        log.log(level, text, *(counts[name] for name in names))
