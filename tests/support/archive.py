"""The archive of a store."""

from __future__ import annotations

from headrace.core.jobs.records import Filter
from headrace.core.retention.archive import ArchiveRow
from headrace.engines.protocol.archive import Archive


def found_rows(archive: Archive, job_id: str) -> list[ArchiveRow]:
    """The archived job of this id that ended last."""
    return archive.find(Filter(ids=(job_id,)), 1).rows
