"""Moves the jobs of one store to another: closes the source, fills the target, and opens it when it is complete.

The store status of both stores records how far a move is, so that it can be interrupted at any moment and continued by
running it again. Uses only the engine protocol.

1. `arriving` at the target, with a random negative number in place of the time: the move is announced
2. `moved` at the source: it refuses enqueues and claims. When running jobs have ended or were taken from their workers,
   the source does not change any more, so all pages that are read from it are consistent
3. `arriving` at the target, with the time: jobs are being copied
4. no status at the target: it is open, and the source stays closed
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from headrace.app.transfer.dependencies import copy_edges, copy_flows, link_to_existing, with_dependents
from headrace.app.transfer.pages import (
    StoreContents,
    dead_letter_pages,
    dead_letter_size,
    export_size,
    pages,
    portable,
    portions,
    read_ahead,
)
from headrace.app.transfer.preconditions import has_tables, refuse_old_tables, refuse_same_address, refuse_used
from headrace.app.transfer.settings import copy_settings
from headrace.app.transfer.verify import CopyVerification, compare
from headrace.core.clock import to_datetime
from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State
from headrace.core.jobs.transfer import StoreStatus
from headrace.engines.protocol.engine import Engine
from headrace.engines.shared.decisions import CopyFinished
from headrace.errors import ConfigError, HeadraceError

Stage = Literal["reading", "waiting", "copying", "comparing"]
CopyStatus = Literal["new", "begun", "done"]
_RUNNING = Filter(states=(State.RUNNING,))
_REAP_BATCH = 1000
_POLL_INTERVAL = 0.5  # seconds
_SETTLE_INTERVAL = 0.01  # seconds


class CopyStep(Struct, frozen=True):
    """The progress of a move. In the stage "waiting", `done` counts the jobs that no longer run."""

    stage: Stage
    done: int
    total: int


class CopyPlan(Struct):
    """The plan of a move. `has_tables`: the target already has tables."""

    copy_status: CopyStatus
    has_tables: bool
    contents: StoreContents


class CopyResult(Struct):
    """The result of a run: copied jobs, jobs whose id existed already, and running jobs taken from their workers."""

    jobs: int = 0
    known: int = 0
    running: list[str] = msgspec.field(default_factory=list)
    dead_letters: int = 0


class StoreCopy:
    """One move, from its plan to its end. `into_used` lets the target have jobs of its own."""

    def __init__(
        self,
        source: Engine,
        target: Engine,
        *,
        into_used: bool = False,
        progress: Callable[[CopyStep], None] = lambda step: None,
    ) -> None:
        self._source, self._target = source, target
        self._into_used = into_used
        self._progress = progress
        self._unlinked: list[Dependency] = []

    # -- before copying

    def plan(self) -> CopyPlan:
        """Read everything that would be copied; change nothing at either store."""
        refuse_same_address(self._source, self._target)
        if not has_tables(self._source):
            raise ConfigError(f"there are no jobs to copy: {self._source.url} has no tables of headrace")
        refuse_old_tables(self._source)
        is_prepared = has_tables(self._target)
        if is_prepared:
            refuse_old_tables(self._target)
        plan = CopyPlan(self._copy_status() if is_prepared else "new", is_prepared, StoreContents())
        total = self._total()
        for page in read_ahead(pages(self._source.transfer)):
            plan.contents.add(page)
            self._progress(CopyStep("reading", plan.contents.jobs, total))
        for records in dead_letter_pages(self._source.dead_letters):
            plan.contents.add_dead(records)
        return plan

    def copy_status(self) -> CopyStatus:
        """Whether the move has begun or is done; ConfigError if these two stores can't be used for one."""
        refuse_same_address(self._source, self._target)
        if not has_tables(self._source):
            raise ConfigError(f"there are no jobs to copy: {self._source.url} has no tables of headrace")
        return self._copy_status()

    def _copy_status(self) -> CopyStatus:
        source_status, target_status = self._source.transfer.store_status(), self._target.transfer.store_status()
        self._refuse_elsewhere(source_status, target_status)
        if target_status is None:
            if source_status is not None:
                return "done"
            self._refuse_used()
            return "new"
        if target_status.at > 0 and source_status is None:
            raise ConfigError(
                f"{self._source.url} was reopened after a part of its jobs had been copied to "
                f"{self._target.url}, which has them in their old states; copy to another, empty store"
            )
        return "begun" if target_status.at > 0 else "new"

    def _refuse_elsewhere(self, source_status: StoreStatus | None, target_status: StoreStatus | None) -> None:
        """Refuse stores that take part in another move."""
        source, target = self._source.url, self._target.url
        if source_status is not None and source_status.kind == "arriving":
            raise ConfigError(
                f"{source} is itself being filled from {source_status.other}; finish that copy first, or reopen "
                f"it with `headrace copy --reopen {source}`"
            )
        if source_status is not None and source_status.other != target:
            raise ConfigError(
                f"the jobs of {source} were copied to {source_status.other} {_since(source_status)}; to copy "
                f"them again, reopen it with `headrace copy --reopen {source}`"
            )
        if target_status is not None and target_status.kind == "moved":
            raise ConfigError(
                f"the jobs of {target} were themselves copied to {target_status.other} {_since(target_status)}; "
                "choose an empty store"
            )
        if target_status is not None and target_status.other != source:
            raise ConfigError(
                f"{target} is being filled from {target_status.other}; finish that copy first, or choose another store"
            )

    def _refuse_used(self) -> None:
        if not self._into_used:
            advice = "Choose an empty store, or add --into-used to copy into it: jobs whose id exists there are skipped"
            refuse_used(self._target, advice)

    def _total(self) -> int:
        return sum(depth.jobs for depth in self._source.queries.queue_counts())

    # -- copying

    def run(self, wait: float = 30.0) -> CopyResult:
        """Copy everything, or the rest of an earlier run. Running jobs may finish within `wait` seconds."""
        status = self.copy_status()
        result = CopyResult()
        if status == "done":
            return result
        try:
            self._set_statuses()
            self._wait_for_running(wait)
            result.running = self._take_from_workers()
            self._copy_all(result, is_begun=status == "begun" and not self._into_used)
        except CopyFinished:  # another run has finished: the target is in use and changes
            self._refuse_elsewhere(None, self._target.transfer.store_status())
        return result

    def _copy_all(self, result: CopyResult, *, is_begun: bool) -> None:
        self._check_arriving()
        copy_settings(self._source, self._target, merged=self._into_used)
        start = self._first_missing() if is_begun else 0
        copy_flows(self._source, self._target)
        self._copy_jobs(start, result)
        for page in dead_letter_pages(self._source.dead_letters):
            for portion in portions(page, dead_letter_size):
                result.dead_letters += self._target.transfer.import_records(portion, self._source.url)

    def verify(self) -> CopyVerification:
        """Compare the stores. Open the target only if there are no differences."""
        total = self._total()
        verification = compare(
            self._source,
            self._target,
            merged=self._into_used,
            progress=lambda done: self._progress(CopyStep("comparing", done, total)),
        )
        self._unlinked = verification.unlinked
        target_status = self._target.transfer.store_status()
        if not self._is_arriving(target_status):  # another run has opened it, and it has changed since
            self._refuse_elsewhere(None, target_status)
            verification.different, verification.differences = 0, []
        return verification

    def open(self) -> None:
        """Open the target for its workers."""
        self._check_closed()
        target_status = self._target.transfer.store_status()
        if self._is_arriving(target_status):
            link_to_existing(self._target, self._unlinked)  # after the comparison, which expects unchanged jobs
            self._target.transfer.set_status(None, expected=target_status)

    def _is_arriving(self, store_status: StoreStatus | None) -> bool:
        return store_status is not None and (store_status.kind, store_status.other) == ("arriving", self._source.url)

    def _check_closed(self) -> None:
        if self._source.transfer.store_status() is None:
            raise ConfigError(
                f"{self._source.url} was reopened while its jobs were copied; {self._target.url} stays "
                "closed, because the jobs would run at both stores"
            )

    def _check_arriving(self) -> None:
        if not self._is_arriving(self._target.transfer.store_status()):
            raise CopyFinished

    def _set_statuses(self) -> None:
        """Set the status of both stores if they have none. Other moves may do so concurrently, also of other stores."""
        source, target = self._source, self._target
        announcement = StoreStatus("arriving", source.url, -1 - secrets.randbits(40))
        is_first = self._announce(announcement)
        try:
            if self._is_arriving(source.transfer.store_status()):  # the status just set under the other URL
                raise ConfigError(f"{source.url} and {target.url} are the same store; nothing was changed")
            if not source.transfer.set_status(StoreStatus("moved", target.url, source.clock.now()), expected=None):
                self._refuse_elsewhere(source.transfer.store_status(), None)
                # Closed before our announcement: that copy has finished. A later copy would have replaced our
                # announcement.
                if is_first and target.transfer.set_status(None, expected=announcement):
                    raise CopyFinished
        except BaseException:
            if is_first:
                self._withdraw(announcement)
            raise
        target_status = target.transfer.store_status()
        if target_status is not None and self._is_arriving(target_status) and target_status.at <= 0:
            target.transfer.set_status(
                StoreStatus("arriving", source.url, max(target.clock.now(), 1)), expected=target_status
            )

    def _withdraw(self, announcement: StoreStatus) -> None:
        """Clear the announcement, unless the source was closed and only the answer was lost, or that is unknown.

        A closed source and a target without a status would mean that everything is copied.
        """
        with contextlib.suppress(HeadraceError):
            source_status = self._source.transfer.store_status()
            if source_status is None or (source_status.kind, source_status.other) != ("moved", self._target.url):
                self._target.transfer.set_status(None, expected=announcement)

    def _announce(self, announcement: StoreStatus) -> bool:
        """Announce the move, or take it over from another run, alive or not; whether there was no other run."""
        transfer = self._target.transfer
        while not transfer.set_status(announcement, expected=None):
            target_status = transfer.store_status()
            self._refuse_elsewhere(None, target_status)
            if target_status is not None and (
                target_status.at > 0 or transfer.set_status(announcement, expected=target_status)
            ):
                return False
        return True

    def _wait_for_running(self, seconds: float) -> None:
        """Wait for running jobs. Those of dead workers are released at once."""
        deadline = time.monotonic() + seconds
        bell = self._source.listen("done")
        most = 0
        try:
            while True:
                while len(self._source.reap(_REAP_BATCH)) == _REAP_BATCH:
                    pass
                left = self._source.queries.count(_RUNNING).jobs
                most = max(most, left)
                if most:
                    self._progress(CopyStep("waiting", most - left, most))
                rest = deadline - time.monotonic()
                if not left or rest <= 0:
                    return
                bell.wait(min(rest, _POLL_INTERVAL))
        finally:
            bell.close()

    def _take_from_workers(self) -> list[str]:
        """Take running jobs from their workers, as if these had died; returns the ids of the jobs.

        A late success would make the copy inconsistent: a running parent with a child that no longer waits for it.
        """
        taken: list[str] = []
        while self._source.queries.count(_RUNNING).jobs:
            self._check_closed()  # an open store would let workers claim the next jobs
            some = self._source.reap(_REAP_BATCH, alive=True)
            taken += [job.id for job in some]
            if not some:  # a worker is settling the job now
                time.sleep(_SETTLE_INTERVAL)
        if taken:
            self._source.ring("commands")  # notify their workers at once, not with their next heartbeat
        return taken

    def _first_missing(self) -> int:
        """The last seq up to which all jobs are at the target, by binary search: jobs are copied in order."""
        newest = self._source.queries.find(Filter(), 1).jobs
        there, missing = 0, newest[0].seq if newest else 0
        while there < missing:
            middle = (there + missing) // 2
            job = self._source.transfer.export_jobs(middle, 1)[0].job
            if any(row.created_at == job.created_at for row in self._target.queries.get([job.id])):
                there = job.seq
            else:
                missing = middle
        return there

    def _copy_jobs(self, after: int, result: CopyResult) -> None:
        total = self._total()
        parents = self._parents_before(after)
        done = min(self._target.queries.count(Filter()).jobs, total) if after else 0
        for page in read_ahead(pages(self._source.transfer, after)):
            for portion in portions([portable(job_export) for job_export in page], export_size):
                fresh = self._target.transfer.import_records(portion, self._source.url)
                result.jobs += fresh
                result.known += len(portion) - fresh
            parents += with_dependents(page)
            done += len(page)
            self._progress(CopyStep("copying", done, total))
        self._check_arriving()
        copy_edges(self._source, self._target, parents, merged=self._into_used)

    def _parents_before(self, end: int) -> list[str]:
        """The parents among the jobs that an earlier run copied: it was interrupted before the dependencies."""
        parents: list[str] = []
        for page in pages(self._source.transfer) if end else ():
            parents += with_dependents([job_export for job_export in page if job_export.job.seq <= end])
            if page[-1].job.seq >= end:
                break
        return parents


def reopen(engine: Engine) -> StoreStatus | None:
    """Clear the store status; returns the old one."""
    store_status = engine.transfer.store_status()
    if store_status is not None:
        engine.transfer.set_status(None)
    return store_status


def _since(store_status: StoreStatus) -> str:
    return f"on {to_datetime(store_status.at):%Y-%m-%d at %H:%M} UTC"
