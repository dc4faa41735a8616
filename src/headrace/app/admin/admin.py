"""`app.admin`: maintenance by hand. Workers do most of it themselves, except backups and repairs."""

from __future__ import annotations

import heapq
import itertools
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from headrace.app.admin import backups
from headrace.app.admin.audit import Audit
from headrace.app.admin.backups import Backup, Progress, Restored
from headrace.app.admin.erasure import Erasure, erase_jobs, has_filter
from headrace.app.services.filters import as_filter, described
from headrace.app.services.services import Services
from headrace.app.transfer.damaged_records import damage_beside_jobs, damage_in
from headrace.app.transfer.pages import pages
from headrace.core.codec import codec
from headrace.core.health import stalls
from headrace.core.health.findings import REPAIRS, Finding, MaintenanceKind, Sizes, StoragePart, size_findings
from headrace.core.jobs.records import JobRow
from headrace.core.settings.settings import Settings
from headrace.core.tasks.options import check_limit, check_text
from headrace.core.text import counted, nearest, short
from headrace.errors import ConfigError, InvalidJob
from headrace.runtime.jobs.async_twin import twin

_BATCH = 1000
_EXAMPLES = 5
_LARGE = 256 * 1024  # bytes


class Admin:
    """Maintenance of one store."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services = services
        self._settings = settings

    def migrate(self) -> list[str]:
        """Migrate the tables to the schema version of this headrace; returns the names of the migrations that ran."""
        return self._services.engine.migrate().applied

    # -- backups

    def backup(
        self,
        path: str | os.PathLike[str],
        *,
        archive: bool = True,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> Backup:
        """Back up the store to an SQLite file, while it is in use; the file appears when it is complete and checked.

        It has every job that was accepted before and is not deleted meanwhile, and, unless `archive` is False, the
        archive. `progress` is called with the amount done and the total.
        """
        kept = self._services.archive if archive else None
        return backups.take(self._services.engine, _path(path), archive=kept, overwrite=overwrite, progress=progress)

    def restore(
        self, path: str | os.PathLike[str], *, replace: bool = False, progress: Progress | None = None
    ) -> Restored:
        """Restore a backup. No worker may be alive, and the store must be empty unless `replace` is given.

        Jobs that were running at the backup start again, which does not count as an attempt. Archived jobs are added to
        the archive, where nothing is deleted.
        """
        return backups.restore(
            self._services.engine,
            _path(path),
            archive=self._services.archive,
            interval=self._settings.archive_partition,
            replace_all=replace,
            progress=progress,
        )

    def examine(self, path: str | os.PathLike[str]) -> int:
        """Check that a file is a complete backup; returns the number of its jobs."""
        return backups.examine(_path(path))

    # -- erasing

    def erase(
        self, /, *, by: str | None = None, dry_run: bool = False, key: str | None = None, **filters: Any
    ) -> Erasure:
        """Erase all that the store and its archive hold about the matching jobs. The filters are those of jobs.find().

        `key` is a `concurrency_key` or `rate_key`; no index helps to find its jobs. Running jobs are cancelled; call it
        again when they have ended. `by` is recorded in `app.audit`, with the filters. A dry run needs no `by`. Backups
        are not changed.
        """
        which, name = as_filter(filters), None if key is None else check_text("key", key)
        if dry_run or not has_filter(which, name):
            return erase_jobs(self._services, which, name, dry_run=dry_run)
        if by is None:
            raise InvalidJob("by: give the name of the person who erases, for the audit trail", field="by")
        who, audit, target = check_text("by", by), Audit(self._services), described({**filters, "key": name})
        audit.record(who, "admin.erase", target, "begun")
        erasure = erase_jobs(self._services, which, name)
        audit.record(who, "admin.erase", target, "done", msgspec.structs.asdict(erasure))
        return erasure

    # -- maintenance

    def checkpoint(self) -> dict[str, int]:
        """Truncate the write-ahead log of an SQLite file; returns its bytes before and after. Empty for servers."""
        return self._services.engine.maintenance.maintain(["checkpoint"], "all").sizes

    def optimize(self, *, full: bool = False) -> dict[str, int]:
        """Update statistics and reclaim free space; returns the bytes of the store before and after.

        With `full` all free space is reclaimed; meanwhile a file can't be written, and PostgreSQL tables can't be read.
        """
        kinds: tuple[MaintenanceKind, ...] = ("vacuum", "optimize", "checkpoint")
        return self._services.engine.maintenance.maintain(kinds, "full" if full else "all").sizes

    # -- storage

    def storage(self, pattern: str = "*", *, limit: int = 100) -> list[StoragePart]:
        """The tables or keys of the store that match the pattern: kind, entries, bytes, no values.

        It blocks no other process. A pattern has the wildcards `*`, `?` and `[ab]`.
        """
        return self._services.engine.maintenance.storage(check_text("pattern", pattern), check_limit("limit", limit))

    # -- checks and repairs

    def check(self, *, deep: bool = False) -> list[Finding]:
        """Problems of the store and its data, each with advice; nothing changes.

        With `deep` every job is read and its checksums compared; the findings include the largest jobs and all records
        that no longer decode.
        """
        engine = self._services.engine
        found = engine.maintenance.inspect()
        facts = engine.maintenance.facts().details
        found += size_findings(
            Sizes(
                used=_number(facts.get("size")) + _number(facts.get("log_size")),
                limit=None if self._settings.max_size is None else self._settings.max_size * 2**20,
                disk_free=_number(facts["disk_free"]) if "disk_free" in facts else None,
            )
        )
        alive = {row.id for row in engine.queries.workers()}
        stalled = [
            stall for stall in stalls.decode_stalls(engine.document_store.get(stalls.KIND)) if stall.worker in alive
        ]
        found += stalls.stall_findings(stalled, engine.clock.now())
        return found + (self._read_all() if deep else [])

    def repair(self, codes: Collection[str] | None = None, *, dry_run: bool = False) -> dict[str, int]:
        """Repair the findings of check(), or only those with these codes; returns the number of each.

        With `dry_run` nothing changes, and the result shows what would.
        """
        if codes is not None:
            _refuse_unknown(codes)
        found = {finding.code: finding.count for finding in self.check() if finding.repairable}
        if codes is not None:
            found = {code: count for code, count in found.items() if code in codes}
        if dry_run or not found:
            return found
        done = dict.fromkeys(found, 0)
        left = set(found)
        while left:  # each round is a few short commits
            fresh = self._services.engine.maintenance.repair(left, _BATCH)
            for code, count in fresh.items():
                done[code] += count
            left = {code for code in left if fresh.get(code, 0) >= _BATCH}
        return done

    def _read_all(self) -> list[Finding]:
        damaged: list[str] = []
        unreadable: list[str] = []
        largest: list[tuple[int, str]] = []
        for job_export in itertools.chain.from_iterable(pages(self._services.engine.transfer)):
            row = job_export.job
            if not _is_whole(row):
                damaged.append(row.id)
            unreadable += damage_in(job_export)
            largest = heapq.nlargest(_EXAMPLES, [*largest, (_size(row), row.id)])
        found = []
        if damaged:
            found.append(
                Finding(
                    code="damaged_payloads",
                    sentence=f"{counted(len(damaged), 'job has', 'jobs have')} arguments or results "
                    "whose checksum does not match",
                    advice="delete them and enqueue them again, or restore a backup",
                    count=len(damaged),
                    examples=tuple(damaged[:_EXAMPLES]),
                )
            )
        unreadable += damage_beside_jobs(self._services.engine)
        if unreadable:
            found.append(
                Finding(
                    code="damaged_values",
                    sentence=f"{counted(len(unreadable), 'stored value')} can't be read, such as {unreadable[0]}",
                    advice="a job with damaged options fails; other damaged values count as empty: write them again, "
                    "or restore a backup",
                    count=len(unreadable),
                    examples=tuple(unreadable[:_EXAMPLES]),
                )
            )
        if large := [(size, job) for size, job in largest if size >= _LARGE]:
            found.append(
                Finding(
                    code="largest_jobs",
                    sentence=f"the largest job has {large[0][0] / 2**20:.1f} MB of arguments and result",
                    advice="store large data elsewhere and pass a reference",
                    count=len(large),
                    note=True,
                    examples=tuple(job for _, job in large),
                )
            )
        return found

    amigrate = twin(migrate)
    abackup = twin(backup)
    arestore = twin(restore)
    aexamine = twin(examine)
    aerase = twin(erase)
    acheckpoint = twin(checkpoint)
    aoptimize = twin(optimize)
    astorage = twin(storage)
    acheck = twin(check)
    arepair = twin(repair)


def _path(given: str | os.PathLike[str]) -> Path:
    try:
        text: str | bytes = os.fspath(given)
    except TypeError:
        raise ConfigError(f"path: expected the path of a file, got {short(given)}", value=given) from None
    if not isinstance(text, str) or not text or "://" in text or "\0" in text:
        raise ConfigError(f"path: expected the path of a file, got {short(given)}", value=given)
    return Path(text)


def _refuse_unknown(codes: Collection[str]) -> None:
    if isinstance(codes, str) or not isinstance(codes, Collection):
        raise ConfigError(f"codes: expected a list of codes, got {short(codes)}", value=codes)
    for code in codes:
        if code not in REPAIRS:
            near = nearest(str(code), REPAIRS)
            meant = f" (did you mean {near!r}?)" if near else ""
            raise ConfigError(
                f"codes: {short(code)} can't be repaired{meant}; repairable are {', '.join(REPAIRS)}", value=code
            )


def _number(value: str | int | None) -> int:
    return int(value or 0)


def _is_whole(row: JobRow) -> bool:
    if row.result is None or row.result_checksum is None:
        return codec.is_whole(row.payload, row.checksum)
    return codec.is_whole(row.payload, row.checksum) and codec.is_whole(row.result, row.result_checksum)


def _size(row: JobRow) -> int:
    return len(row.payload) + len(row.result or "") + len(row.metadata or "")
