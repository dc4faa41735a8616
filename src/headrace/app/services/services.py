"""Serves job handles: queries, waiting, and the known tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import structs

from headrace.app.services import archived_jobs
from headrace.app.services.declared_tasks import DeclaredTasks
from headrace.app.services.held_by_parents import BY_PARENTS, holds, refuse_without_parent
from headrace.app.services.questions import explain_question, stored_question
from headrace.app.services.waiting import JobWaits
from headrace.app.services.why import explain, explain_error, explain_spooled, explain_stale
from headrace.core.clock import Clock, to_datetime
from headrace.core.codec import codec
from headrace.core.codec.encryption import Cipher
from headrace.core.codec.secret_names import words_of
from headrace.core.damaged_records import read
from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.events.history import AttemptError, HistoryEntry, errors_of, timeline
from headrace.core.jobs.budgets import Spending, budgets_of, costs_of
from headrace.core.jobs.dependencies import Dependency, FlowSummary
from headrace.core.jobs.details import log_and_stream
from headrace.core.jobs.explanation import Explanation, Remedy
from headrace.core.jobs.records import Filter, JobRow, JobRowPage, JobUpdate, LogLine, NewJob
from headrace.core.jobs.states import FINAL, State, Trigger, sources
from headrace.core.jobs.steps import is_awaiting
from headrace.core.retention.lifecycle import Lifecycle, Policies, PolicyRow, StoredPolicy, with_declared
from headrace.core.retention.staleness import check_staleness, job_age_of
from headrace.core.settings.settings import Settings
from headrace.core.tasks.index import Places, places_of
from headrace.core.text import short
from headrace.core.worker_commands import with_log_level
from headrace.engines.protocol.archive import Archive
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable, FlowNotFound, InvalidJob, JobNotFound
from headrace.runtime import budgets
from headrace.runtime.jobs.job import ARCHIVED, SPOOLED
from headrace.runtime.jobs.services import LogEntry
from headrace.runtime.jobs.task import Task
from headrace.runtime.payloads.payloads import Payloads, loaded
from headrace.runtime.retention.archived import last_ends
from headrace.runtime.retention.policies import policies as stored_policies
from headrace.runtime.submit.dependencies import rows_of

if TYPE_CHECKING:
    from headrace.app.services.streams import JobStream
    from headrace.runtime.spool.spool import Spool

_BATCH = 1000


class Services:
    """Serves the handles of one app."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        find_task: Callable[[str], Task[..., Any, Any] | None],
        settings: Settings,
        spool: Spool | None = None,
    ) -> None:
        self._find_task = find_task
        self.tasks: Mapping[str, Task[..., Any, Any]] = {}  # registered ones
        self._archive_of: tuple[Engine, Engine | None] = (engine, None)
        self.settings = settings
        self.cipher = Cipher(settings.encryption_keys) if settings.encryption_keys else None
        has_payloads = self.cipher is not None or settings.payload_store is not None
        self.payloads = Payloads(engine, clock, settings, self.cipher) if has_payloads else None
        self.words = words_of(settings.secret_words)
        self.attach(engine, clock, spool)

    def attach(self, engine: Engine, clock: Clock, spool: Spool | None = None) -> None:
        """Use this store from now on; current waiters stay at the old one."""
        self.engine = engine
        self.clock = clock
        if self.payloads is not None:
            self.payloads.attach(engine, clock)
        self._spool = spool
        self._declared = DeclaredTasks(engine)
        self.waits = JobWaits(engine, spool)

    def use_archive(self, store: Engine | None) -> None:
        """Use a separate store as the archive."""
        self._archive_of = (self.engine, store)

    @property
    def archive(self) -> Archive | None:
        """The archive of the current store."""
        engine, store = self._archive_of
        return store.archive if store is not None and engine is self.engine else self.engine.archive

    def policies(self) -> list[PolicyRow]:
        """The lifecycle policies of tasks and queues, from the store and the known code."""
        return with_declared(stored_policies(self.engine.document_store), declared_by(self.tasks))

    def close(self) -> None:
        self.waits.close()

    def command_worker(self, worker_id: str, command: str) -> bool:
        """Send a worker the command run, pause or stop; False if it is unknown."""
        if not isinstance(worker_id, str):
            raise InvalidJob(f"worker: expected its id, got {short(worker_id)}", value=worker_id)
        return self.engine.queries.command_worker(worker_id, command)

    def set_log_level(self, worker_id: str, level: str) -> bool:
        """Set the log level of a worker, next to other commands; False if it is unknown."""
        from headrace.runtime.context.logs import levels_in  # deferred, as above

        levels_in(level)
        commands = {row.id: row.command for row in self.engine.queries.workers()}
        return worker_id in commands and self.command_worker(worker_id, with_log_level(commands[worker_id], level))

    def row(self, job_id: str, *, light: bool = True) -> JobRow:
        """The job from the store, the spool or the archive."""
        try:
            rows = self.engine.queries.get([job_id], light=light)
        except EngineUnavailable:
            if (spooled := self._spooled(job_id)) is None:
                raise
            return spooled
        if rows:
            return rows[0]
        if (found := self._spooled(job_id) or archived_jobs.archived_row(self.archive, job_id)) is None:
            raise JobNotFound(job_id)
        return found

    def _spooled(self, job_id: str) -> JobRow | None:
        return None if self._spool is None else self._spool.row(job_id)

    def move(self, which: Filter, event: Trigger, *, without_parents: bool = False, most: int = 1 << 40) -> list[str]:
        """Apply the event once to each job that matches now, a bounded batch at a time, and to `most` at most.

        The jobs are found first, without blocking writers, and then changed by id: a job that is retried and finishes
        again meanwhile must not be retried twice. A job that was cancelled because of a parent is retried with that
        parent, and not alone unless `without_parents`; if there are only such jobs, that raises.
        """
        alone = event is Trigger.REVIVE and not without_parents
        if alone and which.ids:
            held = self._held_by_parents(self.engine.queries.get(which.ids, light=True))
            which = structs.replace(which, ids=tuple(job_id for job_id in which.ids if job_id not in held))
            if not which.ids:
                refuse_without_parent(held)
        if which.ids:
            done = self.engine.queries.move(which, event, min(len(which.ids), most))
            if not done:
                self._refuse_if_spooled(which.ids)
            if event is Trigger.DELETE and len(done) < len(which.ids):
                rest = sorted({*which.ids} - {*done})[: most - len(done)]
                done += archived_jobs.delete(self.engine, self.archive, rest)
            elif not done and event is Trigger.REVIVE:
                self._refuse_if_archived(which.ids)
            return done
        moved: list[str] = []
        states = tuple(state for state in (which.states or sources(event)) if state in sources(event))
        page = JobRowPage([], None) if not states else self._matching(which, states, None)
        while page.jobs:
            held = self._held_by_parents(page.jobs) if alone else {}
            ids = tuple(row.id for row in page.jobs if row.id not in held)
            moved += self.engine.queries.move(Filter(ids=ids, states=states), event, min(len(ids), most - len(moved)))
            more = page.cursor if len(moved) < most else None
            page = self._matching(which, states, more) if more else JobRowPage([], None)
        return moved

    def _held_by_parents(self, rows: Sequence[JobRow]) -> dict[str, JobRow]:
        """Jobs cancelled because of how a parent ended, each with that parent."""
        ids = {row.id for row in rows if row.reason in BY_PARENTS and row.state is State.CANCELLED}
        edges = [edge for edge in self.edges(sorted(ids)) if edge.child in ids] if ids else []
        parents = self.rows([edge.parent for edge in edges])
        return {edge.child: parents[edge.parent] for edge in edges if holds(edge, parents.get(edge.parent))}

    def _matching(self, which: Filter, states: tuple[State, ...], cursor: str | None) -> JobRowPage:
        return self.engine.queries.find(structs.replace(which, states=states), _BATCH, cursor, light=True)

    def update(self, job_id: str, changes: JobUpdate) -> bool:
        changed = self.engine.queries.update(job_id, changes)
        if not changed:
            self._refuse_if_spooled([job_id])
        return changed

    def signal(self, job_id: str, name: str, data: Any) -> bool:
        value, checksum = None, None
        if data is not None:
            text = codec.encode(data, models=True, limit=self.settings.max_payload, where="data")
            value = self.encrypted(text, f"event {name}", job_id)
            checksum = codec.checksum(value)
        is_open = self.engine.queries.signal(job_id, name, value, checksum)
        if not is_open:
            self._refuse_if_spooled([job_id])
        return is_open

    def erase_spooled(self, wanted: Callable[[NewJob], bool], *, dry_run: bool) -> int:
        """Remove the jobs that are wanted from the spool of this host; how many."""
        return 0 if self._spool is None else self._spool.erase(wanted, dry_run=dry_run)

    def _refuse_if_spooled(self, ids: Iterable[str]) -> None:
        """Raise for a spooled job: only the store can change it, and False would mean that it is finished."""
        if self._spool is not None and (held := next(filter(self._spool.holds, ids), None)):
            raise EngineUnavailable(f"job {held} still waits in the spool; try again after it is forwarded")

    def _refuse_if_archived(self, ids: Sequence[str]) -> None:
        rows = [] if self.archive is None else archived_jobs.only_archived(self.engine, last_ends(self.archive, ids))
        for row in rows:
            raise InvalidJob(
                f"job {row.id} is in the archive; app.lifecycle.restore({row.id!r}), or "
                f"`headrace archive restore {row.id}`, brings it back to run again"
            )

    def wait(self, job_id: str, timeout: float | None, *, spooled: bool = False) -> bool:
        return self.waits.wait(job_id, timeout, spooled)

    async def await_finish(self, job_id: str, timeout: float | None, *, spooled: bool = False) -> bool:
        return await self.waits.await_finish(job_id, timeout, spooled)

    def history_of(self, row: JobRow) -> tuple[list[HistoryEntry], list[AttemptError]]:
        if row.seq == ARCHIVED:
            archived = archived_jobs.archived_job(self.archive, row.id, row.created_at)
            history_rows = [] if archived is None else archived.history
        else:
            history_rows = (
                [] if row.seq == SPOOLED else self.engine.queries.details(row.id, logs=0, steps=False).history
            )
        return timeline(row, history_rows), errors_of(history_rows)

    def log_lines(self, row: JobRow) -> list[LogEntry]:
        if row.seq == SPOOLED:
            return []
        if row.seq == ARCHIVED:
            archived = archived_jobs.archived_job(self.archive, row.id, row.created_at)
            lines = [] if archived is None else log_and_stream(archived.logs)[0]
        else:
            lines = self.engine.queries.details(row.id, history=False, steps=False).logs
        return [self.log_entry(row.id, line) for line in lines]

    def stream_of(self, row: JobRow) -> JobStream:
        from headrace.app.services.streams import JobStream  # deferred: many programs never read a stream

        return JobStream(self, row)

    def log_entry(self, job_id: str, line: LogLine) -> LogEntry:
        """A decrypted log line."""
        at = to_datetime(line.at)
        assert at is not None
        message = self.decrypted(line.message, "log", job_id)
        stored = self.decrypted(line.fields, "fields", job_id) if line.fields else "{}"
        fields = read(codec.decode, stored)
        return LogEntry(at, line.attempt, line.level, message, fields if isinstance(fields, dict) else {})

    def explain(self, row: JobRow) -> Explanation:
        if row.seq == SPOOLED and row.state not in FINAL and self._spool is not None:
            return Explanation(explain_spooled(*self._spool.place(row.id)))
        found = self._explain_question(row) or explain(
            row, self.engine, self.clock.now(), self.engine.transfer.store_status()
        )
        if row.state in (State.FAILED, State.RETRYING):
            found = found.plus(explain_error(self.history_of(row)[1]))
        if row.seq == ARCHIVED:
            return found.plus(" It is in the archive.")
        if row.state is State.FAILED:
            return self._with_dead_letter(row, found)
        return found if row.state in FINAL else found.plus(self._describe_staleness(row))

    def _explain_question(self, row: JobRow) -> Explanation | None:
        if not is_awaiting(row.reason):
            return None
        return explain_question(row, stored_question(self.engine, self.decrypted, row.id), self.clock.now())

    def _describe_staleness(self, row: JobRow) -> str:
        policies = Policies(self.policies(), self.settings)
        found = check_staleness(
            job_age_of(row, self.engine.queries.details(row.id, logs=0, steps=False).history),
            policies,
            self.clock.now(),
        )
        return "" if found is None else explain_stale(found)

    def _with_dead_letter(self, row: JobRow, found: Explanation) -> Explanation:
        for dead_letter in self.engine.dead_letters.find(DeadLetterFilter(latest_of=(row.id,)), 1):
            command = f"headrace dead show {dead_letter.id}"
            remedy = Remedy(verb="show_dead_letter", target=dead_letter.id, words="show it with", command=command)
            return Explanation(f"{found.text} Its dead letter {dead_letter.id} is {dead_letter.status}.", remedy)
        return found

    def edges(self, ids: Sequence[str]) -> list[Dependency]:
        """All dependencies of these jobs, each once."""
        pages = (ids[start : start + _BATCH] for start in range(0, len(ids), _BATCH))
        found = {(edge.parent, edge.child): edge for page in pages for edge in self.engine.flow_store.edges(page)}
        return list(found.values())

    def rows(self, ids: Sequence[str], *, light: bool = True) -> dict[str, JobRow]:
        """The existing jobs among these, by id."""
        return rows_of(self.engine.queries, ids, light=light)

    def rows_where(self, which: Filter, *, light: bool = True) -> Iterator[JobRow]:
        """Every job that matches, newest first."""
        cursor = None
        while True:
            page = self.engine.queries.find(which, _BATCH, cursor, light=light)
            yield from page.jobs
            cursor = page.cursor
            if cursor is None:
                return

    def newest(self, which: Filter) -> JobRow | None:
        return next(iter(self.engine.queries.find(which, 1, light=True).jobs), None)

    def flow_summary(self, flow_id: str) -> FlowSummary:
        found = self.engine.flow_store.flows(1, ids=[flow_id])
        if not found:
            raise FlowNotFound(flow_id)
        return found[0]

    def spending_of_flow(self, flow_id: str, ceiling: int | None = None) -> Spending | None:
        """What its jobs have reported, None if it has no budget; with a ceiling, that is its budget from now on."""
        store = self.engine.document_store
        found = budgets.spendings_of(store, [flow_id]).get(flow_id)
        return found if found is None or ceiling is None else budgets.set_ceiling(store, flow_id, ceiling)

    def cost_of(self, row: JobRow) -> int:
        """The units that the runs of a job have reported."""
        stored = row.seq not in (SPOOLED, ARCHIVED) and budgets_of(row.options) is not None
        steps = self.engine.queries.details(row.id, history=False, logs=0).steps if stored else []
        return sum(costs_of(steps).values())

    def decrypted(self, text: str, what: str, whom: str) -> str:
        """Decrypt a stored text, and load it if it is in the payload store; the other arguments are its context."""
        return loaded(self.payloads, text, what, whom)

    def encrypted(self, text: str, what: str, whom: str) -> str:
        """Encrypt a text for storage."""
        return text if self.cipher is None else self.cipher.encrypted(text, what, whom)

    def task(self, name: str) -> Task[..., Any, Any] | None:
        """The task of that name, if the app knows its code."""
        return self._find_task(name)

    def rebuild_result(self, task: str, value: Any) -> Any:
        known = self._find_task(task)
        return value if known is None else known.signature.rebuild_result(value)

    def parameter_names(self, task: str) -> Sequence[str] | None:
        if (known := self._find_task(task)) is not None:
            return known.signature.positional
        declared = self._declared.find(task)
        return None if declared is None else declared.positional

    def index_of(self, task: str) -> Places:
        """Which arguments of a task are indexed, as its code or a worker declares."""
        if (known := self._find_task(task)) is not None:
            return known.indexed
        declared = self._declared.find(task)
        # Where arguments are encrypted, no index may hold them in clear.
        return () if declared is None or self.cipher is not None else places_of(declared.index, declared.positional)

    def is_indexed(self, parameter: str) -> bool:
        """Whether any known task has an index of a parameter of this name."""
        known = (name for task in self.tasks.values() for name, _ in task.indexed)
        declared = (name for task in self._declared.all().values() for name in task.index)
        return parameter in {*known, *declared}

    def secrets(self, task: str) -> tuple[str, ...]:
        if (known := self._find_task(task)) is not None:
            return known.options.redact or ()
        declared = self._declared.find(task)
        return () if declared is None else declared.redact


def declared_by(tasks: Mapping[str, Task[..., Any, Any]]) -> dict[str, StoredPolicy]:
    """The lifecycle policies in the definitions of these tasks."""
    return {
        name: structs.replace(
            (task.options.lifecycle or Lifecycle()).policy(),
            remove_on_complete=task.options.remove_on_complete,
            remove_on_fail=task.options.remove_on_fail,
        )
        for name, task in tasks.items()
    }
