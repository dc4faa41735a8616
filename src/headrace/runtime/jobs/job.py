"""The handle of a stored job: read it, wait for it, act on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from headrace.core.clock import to_datetime
from headrace.core.codec import codec
from headrace.core.codec.payload_refs import refuse_large
from headrace.core.codec.redaction import MASK, redact, redact_call, without_positions
from headrace.core.damaged_records import read, read_or, tags_of
from headrace.core.events.history import AttemptError, HistoryEntry
from headrace.core.events.stream import Chunk
from headrace.core.jobs.explanation import Explanation
from headrace.core.jobs.light_rows import completed, lacks_payload, lacks_result, with_known
from headrace.core.jobs.records import Filter, JobOptions, JobRow, NewJob
from headrace.core.jobs.states import FINAL, State, Trigger
from headrace.core.option_times import check_timeout
from headrace.core.tasks.arguments import by_name
from headrace.core.tasks.other_libraries import JOB_ATTRIBUTES, unknown_attribute
from headrace.core.tasks.trace_context import correlation_of, decoded
from headrace.errors import JobCancelled, JobFailed, JobNotFound
from headrace.runtime.jobs.async_twin import twin
from headrace.runtime.jobs.rows import as_row, job_update, moment_of
from headrace.runtime.jobs.services import JobServices, LogEntry
from headrace.runtime.jobs.stored_result import stored_result

R = TypeVar("R")
_options = msgspec.json.Decoder(JobOptions)
SPOOLED = -1  # the `seq` of a job that waits in the spool and has no number yet
ARCHIVED = -2  # the `seq` of an archived job


class Job(Generic[R]):
    """A job in the store. Its attributes are as of the last refresh(); `state` never goes stale by itself.

    Long arguments and results are read at their first use.
    """

    __slots__ = ("_record", "_services")

    def __init__(self, services: JobServices, record: NewJob | JobRow) -> None:
        self._services = services
        self._record = record

    # -- attributes

    @property
    def row(self) -> JobRow:
        """The stored record behind the attributes, maybe a light one: see core.jobs.light_rows."""
        if isinstance(self._record, NewJob):
            self._record = as_row(self._record)
        return self._record

    @property
    def full_row(self) -> JobRow:
        """The same with its arguments and its result, which are read now if they are long."""
        row = self.row
        if lacks_payload(row) or lacks_result(row):
            whole = self._services.row(self.id, light=False)
            if whole.created_at != row.created_at:  # that job is gone, and another one has its id
                raise JobNotFound(self.id)
            self._record = row = completed(row, whole)
        return row

    @property
    def id(self) -> str:
        return self._record.id

    @property
    def task(self) -> str:
        return self._record.task

    @property
    def queue(self) -> str:
        return self._record.queue

    @property
    def state(self) -> State:
        return self._record.state

    @property
    def priority(self) -> int:
        return self._record.priority

    @property
    def attempt(self) -> int:
        return self.row.attempt

    @property
    def max_attempts(self) -> int:
        return self._record.max_attempts

    @property
    def args(self) -> tuple[Any, ...]:
        return self._call()[0]

    @property
    def kwargs(self) -> dict[str, Any]:
        return self._call()[1]

    @property
    def created_at(self) -> datetime:
        return moment_of(self._record.created_at)

    @property
    def run_at(self) -> datetime:
        return moment_of(self._record.run_at)

    @property
    def expires_at(self) -> datetime | None:
        return to_datetime(self._record.expires_at)

    @property
    def started_at(self) -> datetime | None:
        return to_datetime(self.row.started_at)

    @property
    def finished_at(self) -> datetime | None:
        return to_datetime(self.row.finished_at)

    @property
    def updated_at(self) -> datetime:
        """When its state or its options last changed."""
        return moment_of(self.row.updated_at or self._record.created_at)

    @property
    def worker(self) -> str | None:
        return self.row.worker

    @property
    def reason(self) -> str | None:
        """Why the job is in its state, if known."""
        return self.row.reason

    @property
    def progress(self) -> Any:
        stored = self.row.progress
        return codec.decode(self._services.decrypted(stored, "progress", self.id)) if stored else None

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags; none if they are damaged."""
        return tags_of(self._record.tags)

    @property
    def metadata(self) -> dict[str, Any]:
        """Its metadata; empty if damaged."""
        found = read(decoded, self._record.metadata)
        return found if isinstance(found, dict) else {}

    @property
    def correlation_id(self) -> str:
        """The id that links it to everything with the same cause: given, inherited, or else its own id."""
        return correlation_of(self._record.metadata, self.id)

    @property
    def flow(self) -> str | None:
        """The id of its flow."""
        return self._record.flow

    @property
    def result_ref_id(self) -> str:
        """As an argument of another job, which then waits for this one, a handle stands for this job's result."""
        return self.id

    @property
    def is_finished(self) -> bool:
        return self.state in FINAL

    @property
    def spooled(self) -> bool:
        """Whether it waits in the spool of this host, because the server was unavailable."""
        return isinstance(self._record, JobRow) and self._record.seq == SPOOLED and not self.is_finished

    @property
    def archived(self) -> bool:
        """Whether it has moved to the archive, where it can be read and deleted."""
        return isinstance(self._record, JobRow) and self._record.seq == ARCHIVED

    @property
    def errors(self) -> list[AttemptError]:
        """The error of every attempt that failed, oldest first."""
        return self._services.history_of(self._current())[1]

    @property
    def cost(self) -> int:
        """The units that all its runs have reported; 0 if neither it nor its flow has a budget."""
        return self._services.cost_of(self._current())

    def redacted_call(self, most: int | None = 0) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as they may be shown: values that `redact` names, or whose names look secret, are masked.

        NotLoaded if they are in the payload store and have more than `most` bytes: a list or a page must not load them.
        """
        args, kwargs = self._call(most)
        if (options := self._options()) is None:  # unknown what to mask
            return (MASK,) * len(args), dict.fromkeys(kwargs, MASK)
        names = self._services.parameter_names(self.task)
        hidden = without_positions(args, options.redact_args)
        return redact_call(names, hidden, kwargs, self._secrets(options), self._services.words)

    def redacted_arguments(self, most: int | None = 0) -> dict[str, Any]:
        """The same by the names of the parameters, as far as a worker or this process knows the task."""
        return by_name(self._services.parameter_names(self.task), *self.redacted_call(most))

    def opened(self, what: str, stored: str, most: int | None = 0) -> str:
        """The job's stored result or progress, decrypted; `most` as for `redacted_call`."""
        refuse_large(stored, most)
        return self._services.decrypted(stored, what, self.id)

    def redacted(self, value: Any) -> Any:
        """Other data of the job, such as its result or its progress, as it may be shown."""
        if (options := self._options()) is None:  # as above
            return dict.fromkeys(value, MASK) if isinstance(value, dict) else MASK
        return redact(value, self._secrets(options), self._services.words)

    def _options(self) -> JobOptions | None:
        """The options of its call; None if they are damaged."""
        return read_or(_options.decode, self._record.options, None) if self._record.options else JobOptions()

    def _secrets(self, options: JobOptions) -> frozenset[str]:
        return frozenset((*options.redact, *self._services.secrets(self.task)))

    # -- following it

    def refresh(self) -> Job[R]:
        """Read the job again; JobNotFound if it is gone."""
        self._record = with_known(self._services.row(self.id), self._record)
        return self

    def wait(self, timeout: float | None = None) -> State:
        """Wait until the job is finished, through its retries, and return its final state."""
        self._wait(timeout)
        return self.refresh().state

    def _wait(self, timeout: float | None) -> None:
        seconds = check_timeout("timeout", timeout)
        if not self.refresh().is_finished and not self._services.wait(self.id, seconds, spooled=self.spooled):
            raise TimeoutError(f"job {self.id} is {self.refresh().state} after {seconds:g} s: {self.why()}")

    def result(self, timeout: float | None = None) -> R:
        """Wait for the job and return what its task returned."""
        self._wait(timeout)
        return self._read_outcome()

    def _read_outcome(self) -> R:
        self._record = self._services.row(self.id, light=False)  # at once: it may be gone or run again a moment later
        return self.outcome()

    async def await_(self, timeout: float | None = None) -> State:
        """Like wait(), without blocking the event loop."""
        await self._await(timeout)
        return (await self.arefresh()).state

    async def _await(self, timeout: float | None) -> None:
        seconds = check_timeout("timeout", timeout)
        await self.arefresh()
        if not self.is_finished and not await self._services.await_finish(self.id, seconds, spooled=self.spooled):
            raise TimeoutError(f"job {self.id} is not finished after {seconds:g} s: {await self.awhy()}")

    async def aresult(self, timeout: float | None = None) -> R:
        """Like result(), without blocking the event loop."""
        await self._await(timeout)
        return await self._aread_outcome()

    def __await__(self) -> Generator[Any, None, R]:
        return self.aresult().__await__()

    def logs(self) -> list[LogEntry]:
        """The lines the job logged with current_job().log(), oldest first."""
        return self._services.log_lines(self._current())

    def stream(self, after: str | None = None, *, follow: bool = True) -> Iterator[Chunk]:
        """The chunks of its stream behind a cursor, oldest first; with `follow`, as they come until it is finished."""
        return self._services.stream_of(self.row).read(after, follow=follow)

    def astream(self, after: str | None = None, *, follow: bool = True) -> AsyncIterator[Chunk]:
        """Like stream(), for `async for`."""
        return self._services.stream_of(self.row).aread(after, follow=follow)

    def history(self) -> list[HistoryEntry]:
        """The history of the job, oldest first."""
        return self._services.history_of(self._current())[0]

    def why(self) -> str:
        """One sentence: why the job is not running now, or what it is doing."""
        return self.explain().sentence

    def explain(self) -> Explanation:
        """Why the job is not running now as data: the cause, and what an operator can do about it."""
        return self._services.explain(self._current())

    def parents(self) -> list[Job[Any]]:
        """The jobs it waits for, or waited for."""
        return self._related(edge.parent for edge in self._services.edges([self.id]) if edge.child == self.id)

    def children(self) -> list[Job[Any]]:
        """The jobs that wait for it, or did."""
        return self._related(edge.child for edge in self._services.edges([self.id]) if edge.parent == self.id)

    def _related(self, ids: Iterable[str]) -> list[Job[Any]]:
        rows = self._services.rows(list(ids))
        return [Job(self._services, row) for row in sorted(rows.values(), key=lambda row: row.seq)]

    # -- acting on it

    def cancel(self) -> bool:
        """Cancel the job; a running attempt is asked to stop and can't change it any more. False if it had finished."""
        return self._apply(Trigger.CANCEL)

    def retry(self, *, without_parents: bool = False) -> bool:
        """Run a finished job again, with fresh attempts. False if it is not finished.

        A job that was cancelled because a parent did not complete is refused with InvalidJob: retry that parent, and
        this one runs after it. With `without_parents` it runs anyway.
        """
        moved = bool(self._services.move(Filter(ids=(self.id,)), Trigger.REVIVE, without_parents=without_parents))
        self.refresh()
        return moved

    def promote(self) -> bool:
        """Run a scheduled, retrying or waiting job now, without its parents. False if it is none of these."""
        return self._apply(Trigger.PROMOTE_NOW)

    def delete(self) -> bool:
        """Remove the job and its history, also from the archive. False if it is running or already gone."""
        return bool(self._services.move(Filter(ids=(self.id,)), Trigger.DELETE))

    def update(self, *, priority: int | None = None, run_at: datetime | None = None, queue: str | None = None) -> bool:
        """Change a job that has not started. False if it has."""
        changed = self._services.update(self.id, job_update(priority, run_at, queue))
        self.refresh()
        return changed

    arefresh = twin(refresh)
    _aread_outcome = twin(_read_outcome)
    alogs = twin(logs)
    ahistory = twin(history)
    awhy = twin(why)
    aexplain = twin(explain)
    aparents = twin(parents)
    achildren = twin(children)
    acancel = twin(cancel)
    aretry = twin(retry)
    apromote = twin(promote)
    adelete = twin(delete)
    aupdate = twin(update)

    def _current(self) -> JobRow:
        """The present row; an archived job stays as it is, and another job may have its id by now."""
        return self.row if self.archived else self._services.row(self.id)

    def _apply(self, event: Trigger) -> bool:
        moved = bool(self._services.move(Filter(ids=(self.id,)), event))
        self.refresh()
        return moved

    def _call(self, most: int | None = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        record = self._record if isinstance(self._record, NewJob) else self.full_row
        codec.verify(record.payload, record.checksum)
        refuse_large(record.payload, most)
        return codec.decode_call(self._services.decrypted(record.payload, "call", self.task))

    def outcome(self) -> R:
        """What result() returns or raises, without waiting, for a job that had finished at the last refresh()."""
        row = self.row
        if row.state is State.CANCELLED:
            raise JobCancelled(self.id, row.reason)
        if row.state is State.FAILED:
            raise self._failure()
        if row.result is None:
            return None  # type: ignore[return-value]  # it is what the task returned
        text = stored_result(self._services, self.full_row)
        value: R = self._services.rebuild_result(row.task, codec.decode(text))
        return value

    def _failure(self) -> JobFailed:
        last = next(reversed(self.errors), None)
        error = (last.type, last.message, last.traceback) if last else (None, None, None)
        return JobFailed(self.id, self.row.reason or "failed", *error)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    if not TYPE_CHECKING:
        __getattr__ = unknown_attribute("a job", JOB_ATTRIBUTES)

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.task} {self.state}>"
