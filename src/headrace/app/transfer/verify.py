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

from headrace.app.transfer.dependencies import edge_pages, lives_apart, missing_edges, missing_flows, with_kin
from headrace.app.transfer.pages import MOST, StoreContents, ahead, pages, pages_of_dead, portable
from headrace.app.transfer.settings import unlike_settings
from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import DeadLetterRow, HistoryRow, JobRow
from headrace.core.jobs.states import Trigger
from headrace.core.jobs.transfer import JobExport
from headrace.engines.protocol.engine import Engine

_TOLD = 20
_GAP = 8  # so many jobs of others in between are read along rather than jumped over
# What the engines file of a job when another one is stored.
_BY_NEW_JOBS = frozenset(
    {"replaced by a newer call", "rescheduled by a newer call", "it waits for a job that was added"}
)
Kind = Literal["job", "dead letter", "queue", "task", "lifecycle", "document", "schedule", "flow", "dependency"]
Finding = Literal["same", "taken", "different"]


class Difference(Struct, frozen=True):
    """Something that is not at the target as it is at the source."""

    what: Kind
    id: str
    how: str

    def __str__(self) -> str:
        return f"{self.what} {self.id} {self.how}"


class CopyVerification(Struct):
    """What a comparison found. `differences` has the first of them, `different` their number.

    The ids of `taken` were given to other jobs at the target before, and what is bound to these is `loose`. What is
    `kept` are settings and schedules that the target had already, or that were changed there, and that stay.
    """

    contents: StoreContents = msgspec.field(default_factory=StoreContents)
    different: int = 0
    differences: list[Difference] = msgspec.field(default_factory=list)
    taken: set[str] = msgspec.field(default_factory=set)
    loose: list[Dependency] = msgspec.field(default_factory=list)
    kept: list[Difference] = msgspec.field(default_factory=list)

    def tell(self, what: Kind, name: str, how: str) -> None:
        self.different += 1
        if len(self.differences) < _TOLD:
            self.differences.append(Difference(what, name, how))


def compare(source: Engine, target: Engine, *, merged: bool, progress: Callable[[int], None]) -> CopyVerification:
    """Look for everything of the source at the target. Of a target that was in use before, the order can't be asked."""
    verdict = CopyVerification()
    reader = _Reader(target)
    newest = 0
    parents: list[str] = []
    for page in ahead(pages(source.transfer)):
        verdict.contents.add(page)
        for ours, theirs in zip(page, reader.beside(page), strict=True):
            finding = _compare_job(ours, theirs, verdict, merged)
            if finding == "taken" or theirs is None or merged:
                continue
            if theirs.job.seq < newest:
                verdict.tell("job", ours.job.id, "is out of order: it comes before one that was submitted earlier")
            newest = max(newest, theirs.job.seq)
        parents += with_kin(page)
        progress(verdict.contents.jobs)
    _compare_kin(source, target, parents, verdict)
    _compare_dead(source, target, verdict, merged)
    _compare_settings(source, target, verdict, merged)
    _compare_counts(source, verdict)
    return verdict


# -- jobs


class _Reader:
    """Reads the target in its own order, beside the pages of the source."""

    def __init__(self, target: Engine) -> None:
        self._transfer, self._queries = target.transfer, target.queries
        self._after = 0

    def beside(self, page: list[JobExport]) -> Sequence[JobExport | None]:
        """The parcels of the same ids, None for those that are not there."""
        ids = [job_export.job.id for job_export in page]
        next_ones = self._transfer.export_jobs(self._after, len(page))
        if [job_export.job.id for job_export in next_ones] == ids:
            self._after = next_ones[-1].job.seq
            return next_ones
        found = self._look_up(ids)  # others came in between, or not all are there
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
        while after < last and (some := self._transfer.export_jobs(after, min(last - after, MOST))):
            yield from some
            after = some[-1].job.seq


def _runs(places: list[int]) -> Iterator[tuple[int, int]]:
    """The places that are close together, as first and last of each group."""
    start = 0
    for n in range(1, len(places) + 1):
        if n == len(places) or places[n] - places[n - 1] > _GAP:
            yield places[start], places[n - 1]
            start = n


def _compare_job(ours: JobExport, theirs: JobExport | None, verdict: CopyVerification, merged: bool) -> Finding:
    if theirs is None:
        verdict.tell("job", ours.job.id, f"({ours.job.state}) is missing")
        return "different"
    if _is_same(ours, theirs) or _is_same(portable(ours), theirs) or _is_called_anew(portable(ours), theirs):
        return "same"
    if (merged and _has_own_life(ours, theirs)) or ours.job.created_at != theirs.job.created_at:
        verdict.taken.add(ours.job.id)
        return "taken"
    verdict.tell("job", ours.job.id, f"differs in {', '.join(_differing(portable(ours), theirs))}")
    return "different"


