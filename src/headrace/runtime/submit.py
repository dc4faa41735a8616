"""From a call to a stored job: options resolved, arguments checked and encoded, committed with others.

A call that may be the same as another one takes a way of its own (`admit`), so that all the others stay as cheap as
they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary

from msgspec import UNSET, structs

from headrace.core import codec, ids
from headrace.core.admission import Candidate, Rule, Verdict
from headrace.core.clock import Clock
from headrace.core.limits import Gate, gates_of, lane_of
from headrace.core.model import JobRow, NewJob
from headrace.core.options import Options
from headrace.core.states import State
from headrace.engines.batch import Batch
from headrace.engines.protocol import Engine
from headrace.errors import DuplicateJob, InvalidJob
from headrace.runtime.job import SPOOLED, Hub, Job, as_row
from headrace.runtime.recipe import Recipe, recipe_of
from headrace.runtime.task import Call, Task
from headrace.runtime.twin import in_thread

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from headrace.runtime.lane import Lane
    from headrace.runtime.spool import Fate, Spool

    Insert = Callable[..., list[Fate]]
    Lanes = WeakKeyDictionary[AbstractEventLoop, Lane[Any, Any]]

T = TypeVar("T")
R = TypeVar("R")


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
        self._door = engine if spool is None else spool
        self._inserts: Batch[NewJob, Fate] = Batch(self._insert)
        self._admissions: Batch[Candidate, Verdict] = Batch(self._admit)
        self._insert_lanes: Lanes = WeakKeyDictionary()
        self._admission_lanes: Lanes = WeakKeyDictionary()

    # -- one job

    def submit(self, call: Call[Any]) -> Job[Any]:
        """Store one job, in one commit with whatever else is submitted just now."""
        new, rule = self._new(call, self._clock.now())
        if rule is not None:
            return self._submit_under(rule, call, new)
        if self._joins(call):
            self._engine.joined(call.options.connection).insert([new])
            return Job(self._hub, new)
        return self._stored(call, new, self._inserts.call(new))

    async def asubmit(self, call: Call[Any]) -> Job[Any]:
        """The same for coroutines, in one commit with what the others of their event loop submit just now."""
        joins = self._joins(call)
        if self.intercept is not None and not joins:
            # Whoever intercepts runs the job here and now, which would block the loop.
            return await in_thread(self.submit, call)
        new, rule = self._new(call, self._clock.now())
        if rule is not None:
            return await self._asubmit_under(rule, call, new)
        if joins:
            await self._engine.joined(call.options.connection).ainsert([new])
            return Job(self._hub, new)
        return self._stored(call, new, await _lane(self._insert_lanes, self._insert).call(new))

    def _stored(self, call: Call[Any], new: NewJob, fresh: Fate) -> Job[Any]:
        # An id we made ourselves can only be taken by this very job, if an insert had to be repeated.
        if not fresh and call.options.job_id is not UNSET:
            raise DuplicateJob(new.id)
        return self._handed(self._handle(new, fresh))

    def _handle(self, new: NewJob, fate: Fate) -> Job[Any]:
        return Job(self._hub, as_row(new, SPOOLED) if fate == "spooled" else new)

    def _handed(self, job: Job[Any]) -> Job[Any]:
        if self.intercept is not None:
            self.intercept(job)
        return job

    # -- one job, under a rule

    def _admit(self, candidates: Sequence[Candidate], *, whole: bool = False) -> list[Verdict]:
        return self._door.admit(candidates, whole=whole)

    def _submit_under(self, rule: Rule, call: Call[Any], new: NewJob) -> Job[Any]:
        candidate = Candidate(new, rule)
        joins = self._joins(call)
        if joins:
            with _Wording([call], [new]):
                [verdict] = self._engine.joined(call.options.connection).admit([candidate])
        else:
            verdict = self._admissions.call(candidate)
        _refuse(call, new, verdict)
        [job] = self._standing([new], [verdict], joins)
        return self._handed(job)

    async def _asubmit_under(self, rule: Rule, call: Call[Any], new: NewJob) -> Job[Any]:
        candidate = Candidate(new, rule)
        joins = self._joins(call)
        if joins:
            with _Wording([call], [new]):
                [verdict] = await self._engine.joined(call.options.connection).aadmit([candidate])
        else:
            verdict = await _lane(self._admission_lanes, self._admit).call(candidate)
        _refuse(call, new, verdict)
        if verdict.id == new.id:
            return Job(self._hub, new)
        [job] = await in_thread(self._standing, [new], [verdict], joins)
        return job

    def _standing(self, news: Sequence[NewJob], verdicts: Sequence[Verdict], joined: bool) -> list[Job[Any]]:
        """Handles of the jobs that stand for these: one for each job, however many calls it stands for."""
        told = {verdict.id for new, verdict in zip(news, verdicts, strict=True) if verdict.id != new.id}
        rows = {row.id: row for row in self._engine.desk.get(sorted(told))} if told else {}
        jobs: dict[str, Job[Any]] = {}
        for new, verdict in zip(news, verdicts, strict=True):
            # What a transaction has changed, nobody else sees before its commit: its handles tell what was submitted.
            unseen = joined and verdict.kind in ("replaced", "rescheduled")
            found: JobRow | None = None if unseen else rows.get(verdict.id)
            if unseen or verdict.id not in jobs:
                jobs[verdict.id] = Job(self._hub, found or structs.replace(new, id=verdict.id))
        return [jobs[verdict.id] for verdict in verdicts]

    # -- many jobs

    def submit_many(self, calls: Iterable[Call[Any]]) -> list[Job[Any]]:
        """Store all jobs in one commit, or none if any of them is not valid."""
        listed = list(calls)
        news, rules = self._news(listed)
        joins = self._all_join(listed)
        if rules:
            jobs = self._admit_many(listed, news, rules, joins)
        elif joins:
            self._engine.joined(listed[0].options.connection).insert(news)
            jobs = [Job(self._hub, new) for new in news]
        else:
            jobs = list(map(self._handle, news, self._insert(news, whole=True))) if news else []
        if self.intercept is not None:
            for job in jobs:
                self.intercept(job)
        return jobs

    def _admit_many(
        self, calls: list[Call[Any]], news: list[NewJob], rules: dict[int, Rule], joins: bool
    ) -> list[Job[Any]]:
        candidates = [Candidate(new, rules.get(place)) for place, new in enumerate(news)]
        with _Wording(calls, news):
            if joins:
                verdicts = self._engine.joined(calls[0].options.connection).admit(candidates)
            else:
                verdicts = self._admit(candidates, whole=True)
        return self._standing(news, verdicts, joins)

    async def asubmit_many(self, calls: Iterable[Call[Any]]) -> list[Job[Any]]:
        """The same for coroutines."""
        listed = await in_thread(list, calls)
        if not self._all_join(listed):
            return await in_thread(self.submit_many, listed)
        news, rules = await in_thread(self._news, listed)
        joined = self._engine.joined(listed[0].options.connection)
        if not rules:
            await joined.ainsert(news)
            return [Job(self._hub, new) for new in news]
        with _Wording(listed, news):
            verdicts = await joined.aadmit([Candidate(new, rules.get(place)) for place, new in enumerate(news)])
        return await in_thread(self._standing, news, verdicts, True)

    def _all_join(self, calls: list[Call[Any]]) -> bool:
        """Whether these go into a transaction of the caller's, of which there can be only one."""
        if any(call.options.connection is not calls[0].options.connection for call in calls):
            raise InvalidJob("enqueue_many: give all of its jobs the same connection; a transaction is on one")
        return bool(calls) and self._joins(calls[0])

    def _joins(self, call: Call[Any]) -> bool:
        # Not in a test that runs its jobs at once, or on a store of its own: no transaction leads there.
        return call.options.connection is not UNSET and self.intercept is None and self._engine is self._home

    # -- what is stored

    def draft(self, call: Call[Any]) -> NewJob:
        """The job that the call would be now, checked and encoded, and not stored."""
        return self._new(call, self._clock.now())[0]

    def _news(self, calls: list[Call[Any]]) -> tuple[list[NewJob], dict[int, Rule]]:
        """The jobs, and by their places the rules of those that have one."""
        now = self._clock.now()
        both = [self._new(call, now) for call in calls]
        return [new for new, _ in both], {place: rule for place, (_, rule) in enumerate(both) if rule is not None}

    def _new(self, call: Call[Any], now: int) -> tuple[NewJob, Rule | None]:
        recipe = self._recipe(call)
        payload = call.task.signature.encode(call.args, call.kwargs, limit=self._max_payload)
        run_at = now + recipe.delay if recipe.run_at is None else recipe.run_at
        admission = recipe.admission
        key = None if admission is None else admission.key.of(call.args, call.kwargs)
        new = NewJob(
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
            key,
            recipe.lane if not recipe.alone else lane_of([*gates_of(recipe.lane), Gate("key", f"unique {key}")]),
        )
        return new, None if admission is None else admission.rule(now)

    def _recipe(self, call: Call[Any]) -> Recipe:
        # Keyed by the identity of the overrides, which a task shares among its calls; the entry keeps them alive,
        # so that an identity is never taken for another.
        known = self._recipes.get(id(call.options))
        if known is not None and known[0].function is call.task.function and known[1] is call.options:
            return known[2]
        recipe = recipe_of(call.task, call.options, self._max_payload)
        if call.options.connection is not UNSET:  # it would be kept alive as well
            return recipe
        if len(self._recipes) > 1000:
            self._recipes.clear()
        self._recipes[id(call.options)] = (call.task, call.options, recipe)
        return recipe


