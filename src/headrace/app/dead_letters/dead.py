"""`app.dead`: inspect dead letters, requeue or resolve them."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from msgspec.structs import replace

from headrace.app.dead_letters.records import (
    BulkRequeue,
    DeadGroup,
    DeadLetter,
    DeadPage,
    DeadStats,
    RequeueResult,
    dead_letter_of,
    group_of,
    moment,
    result_of,
    stats_of,
)
from headrace.app.services.services import Services
from headrace.core.codec import codec
from headrace.core.codec.result_refs import MARK
from headrace.core.damaged_records import tags_of
from headrace.core.dead_letters.records import (
    BY_HAND,
    RESOLUTIONS,
    STATUSES,
    DeadLetterFilter,
    NewDeadLetter,
    RequeueRequest,
    Status,
    kept_history,
    snapshot_of,
)
from headrace.core.events.history import HistoryEntry, recorded_entries
from headrace.core.jobs.fingerprint import fingerprint
from headrace.core.jobs.records import DeadLetterRow, ErrorInfo
from headrace.core.jobs.states import State
from headrace.core.option_times import check_moment, check_wait
from headrace.core.queues.rates import as_rate
from headrace.core.settings.settings import Settings
from headrace.core.tasks.index import index_tags
from headrace.core.tasks.options import HIGHEST_PRIORITY, LOWEST_PRIORITY, check_limit, check_text
from headrace.core.text import short
from headrace.engines.shared.sql_files import as_json
from headrace.errors import ConfigError, DeadLetterClosed, DeadLetterNotFound, InvalidJob, JobNotFound
from headrace.runtime.jobs.async_twin import twin
from headrace.runtime.jobs.task import Task
from headrace.runtime.payloads.payloads import limit_of

_BATCH = 500  # records per commit
_UNLIMITED = 1 << 40
_FILTERS = ("reason", "task", "queue", "fingerprint", "since", "until")
_KEEP = 30 * 86_400  # seconds


class Dead:
    """`app.dead`. The filters are the same everywhere: reason, task, queue, fingerprint, since, until."""

    def __init__(
        self, services: Services, task_by_name: Callable[[str], Task[..., Any, Any]], settings: Settings
    ) -> None:
        self._services = services
        self._task_by_name = task_by_name
        self._settings = settings

    # -- reading

    def list(
        self,
        /,
        *,
        status: str | None = "pending",
        limit: int = 50,
        cursor: str | None = None,
        **filters: Any,
    ) -> DeadPage:
        """The matching dead letters, newest first; with `status=None`, of every status."""
        which = _filter(status, filters)
        most = check_limit("limit", limit)
        before = None if cursor is None else check_text("cursor", cursor)
        rows = self._services.engine.dead_letters.find(which, most + 1, before)
        dead_letters = [dead_letter_of(row, self._services) for row in rows[:most]]
        return DeadPage(dead_letters, dead_letters[-1].id if len(rows) > most else None)

    def get(self, dead_letter_id: str) -> DeadLetter:
        """The dead letter with this id, or the newest of the job with this id; otherwise DeadLetterNotFound."""
        return dead_letter_of(self._row(dead_letter_id), self._services)

    def history(self, dead_letter_id: str) -> builtins.list[HistoryEntry]:
        """The history of its job, oldest first; if the job is deleted, the last entries kept in the dead letter."""
        dead_letter = self._row(dead_letter_id)
        try:
            return self._services.history_of(self._services.row(dead_letter.job_id))[0]
        except JobNotFound:
            return recorded_entries(kept_history(dead_letter))

    def count(self, /, *, status: str | None = "pending", **filters: Any) -> int:
        """The number of matching dead letters."""
        return self._services.engine.dead_letters.count(_filter(status, filters))

    def groups(self, *, status: str | None = "pending", limit: int = 50) -> builtins.list[DeadGroup]:
        """Dead letters grouped by fingerprint, largest group first."""
        found = self._services.engine.dead_letters.groups(_filter(status, {}).statuses, check_limit("limit", limit))
        return [group_of(group) for group in found]

    def stats(self) -> builtins.list[DeadStats]:
        """Counts by reason."""
        return stats_of(self._services.engine.dead_letters.stats())

    # -- adding

    def add(self, job_id: str, *, reason: str = BY_HAND, note: str | None = None, by: str | None = None) -> DeadLetter:
        """Make a dead letter of a job by hand. A job that has not started fails, with the jobs that wait for it.

        Cancel a running job first. A completed job, or one with a pending dead letter, raises InvalidJob.
        """
        row = self._services.row(check_text("job", job_id))
        errors = self._services.history_of(row)[1]
        last = ErrorInfo(errors[-1].type, errors[-1].message, errors[-1].traceback) if errors else None
        checked_reason = check_text("reason", reason)
        request = NewDeadLetter(row.id, checked_reason, fingerprint=fingerprint(row.task, last, checked_reason))
        if last is not None:
            request = replace(request, error_type=last.type, error_message=last.message)
        result = self._services.engine.dead_letters.add(request, _who(by), _text(note))
        if result == "missing":
            raise JobNotFound(job_id)
        if result == "pending":
            raise InvalidJob(f"job {row.id} has a pending dead letter already; app.dead.note() adds to it")
        if result == "busy":
            state = self._services.row(row.id).state
            hint = "; cancel it first" if state is State.RUNNING else ""
            raise InvalidJob(f"job {row.id} is {state}, so it can't become a dead letter{hint}")
        return self.get(row.id)

    # -- requeuing

    def requeue(
        self,
        dead_letter_id: str,
        *,
        priority_boost: int | None = None,
        by: str | None = None,
        note: str | None = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        max_requeues: int | None = None,
    ) -> RequeueResult:
        """Run the job of a pending dead letter again, with fresh attempts and a higher priority.

        `args` and `kwargs` replace its arguments, and are checked like those of a call. A deleted job is stored again
        under its id. A job that was requeued `max_requeues` times is not requeued: its dead letter becomes
        permanently_failed, as the result shows. The defaults of that limit and of the boost are settings.
        """
        row = self._row(dead_letter_id)
        request = self._request(row.id, priority_boost, max_requeues)
        if args is not None or kwargs is not None:
            payload, tags = self._edited(row, args, kwargs)
            request = replace(request, payload=payload, checksum=codec.checksum(payload), tags=tags)
        (done,) = self._services.engine.dead_letters.requeue([request], _who(by), _text(note), _detail(by))
        if done.result == "missing":
            raise DeadLetterNotFound(dead_letter_id)
        if done.result == "resolved":
            raise DeadLetterClosed(row.id, self._row(row.id).status)
        if done.result == "busy":
            state = self._services.row(row.job_id).state
            raise InvalidJob(
                f"dead letter {row.id}: its job {row.job_id} is {state}; only a failed job can be requeued"
            )
        return result_of(done, request.most)

    def requeue_where(
        self,
        /,
        *,
        everything: bool = False,
        dry_run: bool = False,
        limit: int | None = None,
        rate: str | None = None,
        priority_boost: int | None = None,
        by: str | None = None,
        note: str | None = None,
        max_requeues: int | None = None,
        **filters: Any,
    ) -> BulkRequeue:
        """Requeue the matching pending dead letters, newest first and at most `limit`.

        `rate`, such as "10/s", spreads the starts of their jobs. Each batch is one commit: after an interruption, the
        rest is still pending. With `dry_run` nothing changes.
        """
        which = _filter("pending", filters)
        if which == DeadLetterFilter(statuses=("pending",)) and not everything:
            raise InvalidJob("give at least one filter, or everything=True")
        most = _UNLIMITED if limit is None else _count("limit", limit, least=1)
        request = self._request("", priority_boost, max_requeues)
        every = 0.0 if rate is None else _every(rate)
        if dry_run:
            return self._preview(which, most, request.most)
        now = self._services.clock.now()
        counts = dict.fromkeys(("requeued", "stored_anew", "used_up", "resolved", "missing", "busy"), 0)
        for page in self._pages(which, most):
            place = counts["requeued"] + counts["stored_anew"]
            requests = [
                replace(request, id=row.id, run_at=now + round(every * (place + n)) if rate else None)
                for n, row in enumerate(page)
            ]
            for done in self._services.engine.dead_letters.requeue(requests, _who(by), _text(note), _detail(by)):
                counts[done.result] += 1
        requeued = counts["requeued"] + counts["stored_anew"]
        until = moment(now + round(every * (requeued - 1))) if rate and requeued else None
        skipped = counts["resolved"] + counts["missing"] + counts["busy"]
        return BulkRequeue(sum(counts.values()), requeued, counts["used_up"], skipped, False, until)

    def _request(self, dead_letter_id: str, boost: int | None, most: int | None) -> RequeueRequest:
        boost = self._settings.priority_boost if boost is None else boost
        most = self._settings.max_requeues if most is None else most
        return RequeueRequest(dead_letter_id, _boost(boost), _count("max_requeues", most))

    def _preview(self, which: DeadLetterFilter, most: int, max_requeues: int) -> BulkRequeue:
        matched = used_up = 0
        for page in self._pages(which, most):
            matched += len(page)
            used_up += sum(row.requeues >= max_requeues for row in page)
        return BulkRequeue(matched, matched - used_up, used_up, 0, True)

    def _pages(self, which: DeadLetterFilter, most: int) -> Iterator[builtins.list[DeadLetterRow]]:
        """Matching records, newest first. The newer record of a job that fails again meanwhile is not included."""
        before: str | None = None
        while most > 0 and (rows := self._services.engine.dead_letters.find(which, min(most, _BATCH), before)):
            yield rows
            most -= len(rows)
            before = rows[-1].id

    def _edited(
        self, row: DeadLetterRow, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None
    ) -> tuple[str, str]:
        """The new arguments in stored form, and the tags with those of the indexed ones."""
        task = self._task_by_name(row.task)
        if args is not None and (isinstance(args, str) or not isinstance(args, Sequence)):
            raise InvalidJob(f"args: expected a list, got {short(args)}", value=args)
        if kwargs is not None and not isinstance(kwargs, Mapping):
            raise InvalidJob(f"kwargs: expected a dict, got {short(kwargs)}", value=kwargs)
        if args is None or kwargs is None:
            snapshot = snapshot_of(row)
            codec.verify(snapshot.payload, snapshot.checksum)
            before = task.signature.rebuild(
                *codec.decode_call(self._services.decrypted(snapshot.payload, "call", row.task))
            )
            args, kwargs = (before[0] if args is None else args), (before[1] if kwargs is None else kwargs)
        payload = task.signature.encode(
            tuple(args), dict(kwargs), limit=limit_of(self._services.payloads, self._settings)
        )
        if MARK in payload:
            raise InvalidJob("the result of another job can't be an argument here; give its value")
        index = self._services.index_of(row.task)
        tags = (*tags_of(snapshot_of(row).tags), *index_tags(row.task, index, tuple(args), dict(kwargs)))
        if self._services.payloads is not None:
            payload = self._services.payloads.stored(payload, "call", row.task, row.job_id)
        return payload, as_json(tags)

    # -- resolving

    def resolve(
        self, dead_letter_id: str, status: str, *, by: str | None = None, note: str | None = None
    ) -> DeadLetter:
        """Resolve a dead letter as manually_resolved, permanently_failed or cancelled; its job does not change."""
        if status not in RESOLUTIONS:
            raise InvalidJob(f"status: expected {', '.join(map(repr, RESOLUTIONS))}, got {short(status)}", value=status)
        row = self._row(dead_letter_id)
        if not self._services.engine.dead_letters.update([row.id], status, _who(by), _text(note)):
            raise DeadLetterClosed(row.id, self._row(row.id).status)
        return self.get(row.id)

    def note(self, dead_letter_id: str, text: str, *, by: str | None = None) -> DeadLetter:
        """Add a note to a dead letter of any status."""
        row = self._row(dead_letter_id)
        if not _text(text):
            raise InvalidJob("note: expected a text that is not empty")
        if not self._services.engine.dead_letters.update([row.id], None, _who(by), text):
            raise DeadLetterNotFound(dead_letter_id)
        return self.get(row.id)

    def purge(
        self,
        *,
        older_than: float | timedelta = _KEEP,
        status: str | Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> int:
        """Delete dead letters resolved so long ago; returns their number. Pending ones only if `status` names them."""
        statuses = tuple(one for one in STATUSES if one != "pending") if status is None else _statuses(status)
        before = self._services.clock.now() - check_wait("older_than", older_than)
        dead_letters = self._services.engine.dead_letters
        which = DeadLetterFilter(statuses=statuses, ended_before=before)
        if not statuses:
            return 0
        if dry_run:
            return dead_letters.count(which)
        removed = 0
        while done := dead_letters.delete(which, _BATCH):
            removed += done
        return removed

    def delete(self, dead_letter_id: str) -> bool:
        """Delete a dead letter of any status; False if it is already deleted. Its job does not change."""
        return self._services.engine.dead_letters.delete(DeadLetterFilter(ids=(self._row(dead_letter_id).id,)), 1) == 1

    def _row(self, dead_letter_id: str) -> DeadLetterRow:
        dead_letters, name = self._services.engine.dead_letters, check_text("dead letter", dead_letter_id)
        for which in (DeadLetterFilter(ids=(name,)), DeadLetterFilter(latest_of=(name,))):
            for row in dead_letters.find(which, 1):
                return row
        raise DeadLetterNotFound(name)

    alist = twin(list)
    aget = twin(get)
    ahistory = twin(history)
    acount = twin(count)
    agroups = twin(groups)
    astats = twin(stats)
    aadd = twin(add)
    arequeue = twin(requeue)
    arequeue_where = twin(requeue_where)
    aresolve = twin(resolve)
    anote = twin(note)
    apurge = twin(purge)
    adelete = twin(delete)


def _filter(status: str | None, given: Mapping[str, Any]) -> DeadLetterFilter:
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _FILTERS:
            raise InvalidJob(f"unknown filter {name!r}; filters are {', '.join(_FILTERS)}", field=name)
        if value is None:
            continue
        if name in ("since", "until"):
            if not isinstance(value, datetime):
                raise InvalidJob(f"{name}: expected a datetime with a time zone, got {short(value)}", value=value)
            values[name] = check_moment(name, value)
        else:
            values[name] = check_text(name, getattr(value, "name", value))
    return DeadLetterFilter(statuses=() if status is None else _statuses(status), **values)


def _statuses(value: str | Sequence[str]) -> tuple[Status, ...]:
    given = (value,) if isinstance(value, str) else tuple(value)
    for status in given:
        if status not in STATUSES:
            raise InvalidJob(f"status: {short(status)} is not one of {', '.join(STATUSES)}", value=status)
    return cast(tuple[Status, ...], given)


def _boost(value: Any) -> int:
    limit = HIGHEST_PRIORITY - LOWEST_PRIORITY
    if type(value) is not int or not -limit <= value <= limit:
        raise InvalidJob(
            f"priority_boost: expected a whole number from {-limit} to {limit}, got {short(value)}", value=value
        )
    return value


def _count(name: str, value: Any, least: int = 0) -> int:
    if type(value) is not int or value < least:
        raise InvalidJob(f"{name}: expected a whole number, {least} or more, got {short(value)}", value=value)
    return min(value, _UNLIMITED)


def _every(rate: Any) -> float:
    """Milliseconds between two starts."""
    if not isinstance(rate, str):
        raise InvalidJob(f"rate: expected text such as '10/s' or '100/min', got {short(rate)}", value=rate)
    try:
        found = as_rate(rate)
    except ConfigError as error:
        raise InvalidJob(str(error)) from None
    if found.more or found.units:
        raise InvalidJob(f"rate: expected one rate of starts, such as '10/s', got {short(rate)}", value=rate)
    return found.every / 1000


def _who(by: str | None) -> str | None:
    return None if by is None else check_text("by", by)


def _text(note: str | None) -> str | None:
    return None if note is None else check_text("note", note)


def _detail(by: str | None) -> str:
    return "requeued from its dead letter" + (f" by {by}" if by else "")
