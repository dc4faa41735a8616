"""Erases everything that a store holds about the jobs of a filter.

The ids of a batch are stored in a document before its jobs are deleted, and stay until their events and audit entries
are erased too. So after a kill -9 the next erasure, of whatever filter, finishes what is left.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.app.services.services import Services
from headrace.core import audit
from headrace.core.codec import codec
from headrace.core.damaged_records import DAMAGE, read_or, readable
from headrace.core.dead_letters.records import DeadLetterFilter, RequeueRequest, snapshot_of, stored_anew
from headrace.core.documents import STAYS, Document
from headrace.core.events.webhooks import TASK as DELIVERY
from headrace.core.events.webhooks import job_of
from headrace.core.jobs.questions import KIND as QUESTION
from headrace.core.jobs.records import DeadLetterRow, Filter, JobRow, NewJob
from headrace.core.jobs.states import State, Trigger
from headrace.core.queues.limits import is_concurrency_key, lane_limits_of
from headrace.core.retention.archive import ArchiveRow, key_of, shown
from headrace.core.retention.matching import matches
from headrace.core.tasks.index import HIDDEN
from headrace.core.text import counted
from headrace.engines.shared.decisions import closed_error
from headrace.errors import HeadraceError, InvalidJob
from headrace.runtime.budgets import forget_jobs
from headrace.runtime.documents import documents_of
from headrace.runtime.jobs.rows import as_row
from headrace.runtime.payloads.payloads import ensure_deletable
from headrace.runtime.retention.payload_sweep import existing
from headrace.runtime.schedules.fire import call_of

KIND = f"{STAYS}erasing"  # ids of jobs that are deleted, or about to be, and may still be named elsewhere
ERASE = ".erase"  # the end of the names of erasures in the audit trail: they keep what was erased
_BATCH = 200  # jobs or dead letters at once: a claim may wait for a batch
_IDS_PER_PASS = 100_000  # ids in memory, for each pass through events and audit entries
_LONGEST_RUN = 3_600_000  # how long a cancelled job may run on without an outcome
_WORD = re.compile(r"[\s,;]+")
_ids = msgspec.json.Decoder(list[str]).decode


class Erasure(Struct, kw_only=True):
    """What was erased. A dry run counts up to `spooled` and changes nothing.

    `running` jobs were cancelled and still run: erase again when they have ended. `spooled` are jobs of this host that
    the server had not received. `deliveries` are those of webhooks about the jobs, `payloads` their files in the
    payload store. `events` and `audit_entries` stay without what they said about them.
    """

    dry_run: bool
    jobs: int = 0
    running: int = 0
    archived: int = 0
    dead_letters: int = 0
    schedules: int = 0
    spooled: int = 0
    deliveries: int = 0
    questions: int = 0
    payloads: int = 0
    events: int = 0
    audit_entries: int = 0

    def format_counts(self) -> str:
        """What was erased, or would be, in words."""
        parts = [
            counted(self.jobs, "job"),
            *(
                counted(count, *names)
                for count, *names in (
                    (self.archived, "archived job"),
                    (self.dead_letters, "dead letter"),
                    (self.schedules, "schedule"),
                    (self.spooled, "spooled job"),
                    (self.deliveries, "webhook delivery", "webhook deliveries"),
                    (self.questions, "question"),
                    (self.payloads, "payload"),
                    (self.events, "event"),
                    (self.audit_entries, "audit entry", "audit entries"),
                )
                if count
            ),
        ]
        return ", ".join(parts)


def erase_jobs(services: Services, which: Filter, key: str | None = None, *, dry_run: bool = False) -> Erasure:
    """Erase everything about the matching jobs, without an entry in the audit trail.

    With `key`, only of jobs with this `concurrency_key` or `rate_key`.
    """
    if not has_filter(which, key):
        raise InvalidJob("give at least one filter, for example tag='user:42'")
    if not dry_run and (store_status := services.engine.transfer.store_status()) is not None:
        raise closed_error(store_status)
    ensure_deletable(services.payloads, services.engine)
    return _Eraser(services, which, key, dry_run).run()


def has_filter(which: Filter, key: str | None) -> bool:
    """Whether this says which jobs to erase; an empty text would match all."""
    return key is not None or replace(which, text=which.text or None) != Filter()


class _Named(Struct):
    """Ids of deleted jobs that events and others may still name, with the documents that keep these ids."""

    ids: set[str] = set()
    documents: list[Document] = []


class _Eraser:
    """One erasure."""

    def __init__(self, services: Services, which: Filter, key: str | None, dry_run: bool) -> None:
        self._services = services
        self._engine = services.engine
        self._which = which
        self._key = key
        self._erasure = Erasure(dry_run=dry_run)
        self._now = self._engine.clock.now()
        self._alive = {worker.id for worker in self._engine.queries.workers() if not worker.is_silent(self._now)}

    def run(self) -> Erasure:
        erasure, which = self._erasure, self._which
        if which == Filter(ids=which.ids) and self._key is None and not erasure.dry_run:
            self._note(which.ids)  # their events may have outlived them
        self._erase_spooled()
        self._erase_schedules()
        for rows in _batches(row for row in self._services.rows_where(which) if self._has_key(row)):
            erasure.jobs += self._delete(rows)
        erasure.archived += self._delete_archived(which, lambda row: self._is_wanted(shown(row).job))
        if erasure.dry_run:
            erasure.dead_letters = sum(1 for letter in self._dead_letters() if self._is_wanted(_job_of(letter)))
            return erasure
        for named in self._noted():
            self._finish(named)
        return erasure

    def _is_wanted(self, job: JobRow) -> bool:
        return self._has_key(job) and matches(self._which, job)

    def _is_wanted_new(self, job: NewJob) -> bool:
        return self._is_wanted(as_row(job))

    def _has_key(self, job: JobRow) -> bool:
        return self._key is None or self._key in _keys_of(job)

    # -- jobs

    def _delete(self, rows: Sequence[JobRow], named: _Named | None = None) -> int:
        """Cancel and delete these jobs, but for those that still run; how many were deleted, or would be."""
        queries, erasure = self._engine.queries, self._erasure
        ids = [row.id for row in rows]
        if erasure.dry_run:
            running = sum(row.state is State.RUNNING for row in rows)
            erasure.running += running
            return len(rows) - running
        queries.move(Filter(ids=tuple(ids)), Trigger.CANCEL, len(ids))
        running_on = {row.id for row in queries.get(ids, light=True) if self._runs_on(row)}
        ended = [job_id for job_id in ids if job_id not in running_on]
        self._note(ended, named)
        deleted = queries.move(Filter(ids=tuple(ended)), Trigger.DELETE, len(ended)) if ended else []
        # A job that was run again meanwhile is not deleted.
        erasure.running += len(running_on) + len(queries.get([*{*ended} - {*deleted}], light=True))
        return len(deleted)

    def _runs_on(self, row: JobRow) -> bool:
        """Whether its function may still run, though the job is cancelled: its worker lives and has sent no outcome."""
        is_recent = self._now - (row.finished_at or 0) < _LONGEST_RUN
        if row.state is not State.CANCELLED or row.worker not in self._alive or not is_recent:
            return False
        history = self._engine.queries.details(row.id, logs=0, steps=False).history
        end = next((place for place in reversed(range(len(history))) if history[place].event == Trigger.CANCEL), None)
        return (
            end is not None
            and history[end].source == State.RUNNING
            and all(entry.event != Trigger.LEASE_LOST for entry in history[end:])
        )

    def _erase_spooled(self) -> None:
        ids: list[str] = []

        def is_wanted(job: NewJob) -> bool:
            if wanted := self._is_wanted_new(job):
                ids.append(job.id)
            return wanted

        self._erasure.spooled = self._services.erase_spooled(is_wanted, dry_run=self._erasure.dry_run)
        if not self._erasure.dry_run:
            self._note(ids)

    def _erase_schedules(self) -> None:
        if self._which.states:  # a schedule is in none
            return
        for row in self._engine.schedule_store.get():
            call = read_or(call_of, row, None)
            template = None if call is None else replace(call, created_at=row.created_at)
            if template is not None and self._is_wanted_new(template):
                if not self._erasure.dry_run:
                    self._engine.schedule_store.delete(row.id)
                self._erasure.schedules += 1

    # -- the archive

    def _delete_archived(
        self, which: Filter, is_wanted: Callable[[ArchiveRow], bool], named: _Named | None = None
    ) -> int:
        """Remove the wanted archived jobs of this filter; how many."""
        archive, count = self._services.archive, 0
        # The archive lacks these filters, or applies them to the end of a job.
        wide = replace(which, worker=None, text=None, flow=None, since=None, until=None)
        cursor, more = None, archive is not None
        while archive is not None and more:
            page = archive.find(wide, _BATCH, cursor)
            rows = [row for row in page.rows if is_wanted(row)]
            if rows and not self._erasure.dry_run:
                self._note([row.id for row in rows], named)
                archive.remove([key_of(row) for row in rows])
            count += len(rows)
            cursor, more = page.cursor, page.cursor is not None
        return count

    # -- everything else that names these jobs

    def _finish(self, named: _Named) -> None:
        erasure, store = self._erasure, self._engine.document_store
        alive = self._existing(named.ids)
        gone = named.ids - alive
        for letters in _batches(self._dead_letters()):
            if wanted := [letter for letter in letters if self._is_about(letter, gone)]:
                self._note([letter.job_id for letter in wanted], named)
                which = DeadLetterFilter(ids=tuple(letter.id for letter in wanted))
                erasure.dead_letters += self._engine.dead_letters.delete(which, len(wanted))
        about, of_webhooks = frozenset(named.ids), Filter(task=DELIVERY)
        deliveries = (
            row for row in self._services.rows_where(of_webhooks, light=False) if self._delivers(row) in about
        )
        for rows in _batches(deliveries):
            erasure.deliveries += self._delete(rows, named)
        erasure.deliveries += self._delete_archived(
            of_webhooks, lambda row: self._delivers(shown(row).job) in about, named
        )
        gone = named.ids - alive
        for keys in _batches(gone):
            for document in store.get(QUESTION, keys):
                erasure.questions += store.put((), [document])
        forget_jobs(store, gone)
        if (payloads := self._services.payloads) is not None and payloads.files is not None:
            erasure.payloads += payloads.delete_of(gone - self._existing(gone))
        erasure.events += self._engine.events.erase(named.ids)
        self._erase_audit(named.ids)
        for document in named.documents:
            if self._is_finished(document, alive):
                store.put((), [document])

    def _existing(self, ids: Iterable[str]) -> set[str]:
        """Which of these ids a job has: another erasure is about to delete it, or it is another one with that id."""
        batches = (existing(self._engine, self._services.archive, batch) for batch in _batches(ids))
        return {*itertools.chain.from_iterable(batches)}

    def _is_finished(self, document: Document, alive: Collection[str]) -> bool:
        """Whether the erasure that stored these ids needs them no more."""
        is_old = document.key < audit.key_of(self._now - _LONGEST_RUN)
        ids: list[str] = read_or(_ids, document.value, [])
        return is_old or not any(job_id in alive for job_id in ids)

    def _dead_letters(self) -> Iterator[DeadLetterRow]:
        last = None
        while page := self._engine.dead_letters.find(DeadLetterFilter(), _BATCH, last):
            yield from page
            last = page[-1].id

    def _is_about(self, letter: DeadLetterRow, ids: Collection[str]) -> bool:
        job = _job_of(letter)
        return letter.job_id in ids or self._is_wanted(job) or self._delivers(job) in ids

    def _delivers(self, job: JobRow) -> str | None:
        """The job whose event a job of a webhook delivers; None for any other job."""
        if job.task != DELIVERY:
            return None
        try:
            args, _ = codec.decode_call(self._services.decrypted(job.payload, "call", job.task))
            return job_of(args[2])
        except (HeadraceError, *DAMAGE, LookupError, TypeError):
            return None

    def _erase_audit(self, ids: Collection[str]) -> None:
        store = self._engine.document_store
        names = {(self._which.tag or "").removeprefix(HIDDEN), self._key or ""} - {""}
        for document in documents_of(store, audit.KIND):
            for entry in readable(audit.entry_of, [document]):
                words = {*itertools.chain.from_iterable(map(_words, _texts([entry.target, entry.detail])))}
                is_named = not words.isdisjoint(ids) or not words.isdisjoint(names)
                if is_named and not entry.what.endswith(ERASE):
                    self._erasure.audit_entries += store.put([audit.erased(document)])

    # -- ids, until all is done

    def _note(self, ids: Sequence[str], named: _Named | None = None) -> None:
        """Store the ids of jobs that are about to be deleted."""
        if not ids:
            return
        key = f"{audit.key_of(self._now)}-{secrets.token_hex(6)}"
        document = Document(KIND, key, 0, msgspec.json.encode(ids).decode())
        self._engine.document_store.put([document])
        if named is not None:
            named.ids.update(ids)
            named.documents.append(replace(document, version=1))

    def _noted(self) -> Iterator[_Named]:
        """The stored ids, part by part: one even without any, since dead letters may match."""
        named = _Named()
        for document in documents_of(self._engine.document_store, KIND):
            named.ids.update(read_or(_ids, document.value, []))
            named.documents.append(document)
            if len(named.ids) >= _IDS_PER_PASS:
                yield named
                named = _Named()
        yield named


def _job_of(letter: DeadLetterRow) -> JobRow:
    """The job as it failed."""
    snapshot = snapshot_of(letter)
    job = as_row(stored_anew(letter, RequeueRequest(letter.id), letter.entered_at))
    return replace(job, state=State.FAILED, worker=snapshot.worker, flow=snapshot.flow)


def _keys_of(job: JobRow) -> set[str]:
    """The keys that a user gave to its limits."""
    return {name for kind, name in lane_limits_of(job.lane) if kind == "rate" or is_concurrency_key(kind, name)}


def _batches(items: Iterable[Any]) -> Iterator[list[Any]]:
    remaining = iter(items)
    while batch := list(itertools.islice(remaining, _BATCH)):
        yield batch


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _texts(each)


def _words(text: str) -> list[str]:
    return [text, *_WORD.split(text)]
