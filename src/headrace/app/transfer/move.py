"""Moves the jobs of one store to another: closes the source, fills the target, and opens it when it is complete.

The store status of both stores records how far a move is, so that it can be interrupted at any moment and continued by
running it again. Uses only the engine protocol.

1. `arriving` at the target, with no time but a number below 0, of whoever hung it out: it is announced
2. `moved` at the source: from here on nobody enqueues or claims there, and when all that ran has ended or was taken
   from its workers, nothing changes any more: what is carried fits together, whenever it is read
3. `arriving` at the target, with the time: jobs are on their way
4. no notice at the target: it is in use, and the source stays closed
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from headrace.app.transfer.dependencies import carry_flows, copy_edges, tie_loose, with_kin
from headrace.app.transfer.pages import (
    StoreContents,
    ahead,
    pages,
    pages_of_dead,
    portable,
    portions,
    weight,
    weight_of_dead,
)
from headrace.app.transfer.settings import carry_settings
from headrace.app.transfer.verify import CopyVerification, compare
from headrace.core.clock import to_datetime
from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State
from headrace.core.jobs.transfer import StoreStatus
from headrace.engines.protocol.engine import Engine
from headrace.engines.shared.decisions import CopyFinished
from headrace.errors import ConfigError, HeadraceError, SchemaMismatch

Stage = Literal["reading", "waiting", "carrying", "comparing"]
Standing = Literal["new", "begun", "done"]
_RUNNING = Filter(states=(State.RUNNING,))
_REAPED_AT_ONCE = 1000
_LOOK_AGAIN = 0.5
_GLANCE = 0.01


class CopyStep(Struct, frozen=True):
    """How far it is. While it waits, `done` are the jobs that no longer run."""

    stage: Stage
    done: int
    total: int


class CopyPlan(Struct):
    """What a move would copy. `has_tables`: the target already has tables."""

    standing: Standing
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
        self._loose: list[Dependency] = []

    # -- looking

    def plan(self) -> CopyPlan:
        """Read everything that would be copied; change nothing at either store."""
        _refuse_same_address(self._source, self._target)
        if not _has_tables(self._source):
            raise ConfigError(f"there are no jobs to copy: {self._source.url} has no tables of headrace")
        _refuse_old_tables(self._source)
        has_tables = _has_tables(self._target)
        if has_tables:
            _refuse_old_tables(self._target)
        plan = CopyPlan(self._standing() if has_tables else "new", has_tables, StoreContents())
        total = self._total()
        for page in ahead(pages(self._source.transfer)):
            plan.contents.add(page)
            self._progress(CopyStep("reading", plan.contents.jobs, total))
        for records in pages_of_dead(self._source.transfer):
            plan.contents.add_dead(records)
        return plan

    def standing(self) -> Standing:
        """How far the move is; ConfigError if these two stores can't be used for one."""
        _refuse_same_address(self._source, self._target)
        if not _has_tables(self._source):
            raise ConfigError(f"there are no jobs to copy: {self._source.url} has no tables of headrace")
        return self._standing()

    def _standing(self) -> Standing:
        ours, theirs = self._source.transfer.store_status(), self._target.transfer.store_status()
        self._refuse_elsewhere(ours, theirs)
        if theirs is None:
            if ours is not None:
                return "done"
            self._refuse_used()
            return "new"
        if theirs.at > 0 and ours is None:
            raise ConfigError(
                f"{self._source.url} was reopened after a part of its jobs had been copied to "
                f"{self._target.url}, where they are as of then; copy them to another, empty store"
            )
        return "begun" if theirs.at > 0 else "new"

    def _refuse_elsewhere(self, ours: StoreStatus | None, theirs: StoreStatus | None) -> None:
        """Refuse stores that take part in another move."""
        source, target = self._source.url, self._target.url
        if ours is not None and ours.kind == "arriving":
            raise ConfigError(
                f"{source} is itself being filled from {ours.other}; finish that copy first, or reopen "
                f"it with `headrace copy --reopen {source}`"
            )
        if ours is not None and ours.other != target:
            raise ConfigError(
                f"the jobs of {source} were copied to {ours.other} {_since(ours)}; to copy them from here "
                f"again, reopen it with `headrace copy --reopen {source}`"
            )
        if theirs is not None and theirs.kind == "moved":
            raise ConfigError(
                f"the jobs of {target} were themselves copied to {theirs.other} {_since(theirs)}, and what is "
                "left there is of that time; choose another store, an empty one"
            )
        if theirs is not None and theirs.other != source:
            raise ConfigError(
                f"{target} is being filled from {theirs.other}; finish that copy first, or choose another store"
            )

    def _refuse_used(self) -> None:
        if self._into_used or (
            not self._target.queries.find(Filter(), 1).jobs and not self._target.transfer.export_dead_letters("", 1)
        ):
            return
        raise ConfigError(
            f"{self._target.url} is in use: it has {self._target.queries.count(Filter())} jobs. Choose an empty store, "
            "or add --into-used to copy into it: jobs whose id exists there are skipped"
        )

    def _total(self) -> int:
        return sum(depth.jobs for depth in self._source.queries.queue_counts())

    # -- copying

    def run(self, wait: float = 30.0) -> CopyResult:
        """Copy everything, or the rest of an earlier run. Running jobs may finish within `wait` seconds."""
        standing = self.standing()
        carried = CopyResult()
        if standing == "done":
            return carried
        try:
            self._hang_notices()
            self._let_running_end(wait)
            carried.running = self._take_from_workers()
            self._carry_all(carried, is_begun=standing == "begun" and not self._into_used)
        except CopyFinished:  # another run has finished: the target is in use and changes
            self._refuse_elsewhere(None, self._target.transfer.store_status())
        return carried

    def _carry_all(self, carried: CopyResult, *, is_begun: bool) -> None:
        self._check_arriving()
        carry_settings(self._source, self._target, merged=self._into_used)
        start = self._first_missing() if is_begun else 0
        carry_flows(self._source, self._target)
        self._carry_jobs(start, carried)
        for page in pages_of_dead(self._source.transfer):
            for portion in portions(page, weight_of_dead):
                carried.dead_letters += self._target.transfer.import_dead_letters(portion, self._source.url)

    def verify(self) -> CopyVerification:
        """Compare the stores. The target may only be opened without differences."""
        total = self._total()
        verdict = compare(
            self._source,
            self._target,
            merged=self._into_used,
            progress=lambda done: self._progress(CopyStep("comparing", done, total)),
        )
        self._loose = verdict.loose
        theirs = self._target.transfer.store_status()
        if not self._is_arriving(theirs):  # another run has opened it, and it has changed since
            self._refuse_elsewhere(None, theirs)
            verdict.different, verdict.differences = 0, []
        return verdict

    def open(self) -> None:
        """Open the target for its workers."""
        self._check_closed()
        theirs = self._target.transfer.store_status()
        if self._is_arriving(theirs):
            tie_loose(self._target, self._loose)  # not before: all that was compared had to be as it was
            self._target.transfer.replace_status(theirs, None)

    def _is_arriving(self, store_status: StoreStatus | None) -> bool:
        return store_status is not None and (store_status.kind, store_status.other) == ("arriving", self._source.url)

    def _check_closed(self) -> None:
        if self._source.transfer.store_status() is None:
            raise ConfigError(
                f"{self._source.url} was reopened while its jobs were copied; {self._target.url} stays "
                "closed: else they would run at both stores"
            )

    def _check_arriving(self) -> None:
        if not self._is_arriving(self._target.transfer.store_status()):
            raise CopyFinished

    def _hang_notices(self) -> None:
        """Hang them out where none hang. Others may try the same at this moment, from or to other stores as well."""
        source, target = self._source, self._target
        mine = StoreStatus("arriving", source.url, -1 - secrets.randbits(40))
        is_first = self._announce(mine)
        try:
            if self._is_arriving(
                source.transfer.store_status()
            ):  # the one that was hung out at the other door just now
                raise ConfigError(f"{source.url} and {target.url} are the same store; nothing was changed")
            if not source.transfer.replace_status(None, StoreStatus("moved", target.url, source.clock.now())):
                self._refuse_elsewhere(source.transfer.store_status(), None)
                # Closed before our announcement: that copy has finished. A later copy would have replaced our
                # announcement.
                if is_first and target.transfer.replace_status(mine, None):
                    raise CopyFinished
        except BaseException:
            if is_first:
                self._take_back(mine)
            raise
        theirs = target.transfer.store_status()
        if theirs is not None and self._is_arriving(theirs) and theirs.at <= 0:
            target.transfer.replace_status(theirs, StoreStatus("arriving", source.url, max(target.clock.now(), 1)))

    def _take_back(self, mine: StoreStatus) -> None:
        """Take the announcement away, unless the source was closed and only the answer is lost, or nobody can tell.

        A closed source and no notice at the target would mean that all is carried.
        """
        with contextlib.suppress(HeadraceError):
            ours = self._source.transfer.store_status()
            if ours is None or (ours.kind, ours.other) != ("moved", self._target.url):
                self._target.transfer.replace_status(mine, None)

    def _announce(self, mine: StoreStatus) -> bool:
        """Announce it, or take over from a run that has, and may be cut off or on its way; whether nobody had."""
        transfer = self._target.transfer
        while not transfer.replace_status(None, mine):
            theirs = transfer.store_status()
            self._refuse_elsewhere(None, theirs)
            if theirs is not None and (theirs.at > 0 or transfer.replace_status(theirs, mine)):
                return False
        return True

    def _let_running_end(self, seconds: float) -> None:
        """Wait for running jobs. Those of dead workers are released at once."""
        deadline = time.monotonic() + seconds
        bell = self._source.listen("done")
        most = 0
        try:
            while True:
                while len(self._source.reap(_REAPED_AT_ONCE)) == _REAPED_AT_ONCE:
                    pass
                left = self._source.queries.count(_RUNNING)
                most = max(most, left)
                if most:
                    self._progress(CopyStep("waiting", most - left, most))
                rest = deadline - time.monotonic()
                if not left or rest <= 0:
                    return
                bell.wait(min(rest, _LOOK_AGAIN))
        finally:
            bell.close()

    def _take_from_workers(self) -> list[str]:
        """End what still runs, as if its workers had died; which these were.

        A late success would tear what is carried apart: of a parent that runs and a child that need not wait for it.
        """
        taken: list[str] = []
        while self._source.queries.count(_RUNNING):
            self._check_closed()  # else its workers fetch the next ones meanwhile
            some = self._source.reap(_REAPED_AT_ONCE, alive=True)
            taken += [job.id for job in some]
            if not some:  # a worker is just settling it
                time.sleep(_GLANCE)
        if taken:
            self._source.ring("orders")  # notify their workers at once, not with their next heartbeat
        return taken

    def _first_missing(self) -> int:
        """Up to where everything is there: jobs are carried in order, so half of the rest is told by a single look."""
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

    def _carry_jobs(self, after: int, carried: CopyResult) -> None:
        total = self._total()
        parents = self._parents_before(after)
        done = min(self._target.queries.count(Filter()), total) if after else 0
        for page in ahead(pages(self._source.transfer, after)):
            for portion in portions([portable(job_export) for job_export in page], weight):
                fresh = self._target.transfer.import_jobs(portion, self._source.url)
                carried.jobs += fresh
                carried.known += len(portion) - fresh
            parents += with_kin(page)
            done += len(page)
            self._progress(CopyStep("carrying", done, total))
        self._check_arriving()
        copy_edges(self._source, self._target, parents, merged=self._into_used)

    def _parents_before(self, end: int) -> list[str]:
        """The jobs that others wait for of those which an earlier run has carried; it was cut off before the bonds."""
        parents: list[str] = []
        for page in pages(self._source.transfer) if end else ():
            parents += with_kin([job_export for job_export in page if job_export.job.seq <= end])
            if page[-1].job.seq >= end:
                break
        return parents


