"""Archived jobs by their ids."""

from __future__ import annotations

from collections.abc import Collection

from headrace.core.jobs.records import Filter
from headrace.core.retention.archive import ArchiveRow
from headrace.engines.protocol.archive import Archive

_ENDS_PER_JOB = 100  # archived ends of one id that are looked at


def last_ends(archive: Archive, ids: Collection[str]) -> list[ArchiveRow]:
    """The archived jobs of these ids, of each the one that ended last."""
    rows = archive.find(Filter(ids=tuple(ids)), _ENDS_PER_JOB * len(ids)).rows if ids else []
    return list({row.id: row for row in reversed(rows)}.values())
