"""Schedules that code declares with @app.cron and @app.every, and their storage.

Each worker stores the declarations of its code at its start, possibly of different versions at the same time. So this
module never deletes a schedule: a worker with a part of the code must not delete what other code declares.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from msgspec import UNSET, DecodeError, Struct, structs

from headrace.app.schedules import records
from headrace.app.services.services import Services
from headrace.core.clock import SystemClock
from headrace.core.codec import codec
from headrace.core.codec.encryption import key_of
from headrace.core.jobs.records import NewJob
from headrace.core.schedules.records import ScheduleRow
from headrace.core.schedules.schedule import Timing, timing
from headrace.core.tasks.options import OPTION_NAMES, check_task_name
from headrace.core.tasks.other_libraries import option_hint
from headrace.core.text import nearest, short
from headrace.errors import CorruptPayload, EngineUnavailable, HeadraceError, InvalidJob, InvalidSchedule
from headrace.runtime.jobs.task import Call, Task, with_overrides
from headrace.runtime.schedules.fire import call_of
from headrace.runtime.submit.submitter import Submitter

log = logging.getLogger("headrace.schedules")

_SINGLE_JOB_OPTIONS = ("job_id", "run_at", "connection", "idempotency_key")
_UNITS = ("weeks", "days", "hours", "minutes", "seconds")
_TIMING_NAMES = Timing.__struct_fields__
_ATTEMPTS = 50


class Declaration(Struct, frozen=True):
    """The arguments of a decorator, checked."""

    id: str
    timing: Timing
    task: Task[..., Any, Any]
    call: Call[Any]
    immediate: bool = False


class Declarations:
    """The schedules that the code of one app declares."""

    def __init__(
        self,
        services: Services,
        submitter: Submitter,
        tasks: Mapping[str, Task[..., Any, Any]],
        run_now: Callable[[str], object],
    ) -> None:
        self._run_now = run_now
        self._services = services
        self._submitter = submitter
        self._tasks = tasks
        self.known: dict[str, Declaration] = {}

    def declaring(
        self, register: Callable[[Any], Task[..., Any, Any]], name: str | None, how: dict[str, Any]
    ) -> Callable[[Any], Task[..., Any, Any]]:
        """The decorator. It raises errors at import, not when a worker starts."""
        args, kwargs = how.pop("args", ()), how.pop("kwargs", None)
        immediate = is_immediate(how.pop("immediate", False))
        fields, options = split(_with_interval(how))
        # Not the store's clock: the server need not be reachable at import.
        when = timing(**fields, now=SystemClock().now())

        def declare(function: Any) -> Task[..., Any, Any]:
            task = function if isinstance(function, Task) else register(function)
            schedule_id = schedule_id_of(name) if name is not None else self._free_id(task)
            self._refuse_taken(schedule_id, task)
            call = bound(task, args, kwargs, options)
            try:
                task.signature.check(call.args, call.kwargs)
            except InvalidJob as error:
                raise InvalidSchedule(
                    f"schedule {schedule_id!r} can't call its task: {error}; give args=(...) or kwargs={{...}} with "
                    "its times"
                ) from None
            self.known[schedule_id] = Declaration(schedule_id, when, task, call, immediate)
            return task

        return declare

    def _free_id(self, task: Task[..., Any, Any]) -> str:
        """The task's name, with a number for further schedules of the task. The expression is no id: it may change."""
        others = sum(known.task is task for known in self.known.values())
        return schedule_id_of(task.name if not others else f"{task.name}-{others + 1}")

    def _refuse_taken(self, schedule_id: str, task: Task[..., Any, Any]) -> None:
        known = self.known.get(schedule_id)
        # A task that is defined again, as in a notebook, declares its schedules again.
        if known is not None and (known.task is task or known.task.name != task.name):
            raise InvalidSchedule(
                f"two schedules are called {schedule_id!r}, of task {known.task.name!r} and task {task.name!r}; "
                "give one of them another name with name=..."
            )

    # -- storage

    def store(self, since: int | None = None) -> list[str]:
        """Store all declarations; returns the ids of new and changed ones. The first error is raised at the end."""
        stored = {row.id: row for row in self._services.engine.schedule_store.get()}
        changed: list[str] = []
        first_error: HeadraceError | None = None
        for declaration in self.known.values():
            try:
                if self._store_one(declaration, stored.get(declaration.id), since):
                    changed.append(declaration.id)
            except EngineUnavailable:
                raise
            except HeadraceError as error:
                first_error = first_error or error
        self._reencrypt(stored.values())
        self._log_undeclared(stored.values())
        if first_error is not None:
            raise first_error
        return changed

    def _store_one(self, declaration: Declaration, row: ScheduleRow | None, since: int | None) -> bool:
        schedule_store = self._services.engine.schedule_store
        now = self._services.clock.now()
        template = records.as_template(self._submitter.draft(self._current(declaration)))
        digest = records.digest(declaration.timing, self._in_clear(template))
        for _ in range(_ATTEMPTS):
            if row is None:
                begin = now if since is None else min(since, now)
                new = records.new_row(declaration.id, declaration.timing, template, "code", begin, digest)
                if schedule_store.put(new, new=True):
                    if declaration.immediate:
                        self._run_now(declaration.id)
                    return True
            elif row.declared == digest:
                return False
            else:
                changed = structs.replace(records.called(row, template), origin="code", declared=digest, updated_at=now)
                if schedule_store.put(records.retimed(changed, declaration.timing, now)):
                    return True
            row = next(iter(schedule_store.get([declaration.id])), None)
        raise EngineUnavailable(f"schedule {declaration.id!r} keeps being changed by others; try again")

    def _in_clear(self, template: NewJob) -> NewJob:
        """The template in plain text, for the digest: encryption differs each time, and the unique key with its key."""
        if self._services.cipher is None:
            return template
        payload = self._services.decrypted(template.payload, "call", template.task)
        return structs.replace(template, payload=payload, checksum=codec.checksum(payload), unique_key=None)

    def _reencrypt(self, rows: Iterable[ScheduleRow]) -> None:
        """Encrypt calls that are in plain text or under an older key with the first key: schedules outlive keys."""
        if self._services.cipher is None:
            return
        for row in rows:
            try:
                template = call_of(row)
                if key_of(template.payload) == self._services.cipher.key:
                    continue
                clear = self._services.decrypted(template.payload, "call", template.task)
            except (CorruptPayload, DecodeError) as error:
                log.warning("schedule %s can't be encrypted with the first key: %s", row.id, error)
                continue
            payload = self._services.encrypted(clear, "call", template.task)
            encrypted = structs.replace(template, payload=payload, checksum=codec.checksum(payload))
            self._services.engine.schedule_store.put(
                records.called(row, encrypted)
            )  # a no-op if it was changed meanwhile

    def _current(self, declaration: Declaration) -> Call[Any]:
        """The call with the registered task: @app.task may be above the schedule decorator too."""
        call = declaration.call
        registered = self._tasks.get(declaration.task.name, call.task)
        return structs.replace(call, task=with_overrides(registered, call.options))

    def _log_undeclared(self, stored: Any) -> None:
        for row in stored:
            if row.origin == "code" and row.id not in self.known and row.task in self._tasks and not row.paused:
                log.warning(
                    "schedule %s of task %s is no longer declared by this code and still fires; if no other code "
                    "declares it, delete it with `headrace schedules delete %s`",
                    *(row.id, row.task, row.id),
                )


