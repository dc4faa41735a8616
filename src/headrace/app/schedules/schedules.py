"""`app.schedules`: create, list, change, pause, run and delete schedules.

Workers fire schedules concurrently, so every change applies to the version that was read; on a conflict it is read
again.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import structs

from headrace.app.schedules import records
from headrace.app.schedules.declared import Declarations, bound, is_immediate, schedule_id_of, split
from headrace.app.schedules.records import Schedule, ScheduleRun
from headrace.app.services.services import Services
from headrace.core.codec.redaction import unmasked
from headrace.core.damaged_records import DAMAGE
from headrace.core.jobs import ids
from headrace.core.jobs.records import NewJob
from headrace.core.schedules.parse import moment
from headrace.core.schedules.records import Occurrence, ScheduleFire, ScheduleRow
from headrace.core.schedules.schedule import Timing, timing, upcoming
from headrace.core.tasks.options import check_limit, check_priority, check_queue
from headrace.core.text import nearest, short, why
from headrace.engines.protocol.schedules import ScheduleStore
from headrace.engines.shared.decisions import closed_error
from headrace.errors import CorruptPayload, EngineUnavailable, HeadraceError, InvalidSchedule, ScheduleNotFound
from headrace.runtime.jobs.async_twin import twin
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.task import Call, Task
from headrace.runtime.schedules.fire import call_of, job_for, timing_of
from headrace.runtime.submit.submitter import Submitter

_ATTEMPTS = 50
_MAX_PREVIEWED = 1000
_CHANGES = (*Timing.__struct_fields__, "queue", "priority", "args", "kwargs")
_KINDS = ("cron", "every", "at")


class Schedules:
    """`app.schedules`. A schedule is named by its id."""

    def __init__(
        self,
        services: Services,
        submitter: Submitter,
        as_task: Callable[[Any], Task[..., Any, Any]],
        tasks: Mapping[str, Task[..., Any, Any]],
    ) -> None:
        self._services = services
        self._submitter = submitter
        self._as_task = as_task
        self._declarations = Declarations(services, submitter, tasks, self.run_now)
        self.declaring = self._declarations.declaring

    # -- creating

    def create(
        self,
        schedule_id: str,
        call: Call[Any] | Callable[..., Any] | str,
        /,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        immediate: bool = False,
        **how: Any,
    ) -> Schedule:
        """Create a schedule for `task.bind(...)`, or for a task (or its name) with these arguments.

        Timing: exactly one of cron, every and at; then tz, start, end, limit, jitter, dst_gap, dst_overlap, catch_up,
        catch_up_limit, catch_up_window and overlap. Anything else is an option of its jobs, as for using(). With
        `immediate` its job is also enqueued once now, as by run_now().
        """
        run_at_once = is_immediate(immediate)
        name = schedule_id_of(schedule_id)
        fields, options = split(how)
        now = self._services.clock.now()
        when = timing(**fields, now=now)
        template = records.as_template(self._submitter.draft(self._bound(call, args, kwargs, options)))
        row = records.new_row(name, when, template, "api", now)
        if not self._schedule_store.put(row, new=True):
            raise InvalidSchedule(f"schedule {name!r} exists already; change it with update(), or delete() it first")
        if run_at_once:
            self.run_now(name)
            return self.get(name)
        return self._shown(row)

    def _bound(
        self, call: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, options: dict[str, Any]
    ) -> Call[Any]:
        if not isinstance(call, Call):
            return bound(self._as_task(call), args, kwargs, options)
        if args or kwargs:
            raise InvalidSchedule("args and kwargs belong to a task; a call made with bind() has its own")
        return bound(call.task, call.args, call.kwargs, options)

    def sync(self, *, since: datetime | None = None) -> builtins.list[str]:
        """Store the schedules declared with @app.cron and @app.every; returns the ids of new and changed ones.

        Every worker does this at its start. A pause or an operator's update stays until the declaration changes. With
        `since`, new schedules begin at that earlier time.
        """
        begun = moment("since", since)
        return self._declarations.store(begun)

    @property
    def declared(self) -> tuple[str, ...]:
        """The ids of the schedules that the code of this app declares."""
        return tuple(self._declarations.known)

    # -- reading

    def get(self, schedule_id: str) -> Schedule:
        """The schedule with this id, or ScheduleNotFound."""
        return self._shown(self._row(schedule_id))

    def list(self, *, task: str | None = None, paused: bool | None = None) -> builtins.list[Schedule]:
        """All schedules by id; filter by task or by paused."""
        name = getattr(task, "name", task)
        return [
            self._shown(row)
            for row in self._schedule_store.get()
            if name in (None, row.task) and paused in (None, row.paused)
        ]

    def preview(
        self, schedule_id: str | None = None, /, *, n: int = 5, after: datetime | None = None, **timing_fields: Any
    ) -> builtins.list[datetime]:
        """The next `n` times of a schedule or, without an id, of `cron="0 9 * * MON", tz="Europe/Vienna"`.

        They are in the schedule's zone, after `after` or now, and fewer if it ends before. A pause is ignored.
        """
        now = self._services.clock.now()
        begin = moment("after", after)
        count = check_limit("n", n)
        if count > _MAX_PREVIEWED:
            raise InvalidSchedule(f"n: at most {_MAX_PREVIEWED} times can be shown, got {short(n)}", value=n)
        if schedule_id is None:
            when, anchor = timing(**timing_fields, now=now), now
        elif timing_fields:
            raise InvalidSchedule("give preview() the id of a schedule or a timing, not both")
        else:
            row = self._whole(schedule_id)
            when, anchor = timing_of(row), row.created_at
            count = count if when.limit is None else min(count, max(when.limit - row.fired, 0))
        times = upcoming(when, now if begin is None else begin, anchor, count)
        return [records.local(one, when.tz) for one in times]

    def history(self, schedule_id: str, *, limit: int = 100) -> builtins.list[ScheduleRun]:
        """Its last runs, newest first; the last 1000 are kept."""
        zone = self.get(schedule_id).tz
        kept = self._schedule_store.occurrences(schedule_id, check_limit("limit", limit))
        return [records.as_run(occurrence, zone) for occurrence in kept]

    # -- changing

    def pause(self, schedule_id: str) -> Schedule:
        """Pause a schedule. Jobs it has enqueued continue."""
        return self._change(schedule_id, lambda row, now: structs.replace(row, paused=True, due_at=None))

    def resume(self, schedule_id: str) -> Schedule:
        """Resume a schedule from now on. Runs missed during the pause are not made up."""

        def change(row: ScheduleRow, now: int) -> ScheduleRow:
            if not row.paused:
                return row
            return records.rescheduled(structs.replace(row, paused=False), timing_of(row), now)

        return self._change(schedule_id, change)

    def update(self, schedule_id: str, /, *, call: Call[Any] | None = None, **changes: Any) -> Schedule:
        """Change its timing (as for create()), its call, queue or priority. Omitted fields stay.

        `args` and `kwargs` replace the arguments of the same call; a mask that a Schedule shows for a secret keeps the
        secret. If its times change, the next run is the first one after now.
        """
        for name in changes:
            if name not in _CHANGES:
                near = nearest(name, _CHANGES)
                hint = f"did you mean {near!r}?" if near else f"use call, {', '.join(_CHANGES)}"
                raise InvalidSchedule(f"update: {short(name)} can't be changed; {hint}", field=name)
        if call is not None and not isinstance(call, Call):
            raise InvalidSchedule(f"call: expected task.bind(...), got {short(call)}", value=call)
        if call is not None and {"args", "kwargs"} & changes.keys():
            raise InvalidSchedule("args and kwargs change the stored call; a new call has its own")

        def change(row: ScheduleRow, now: int) -> ScheduleRow:
            changed = self._with_call(row, call, changes)
            fields = {name: value for name, value in changes.items() if name in Timing.__struct_fields__}
            return changed if not fields else records.retimed(changed, _merged(row, fields, now), now)

        return self._change(schedule_id, change)

    def _with_call(self, row: ScheduleRow, call: Call[Any] | None, changes: dict[str, Any]) -> ScheduleRow:
        if call is None and not {"queue", "priority", "args", "kwargs"} & changes.keys():
            return row
        template = call_of(row)
        if {"args", "kwargs"} & changes.keys():
            template = self._with_arguments(template, changes)
        if call is not None:
            template = records.as_template(self._submitter.draft(self._bound(call, (), None, {})))
        if "queue" in changes:
            template = structs.replace(template, queue=check_queue("queue", changes["queue"]))
        if "priority" in changes:
            template = structs.replace(template, priority=check_priority("priority", changes["priority"]))
        return records.called(row, template)

    def _with_arguments(self, template: NewJob, changes: dict[str, Any]) -> NewJob:
        job = Job[Any](self._services, template)
        before = {"args": job.args, "kwargs": job.kwargs}
        shown = dict(zip(before, job.redacted_call(), strict=True))
        given = {name: changes[name] for name in before if changes.get(name) is not None}
        after = {**before, **unmasked(given, shown, before)}
        call = bound(self._as_task(template.task), after["args"], after["kwargs"], {})
        fresh = records.as_template(self._submitter.draft(call))
        kept = structs.replace(template, payload=fresh.payload, checksum=fresh.checksum)
        if template.unique_key is None:
            return kept
        return structs.replace(kept, unique_key=fresh.unique_key, lane=fresh.lane)  # they depend on the arguments

    def delete(self, schedule_id: str) -> bool:
        """Delete a schedule and its history; False if there is none. The next worker creates a declared one again."""
        return self._schedule_store.delete(self._stored_id(schedule_id))

    def run_now(self, schedule_id: str) -> Job[Any]:
        """Enqueue its job now, paused or not. Its run times, limit and overlap rule do not apply."""
        for _ in range(_ATTEMPTS):
            row = self._whole(schedule_id)
            now = self._services.clock.now()
            new = job_for(row, now, now, ids.new_id(now))
            occurrence = Occurrence(row.id, now, now, "enqueued", new.id, "run by hand")
            if self._schedule_store.fire([ScheduleFire(row, (new,), (occurrence,))], now) == [True]:
                job = Job[Any](self._services, new)
                if self._submitter.intercept is not None:
                    self._submitter.intercept(job)
                return job
        raise self._closed() or _conflict(schedule_id)

    def _closed(self) -> HeadraceError | None:
        """The error of a store that is being moved, or None."""
        store_status = self._services.engine.transfer.store_status()
        return None if store_status is None else closed_error(store_status)

    acreate = twin(create)
    aget = twin(get)
    alist = twin(list)
    apreview = twin(preview)
    ahistory = twin(history)
    apause = twin(pause)
    aresume = twin(resume)
    aupdate = twin(update)
    adelete = twin(delete)
    arun_now = twin(run_now)

    # -- the store

    @property
    def _schedule_store(self) -> ScheduleStore:
        return self._services.engine.schedule_store

    def _stored_id(self, value: str) -> str:
        """A valid id, or the damaged one of a stored schedule."""
        try:
            return schedule_id_of(value)
        except InvalidSchedule:
            if not any(row.id == value for row in self._schedule_store.get()):
                raise
            return value

    def _row(self, schedule_id: str) -> ScheduleRow:
        for row in self._schedule_store.get([self._stored_id(schedule_id)]):
            return row
        near = nearest(schedule_id, (known.id for known in self._schedule_store.get()))
        hint = f"did you mean {near!r}?" if near else "`headrace schedules` lists them"
        raise ScheduleNotFound(schedule_id, f"; {hint}")

    def _whole(self, schedule_id: str) -> ScheduleRow:
        row = self._row(schedule_id)
        try:
            timing_of(row)
            call_of(row)
        except DAMAGE as error:
            raise CorruptPayload(
                f"schedule {row.id!r} is damaged ({why(error)}); delete it and create it again"
            ) from error
        return row

    def _change(self, schedule_id: str, change: Callable[[ScheduleRow, int], ScheduleRow]) -> Schedule:
        for _ in range(_ATTEMPTS):
            row = self._whole(schedule_id)
            now = self._services.clock.now()
            wanted = change(row, now)
            if wanted == row or self._schedule_store.put(structs.replace(wanted, updated_at=now)):
                return self._shown(wanted)
        raise _conflict(schedule_id)

    def _shown(self, row: ScheduleRow) -> Schedule:
        return records.as_schedule(row, self._services)


def _merged(row: ScheduleRow, fields: dict[str, Any], now: int) -> Timing:
    """The stored timing with these fields changed, validated as a whole; a new cron, every or at replaces it."""
    given = records.as_given(timing_of(row))
    if any(fields.get(name) is not None for name in _KINDS):
        given = {name: value for name, value in given.items() if name not in _KINDS}
    return timing(**{**given, **fields}, now=now)


def _conflict(schedule_id: str) -> EngineUnavailable:
    return EngineUnavailable(f"schedule {schedule_id!r} keeps being changed by others; try again")
