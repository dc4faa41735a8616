"""From a call to a stored job: options resolved, arguments checked and encoded, committed with others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from msgspec import UNSET, Struct

from headrace.core import codec, ids
from headrace.core.clock import Clock
from headrace.core.model import JobOptions, NewJob
from headrace.core.options import Options
from headrace.core.states import State
from headrace.engines.batch import Batch
from headrace.engines.protocol import Engine
from headrace.engines.sql import as_json
from headrace.errors import DuplicateJob, InvalidJob, PayloadTooLarge
from headrace.runtime.job import SPOOLED, Hub, Job, as_row
from headrace.runtime.task import Call, Task
from headrace.runtime.twin import in_thread

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from headrace.runtime.lane import Lane
    from headrace.runtime.spool import Fate, Spool

    Insert = Callable[..., list[Fate]]

DEFAULT_QUEUE = "default"


class Recipe(Struct, frozen=True, gc=False):
    """Everything about a task's next job that does not depend on its arguments or the time."""

    task: str
    queue: str
    priority: int
    delay: int
    run_at: int | None
    expires: int | None
    max_attempts: int
    lifo: bool
    job_id: str | None
    options: str | None
    tags: str | None
    metadata: str | None


class Submitter:
    """Stores calls as jobs."""

    def __init__(self, engine: Engine, clock: Clock, max_payload: int, hub: Hub, spool: Spool | None = None) -> None:
        self._max_payload = max_payload
        self._hub = hub
        self._recipes: dict[int, tuple[Task[..., Any, Any], Options, Recipe]] = {}
        self.intercept: Callable[[Job[Any]], None] | None = None
        self._home = engine
        self.attach(engine, clock, spool)

    def attach(self, engine: Engine, clock: Clock, spool: Spool | None = None) -> None:
        """Store in this engine from now on. What tasks hold on to is the submitter, so all of them follow."""
        self._engine = engine
        self._clock = clock
        self._insert = cast("Insert", engine.insert if spool is None else spool.insert)
        self._batch: Batch[NewJob, Fate] = Batch(self._insert)
        self._lanes: WeakKeyDictionary[AbstractEventLoop, Lane[NewJob, Fate]] = WeakKeyDictionary()

    def submit(self, call: Call[Any]) -> Job[Any]:
        """Store one job, in one commit with whatever else is submitted just now."""
        new = self._new(call, self._clock.now())
        if self._joins(call):
            self._engine.joined(call.options.connection).insert([new])
            return Job(self._hub, new)
        return self._stored(call, new, self._batch.call(new))

    async def asubmit(self, call: Call[Any]) -> Job[Any]:
        """The same for coroutines, in one commit with what the others of their event loop submit just now."""
        new = self._new(call, self._clock.now())
        if self._joins(call):
            await self._engine.joined(call.options.connection).ainsert([new])
            return Job(self._hub, new)
        if self.intercept is not None:  # whoever intercepts runs the job here and now, which would block the loop
            return await in_thread(self.submit, call)
        return self._stored(call, new, await self._lane().call(new))

    def _stored(self, call: Call[Any], new: NewJob, fresh: Fate) -> Job[Any]:
        # An id we made ourselves can only be taken by this very job, if an insert had to be repeated.
        if not fresh and call.options.job_id is not UNSET:
            raise DuplicateJob(new.id)
        job = self._handle(new, fresh)
        if self.intercept is not None:
            self.intercept(job)
        return job

    def _handle(self, new: NewJob, fate: Fate) -> Job[Any]:
        return Job(self._hub, as_row(new, SPOOLED) if fate == "spooled" else new)

    def _lane(self) -> Lane[NewJob, Fate]:
        # Deferred, with asyncio: whoever gets here has it loaded anyway.
        from asyncio import get_running_loop

        from headrace.runtime.lane import Lane

        return self._lanes.setdefault(get_running_loop(), Lane(self._insert))

    def submit_many(self, calls: Iterable[Call[Any]]) -> list[Job[Any]]:
        """Store all jobs in one commit, or none if any of them is not valid."""
        listed = list(calls)
        news = self._news(listed)
        fates: list[Fate] = [True] * len(news)
        if self._all_join(listed):
            self._engine.joined(listed[0].options.connection).insert(news)
        elif news:
            fates = self._insert(news, whole=True)
        jobs = list(map(self._handle, news, fates))
        if self.intercept is not None:
            for job in jobs:
                self.intercept(job)
        return jobs

    async def asubmit_many(self, calls: Iterable[Call[Any]]) -> list[Job[Any]]:
        """The same for coroutines."""
        listed = await in_thread(list, calls)
        if not self._all_join(listed):
            return await in_thread(self.submit_many, listed)
        news = await in_thread(self._news, listed)
        await self._engine.joined(listed[0].options.connection).ainsert(news)
        return [Job(self._hub, new) for new in news]

    def _all_join(self, calls: list[Call[Any]]) -> bool:
        """Whether these go into a transaction of the caller's, of which there can be only one."""
        if any(call.options.connection is not calls[0].options.connection for call in calls):
            raise InvalidJob("enqueue_many: give all of its jobs the same connection; a transaction is on one")
        return bool(calls) and self._joins(calls[0])

    def _joins(self, call: Call[Any]) -> bool:
        # Not in a test that runs its jobs at once, or on a store of its own: no transaction leads there.
        return call.options.connection is not UNSET and self.intercept is None and self._engine is self._home

    def draft(self, call: Call[Any]) -> NewJob:
        """The job that the call would be now, checked and encoded, and not stored."""
        return self._new(call, self._clock.now())

    def _news(self, calls: list[Call[Any]]) -> list[NewJob]:
        now = self._clock.now()
        return [self._new(call, now) for call in calls]

    def _new(self, call: Call[Any], now: int) -> NewJob:
        recipe = self._recipe(call)
        payload = call.task.signature.encode(call.args, call.kwargs, limit=self._max_payload)
        run_at = now + recipe.delay if recipe.run_at is None else recipe.run_at
        return NewJob(
            recipe.job_id or ids.new_id(now),
            recipe.task,
            recipe.queue,
            State.SCHEDULED if run_at > now else State.PENDING,
            recipe.priority,
            -run_at if recipe.lifo else run_at,
            payload,
            codec.checksum(payload),
            now,
            run_at,
            recipe.max_attempts,
            None if recipe.expires is None else now + recipe.expires,
            recipe.options,
            recipe.tags,
            recipe.metadata,
            now if recipe.job_id else 1,
        )

    def _recipe(self, call: Call[Any]) -> Recipe:
        # Keyed by the identity of the overrides, which a task shares among its calls; the entry keeps them alive,
        # so that an identity is never taken for another.
        known = self._recipes.get(id(call.options))
        if known is not None and known[0].function is call.task.function and known[1] is call.options:
            return known[2]
        recipe = _recipe(call.task, call.options, self._max_payload)
        if call.options.connection is not UNSET:  # it would be kept alive as well
            return recipe
        if len(self._recipes) > 1000:
            self._recipes.clear()
        self._recipes[id(call.options)] = (call.task, call.options, recipe)
        return recipe