def _has_own_life(ours: JobExport, theirs: JobExport) -> bool:
    """Whether a job that was at both stores, say by way of a backup, was run or moved at one of them by itself."""
    return _story(portable(ours)) != _story(theirs) or lives_apart(ours.job, theirs.job)


def _is_same(ours: JobExport, theirs: JobExport) -> bool:
    return (
        astuple(ours.job)[1:] == astuple(theirs.job)[1:]  # all but `seq`, each store's own
        and _story(ours) == _story(theirs)
        and ours.logs == theirs.logs
        and ours.steps == theirs.steps
    )


def _is_called_anew(ours: JobExport, theirs: JobExport) -> bool:
    """Whether jobs that came to the target meanwhile have changed it: as nobody else may, there."""
    if theirs.job.has_dependencies and not ours.job.has_dependencies:
        theirs = replace(theirs, job=replace(theirs.job, has_dependencies=ours.job.has_dependencies))
    before = _story(ours)
    since = _story(theirs)[len(before) :]
    if not since:
        return _is_same(ours, theirs)
    if _story(theirs)[: len(before)] != before or ours.job.created_at != theirs.job.created_at:
        return False
    return all(history_row.event == Trigger.AMEND and history_row.detail in _BY_NEW_JOBS for history_row in since)


def _story(job_export: JobExport) -> list[HistoryRow]:
    """What happened to the job. Its old worker may come too late at any time, and that is filed at the source."""
    return [history_row for history_row in job_export.history if history_row.event != "lease lost"]


def _differing(ours: JobExport, theirs: JobExport) -> list[str]:
    fields = JobRow.__struct_fields__[1:]
    names = [name for name in fields if getattr(ours.job, name) != getattr(theirs.job, name)]
    names += ["history"] if _story(ours) != _story(theirs) else []
    names += ["logs"] if ours.logs != theirs.logs else []
    return names + (["steps"] if ours.steps != theirs.steps else [])


# -- the rest


def _compare_dead(source: Engine, target: Engine, verdict: CopyVerification, merged: bool) -> None:
    theirs = (record for page in pages_of_dead(target.transfer) for record in page)
    beside: DeadLetterRow | None = next(theirs, None)
    for page in pages_of_dead(source.transfer):
        verdict.contents.add_dead(page)
        for record in page:
            while beside is not None and beside.id < record.id:
                beside = next(theirs, None)
            found = beside is not None and beside.id == record.id
            if (found and (merged or beside == record)) or record.job_id in verdict.taken:
                continue
            if merged and not found and _has_open_letter(target, record.job_id):
                continue  # one is pending for a job, and the one that was there goes before
            verdict.tell("dead letter", record.id, f"of job {record.job_id} {'differs' if found else 'is missing'}")


def _has_open_letter(target: Engine, job_id: str) -> bool:
    return any(letter.status == "pending" for letter in target.dead_letters.latest([job_id]))


def _compare_kin(source: Engine, target: Engine, parents: list[str], verdict: CopyVerification) -> None:
    for flow_id in missing_flows(source, target):
        verdict.tell("flow", flow_id, "is missing")
    for edge in missing_edges(source, target, parents, verdict.taken):
        verdict.tell("dependency", edge, "is missing")
    taken = [parent for parent in parents if parent in verdict.taken]
    for page in edge_pages(source.queries, taken):
        verdict.loose += [edge for edge in page if edge.blocks and edge.child not in verdict.taken]


def _compare_settings(source: Engine, target: Engine, verdict: CopyVerification, merged: bool) -> None:
    for unlike in unlike_settings(source, target, merged=merged):
        if unlike.is_kept:
            verdict.kept.append(Difference(unlike.what, unlike.id, unlike.how))
        else:
            verdict.tell(unlike.what, unlike.id, unlike.how)


def _compare_counts(source: Engine, verdict: CopyVerification) -> None:
    # The same number by another way: what the source did not hand out could not be missed at the target.
    expected: dict[str, int] = {}
    for depth in source.queries.queue_counts():
        expected[depth.queue] = expected.get(depth.queue, 0) + depth.jobs
    found = verdict.contents.per_queue()
    for name in sorted(expected.keys() | found.keys()):
        if found.get(name, 0) != expected.get(name, 0):
            how = f"has {expected.get(name, 0)} jobs by its count, of which {found.get(name, 0)} were found"
            verdict.tell("queue", name, how)
