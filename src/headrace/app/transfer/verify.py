"""Compares source and target of a copy: every job with its history and logs, and the order.

Both are read in their own order, page by page. While both are closed, copied jobs do not change, so everything must be
equal, except jobs that new jobs at the target have replaced or now depend on. New jobs are skipped. It changes nothing
except late documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from headrace.app.transfer.dependencies import (
    changed_at_one_store,
    edge_pages,
    missing_edges,
    missing_flows,
    with_dependents,
)
from headrace.app.transfer.pages import MAX_PAGE, StoreContents, dead_letter_pages, pages, portable, read_ahead
from headrace.app.transfer.settings import differing_settings
from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.history_texts import PARENT_ADDED, REPLACED, RESCHEDULED
from headrace.core.jobs.records import DeadLetterRow, HistoryRow, JobRow
from headrace.core.jobs.states import Trigger
from headrace.core.jobs.transfer import JobExport
from headrace.engines.protocol.engine import Engine

_LISTED = 20
_GAP = 8  # other jobs between two compared ones that are read along rather than skipped
# The history details that engines write for a job when another one is stored.
_BY_NEW_JOBS = frozenset({REPLACED, RESCHEDULED, PARENT_ADDED})
Kind = Literal["job", "dead letter", "queue", "task", "lifecycle", "document", "schedule", "flow", "dependency"]
Finding = Literal["same", "taken", "different"]


class Difference(Struct, frozen=True):
    """An item of the source that is missing or different at the target."""

    what: Kind
    id: str
    how: str

    def __str__(self) -> str:
        return f"{self.what} {self.id} {self.how}"


class CopyVerification(Struct):
    """The result of a comparison. `differences` has the first differences, `different` their number.

    `taken` are ids that other jobs have at the target, `unlinked` the dependencies on these. `kept` are settings and
    schedules that the target already had, or that were changed there; they stay.
    """

    contents: StoreContents = msgspec.field(default_factory=StoreContents)
    different: int = 0
    differences: list[Difference] = msgspec.field(default_factory=list)
    taken: set[str] = msgspec.field(default_factory=set)
    unlinked: list[Dependency] = msgspec.field(default_factory=list)
    kept: list[Difference] = msgspec.field(default_factory=list)

    def add(self, what: Kind, name: str, how: str) -> None:
        self.different += 1
        if len(self.differences) < _LISTED:
            self.differences.append(Difference(what, name, how))


def compare(source: Engine, target: Engine, *, merged: bool, progress: Callable[[int], None]) -> CopyVerification:
    """Look up everything of the source at the target. The order is not compared if the target was in use before."""
    verification = CopyVerification()
    reader = _Reader(target)
    newest = 0
    parents: list[str] = []
    for page in read_ahead(pages(source.transfer)):
        verification.contents.add(page)
        for original, copy in zip(page, reader.beside(page), strict=True):
            finding = _compare_job(original, copy, verification, merged)
            if finding == "taken" or copy is None or merged:
                continue
            if copy.job.seq < newest:
                verification.add(
                    "job", original.job.id, "is out of order: it comes before one that was submitted earlier"
                )
            newest = max(newest, copy.job.seq)
        parents += with_dependents(page)
        progress(verification.contents.jobs)
    _compare_dependencies(source, target, parents, verification)
    _compare_dead(source, target, verification, merged)
    _compare_settings(source, target, verification, merged)
    _compare_counts(source, verification)
    return verification


# -- jobs


class _Reader:
    """Reads the target in its own order, beside the pages of the source."""

    def __init__(self, target: Engine) -> None:
        self._transfer, self._queries = target.transfer, target.queries
        self._after = 0

    def beside(self, page: list[JobExport]) -> Sequence[JobExport | None]:
        """The exported jobs with the same ids, None for missing ones."""
        ids = [job_export.job.id for job_export in page]
        next_ones = self._transfer.export_jobs(self._after, len(page))
        if [job_export.job.id for job_export in next_ones] == ids:
            self._after = next_ones[-1].job.seq
            return next_ones
        found = self._look_up(ids)  # there are other jobs in between, or some are missing
        self._after = max((job_export.job.seq for job_export in found.values()), default=self._after)
        return [found.get(job_id) for job_id in ids]

    def _look_up(self, ids: list[str]) -> dict[str, JobExport]:
        places = sorted(row.seq for row in self._queries.get(ids, light=True))
        wanted = set(ids)
        return {
            job_export.job.id: job_export
            for first, last in _runs(places)
            for job_export in self._between(first, last)
            if job_export.job.id in wanted
        }

    def _between(self, first: int, last: int) -> Iterator[JobExport]:
        after = first - 1
        while after < last and (some := self._transfer.export_jobs(after, min(last - after, MAX_PAGE))):
            yield from some
            after = some[-1].job.seq


def _runs(places: list[int]) -> Iterator[tuple[int, int]]:
    """Group places that are close together: the first and the last of each group."""
    start = 0
    for n in range(1, len(places) + 1):
        if n == len(places) or places[n] - places[n - 1] > _GAP:
            yield places[start], places[n - 1]
            start = n


def _compare_job(original: JobExport, copy: JobExport | None, verification: CopyVerification, merged: bool) -> Finding:
    if copy is None:
        verification.add("job", original.job.id, f"({original.job.state}) is missing")
        return "different"
    if (
        _is_same(original, copy)
        or _is_same(portable(original), copy)
        or _was_changed_by_new_jobs(portable(original), copy)
    ):
        return "same"
    if (merged and _changed_at_one_store(original, copy)) or original.job.created_at != copy.job.created_at:
        verification.taken.add(original.job.id)
        return "taken"
    verification.add("job", original.job.id, f"differs in {', '.join(_differing_fields(portable(original), copy))}")
    return "different"


def _changed_at_one_store(original: JobExport, copy: JobExport) -> bool:
    """Whether a job that is at both stores, for example after a restore, was run or moved at only one of them."""
    return _history(portable(original)) != _history(copy) or changed_at_one_store(original.job, copy.job)


def _is_same(original: JobExport, copy: JobExport) -> bool:
    return (
        astuple(original.job)[1:] == astuple(copy.job)[1:]  # all but `seq`, each store's own
        and _history(original) == _history(copy)
        and original.logs == copy.logs
        and original.steps == copy.steps
    )


def _was_changed_by_new_jobs(original: JobExport, copy: JobExport) -> bool:
    """Whether only new jobs at the target have changed it: a closed store allows no other change."""
    if copy.job.has_dependencies and not original.job.has_dependencies:
        copy = replace(copy, job=replace(copy.job, has_dependencies=original.job.has_dependencies))
    before = _history(original)
    since = _history(copy)[len(before) :]
    if not since:
        return _is_same(original, copy)
    if _history(copy)[: len(before)] != before or original.job.created_at != copy.job.created_at:
        return False
    return all(history_row.event == Trigger.UPDATE and history_row.detail in _BY_NEW_JOBS for history_row in since)


def _history(job_export: JobExport) -> list[HistoryRow]:
    """The history without "lease_lost", which a late worker may still add at the source."""
    return [history_row for history_row in job_export.history if history_row.event != "lease_lost"]


def _differing_fields(original: JobExport, copy: JobExport) -> list[str]:
    fields = JobRow.__struct_fields__[1:]
    names = [name for name in fields if getattr(original.job, name) != getattr(copy.job, name)]
    names += ["history"] if _history(original) != _history(copy) else []
    names += ["logs"] if original.logs != copy.logs else []
    return names + (["steps"] if original.steps != copy.steps else [])


# -- the rest


def _compare_dead(source: Engine, target: Engine, verification: CopyVerification, merged: bool) -> None:
    copies = (record for page in dead_letter_pages(target.dead_letters) for record in page)
    copy: DeadLetterRow | None = next(copies, None)
    for page in dead_letter_pages(source.dead_letters):
        verification.contents.add_dead(page)
        for record in page:
            while copy is not None and copy.id < record.id:
                copy = next(copies, None)
            found = copy is not None and copy.id == record.id
            if (found and (merged or copy == record)) or record.job_id in verification.taken:
                continue
            if merged and not found and _has_pending_dead_letter(target, record.job_id):
                continue  # a job has at most one pending dead letter, and the target keeps its own
            verification.add("dead letter", record.id, f"of job {record.job_id} {'differs' if found else 'is missing'}")


def _has_pending_dead_letter(target: Engine, job_id: str) -> bool:
    return target.dead_letters.count(DeadLetterFilter(latest_of=(job_id,), statuses=("pending",))) > 0


def _compare_dependencies(source: Engine, target: Engine, parents: list[str], verification: CopyVerification) -> None:
    for flow_id in missing_flows(source, target):
        verification.add("flow", flow_id, "is missing")
    for edge in missing_edges(source, target, parents, verification.taken):
        verification.add("dependency", edge, "is missing")
    taken = [parent for parent in parents if parent in verification.taken]
    for page in edge_pages(source.flow_store, taken):
        verification.unlinked += [edge for edge in page if edge.blocks and edge.child not in verification.taken]


def _compare_settings(source: Engine, target: Engine, verification: CopyVerification, merged: bool) -> None:
    for difference in differing_settings(source, target, merged=merged):
        if difference.is_kept:
            verification.kept.append(Difference(difference.what, difference.id, difference.how))
        else:
            verification.add(difference.what, difference.id, difference.how)


def _compare_counts(source: Engine, verification: CopyVerification) -> None:
    # A second count of the source: a job that export() left out would not be missed at the target.
    expected: dict[str, int] = {}
    for depth in source.queries.queue_counts():
        expected[depth.queue] = expected.get(depth.queue, 0) + depth.jobs
    found = verification.contents.per_queue()
    for name in sorted(expected.keys() | found.keys()):
        if found.get(name, 0) != expected.get(name, 0):
            how = f"has {expected.get(name, 0)} jobs by its count, of which {found.get(name, 0)} were found"
            verification.add("queue", name, how)