def _or(value: Any, default: Any) -> Any:
    return default if value is UNSET else value


def _recipe(task: Task[..., Any, Any], overrides: Options, max_payload: int) -> Recipe:
    options = overrides.over(task.options)
    if overrides.isolation not in (UNSET, "process") and overrides.isolation != task.isolation:
        raise InvalidJob(f"isolation: task {task.name!r} can run as {task.isolation!r} or 'process'")
    return Recipe(
        task=task.name,
        queue=_or(options.queue, DEFAULT_QUEUE),
        priority=_or(options.priority, 0),
        delay=_or(options.delay, 0),
        run_at=_or(options.run_at, None),
        expires=_or(options.expires, None),
        max_attempts=options.retry.max_attempts if options.retry is not UNSET else task.retry.max_attempts,
        lifo=_or(options.lifo, False),
        job_id=_or(options.job_id, None),
        options=_stored_options(task, overrides, options),
        tags=as_json(options.tags) if options.tags else None,
        metadata=_metadata(options.metadata, max_payload) if options.metadata else None,
    )


def _stored_options(task: Task[..., Any, Any], overrides: Options, options: Options) -> str | None:
    """What the worker must know of this call beyond the task's own definition; nothing, most of the time."""
    redact = _or(options.redact, ())
    stored = JobOptions(
        timeout=overrides.timeout,
        retry=overrides.retry.policy() if overrides.retry is not UNSET else UNSET,
        keep_result=overrides.keep_result,
        isolation=overrides.isolation,
        redact=redact,
        redact_args=tuple(
            n for n, name in enumerate(task.signature.positional) if name.lower() in {word.lower() for word in redact}
        ),
    )
    return None if stored == JobOptions() else as_json(stored)


def _metadata(value: Any, limit: int) -> str:
    try:
        return codec.encode(value, limit=limit, where="metadata")
    except PayloadTooLarge as error:
        raise PayloadTooLarge(f"metadata: {error}") from None