def _lane(lanes: Lanes, flush: Callable[[list[T]], list[R]]) -> Lane[T, R]:
    # Deferred, with asyncio: whoever gets here has it loaded anyway.
    from asyncio import get_running_loop

    from headrace.runtime.lane import Lane

    return lanes.setdefault(get_running_loop(), Lane(flush))


def _refuse(call: Call[Any], new: NewJob, verdict: Verdict) -> None:
    if verdict.id == new.id and call.options.job_id is UNSET:
        return  # only this very job can have an id we made ourselves: it had to be stored twice
    if verdict.kind == "taken":
        raise DuplicateJob(new.id)
    if verdict.kind == "refused":
        raise DuplicateJob(verdict.id, _SAME)


_SAME = "a job that counts as the same exists already: {}; nothing was stored"
_TWICE = "two of these calls count as the same; nothing was stored"


class _Wording:
    """Says of a batch that was refused what the reason was: a store tells only the id of the job in the way."""

    def __init__(self, calls: list[Call[Any]], news: list[NewJob]) -> None:
        self._calls = calls
        self._news = news

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if not isinstance(error, DuplicateJob):
            return
        places = [place for place, new in enumerate(self._news) if new.id == error.job_id]
        if any(self._calls[place].options.job_id is not UNSET for place in places):
            return  # the id was the caller's own, and is taken
        raise DuplicateJob(error.job_id, _TWICE if places else _SAME) from None