# -- input of users


def schedule_id_of(value: Any) -> str:
    try:
        return check_task_name(value)
    except InvalidJob:
        raise InvalidSchedule(
            f"id: {short(value)} can't name a schedule; use 1 to 100 characters without blanks", value=value
        ) from None


def is_immediate(value: Any) -> bool:
    if type(value) is not bool:
        raise InvalidSchedule(f"immediate: expected True or False, got {short(value)}", value=value)
    return value


def split(how: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into those of the timing and those of the jobs."""
    for name in how:
        if name in _SINGLE_JOB_OPTIONS:
            raise InvalidSchedule(f"{name} belongs to a single job; a schedule makes many", field=name)
        if name not in (*_TIMING_NAMES, *OPTION_NAMES):
            near = nearest(name, (*_TIMING_NAMES, *OPTION_NAMES))
            hint = (
                option_hint(name) or f"did you mean {near!r}?"
                if near or option_hint(name)
                else f"for the times there are {', '.join(_TIMING_NAMES)}"
            )
            raise InvalidSchedule(f"unknown option {short(name)}; {hint}", field=name)
    fields = {name: value for name, value in how.items() if name in _TIMING_NAMES}
    return fields, {name: value for name, value in how.items() if name not in _TIMING_NAMES}


def bound(task: Task[..., Any, Any], args: Any, kwargs: Any, options: dict[str, Any]) -> Call[Any]:
    """The call of a task; these options override those of the task."""
    if not isinstance(args, list | tuple):
        raise InvalidSchedule(
            f"args: expected a list or tuple, got {short(args)}; for one argument write (value,)", value=args
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InvalidSchedule(f"kwargs: expected a dict, got {short(kwargs)}", value=kwargs)
    chosen = task.using(**options)
    for name in _SINGLE_JOB_OPTIONS:
        if getattr(chosen.overrides, name, UNSET) is not UNSET:
            raise InvalidSchedule(f"{name} belongs to a single job; a schedule makes many", field=name)
    return Call(chosen, tuple(args), dict(kwargs or {}))


def _with_interval(how: dict[str, Any]) -> dict[str, Any]:
    """Sum up the interval of @app.every, which may be given as hours=1, minutes=30."""
    if "every" not in how:
        return how
    units = {name: value for name, value in how.items() if name in _UNITS}
    interval, rest = how["every"], {name: value for name, value in how.items() if name not in _UNITS}
    if (interval is None) == (not units):
        raise InvalidSchedule("every: give an interval, either every(minutes=5) or every(timedelta(minutes=5))")
    if interval is None:
        try:
            interval = timedelta(**units)
        except (TypeError, OverflowError, ValueError):
            raise InvalidSchedule(
                f"every: expected numbers of {', '.join(units)}, got {short(units)}", value=units
            ) from None
    return {**rest, "every": interval}