def reopen(engine: Engine) -> StoreStatus | None:
    """Clear the store status; returns the old one."""
    store_status = engine.transfer.store_status()
    if store_status is not None:
        engine.transfer.set_status(None)
    return store_status


def file_of(engine: Engine) -> Path | None:
    """The file of an SQLite store, else None."""
    scheme, _, path = engine.url.partition(":///")
    return Path(path) if scheme == "sqlite" else None


def _has_tables(engine: Engine) -> bool:
    """Whether the store has tables of headrace. It does not create a file."""
    path = file_of(engine)
    return (path is None or path.exists()) and engine.schema()[0] > 0


def _refuse_old_tables(engine: Engine) -> None:
    found, needed = engine.schema()
    if found < needed:
        raise SchemaMismatch(
            f"{engine.url} has tables of version {found}, this headrace needs {needed}, and a dry run changes nothing; "
            f"run `headrace --url {engine.url} migrate` first"
        )


def _refuse_same_address(source: Engine, target: Engine) -> None:
    """A first look; servers have many names, so the notice tells for certain."""
    if "memory://" in (source.url, target.url):
        raise ConfigError("a memory:// store is gone when its process ends, so it can't be copied")
    ours, theirs = file_of(source), file_of(target)
    is_same_file = ours is not None and theirs is not None and ours.exists() and theirs.exists()
    if source.url == target.url or (is_same_file and os.path.samefile(str(ours), str(theirs))):
        raise ConfigError(f"{source.url} and {target.url} are the same store")


def _since(store_status: StoreStatus) -> str:
    return f"on {to_datetime(store_status.at):%Y-%m-%d at %H:%M} UTC"
