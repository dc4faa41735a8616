"""Jobs that a running job spawns and waits for: inserted with its success, or at once.

The app of each call decides where they are stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import Claim, NewJob, Outcome
from headrace.core.jobs.states import Trigger
from headrace.core.queues.limits import Limit
from headrace.core.text import short
from headrace.errors import InvalidJob
from headrace.runtime.jobs.call_tree import CallTree, Part
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.task import Call

_MAX_ID_CHARS = 128


class Spawning:
    """The jobs that one attempt has spawned; several threads may spawn at once."""

    __slots__ = ("_claim", "_edges", "_inheritable", "_numbers", "_spawned")

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._numbers = itertools.count(1)
        self._spawned: list[NewJob] = []
        self._edges: list[Dependency] = []
        self._inheritable: dict[str, Any] | None = None

    def spawn(self, part: Part, now: int, at_once: bool, inherit: bool = False) -> Any:
        """The job of a call; of a chain or a group, all its jobs."""
        check_part(part)
        drafts: list[tuple[NewJob, list[Dependency]]] = []
        jobs: list[Job[Any]] = []

        def put(call: Call[Any], after: Sequence[Any], limits: tuple[Limit, ...]) -> Job[Any]:
            jobs.append(self._traced(call, now, at_once, inherit, [job.id for job in after], limits, drafts))
            return jobs[-1]

        if isinstance(part, Call):
            put(part, (), ())
        else:
            part.place(put, self._new_id)
        for new, edges in drafts:  # all of them, or none if one was refused
            self._spawned.append(new)
            self._edges += edges
        return jobs[0] if isinstance(part, Call) else jobs

    def _traced(
        self,
        call: Call[Any],
        now: int,
        at_once: bool,
        inherit: bool,
        after: Sequence[str],
        limits: tuple[Limit, ...],
        drafts: list[tuple[NewJob, list[Dependency]]],
    ) -> Job[Any]:
        if inherit:
            if self._inheritable is None:
                self._inheritable = call.task.submits.children.inheritable(self._claim.id)
            call = call.with_defaults(self._inheritable)
        tracer = call.task.submits.tracer
        if tracer is None:
            return self._spawn(call, now, at_once, after, limits, drafts)
        with tracer.submitting(call) as report:
            job = self._spawn(call, now, at_once, after, limits, drafts)
            report([job])
            return job

    def _spawn(
        self,
        call: Call[Any],
        now: int,
        at_once: bool,
        after: Sequence[str],
        limits: tuple[Limit, ...],
        drafts: list[tuple[NewJob, list[Dependency]]],
    ) -> Job[Any]:
        children, parent = call.task.submits.children, self._claim.id
        if at_once:
            return children.submit(call, parent, now, self._new_id(), after, limits)
        job, new, edges = children.draft(call, parent, now, after, limits)
        drafts.append((new, edges))
        return job

    def _new_id(self) -> str:
        return child_id(self._claim.id, next(self._numbers))

    def enclosed(self, outcome: Outcome) -> Outcome:
        """The outcome with the jobs to insert in its commit. Only a success has children."""
        if not self._spawned or outcome.event is not Trigger.SUCCEED:
            return outcome
        return structs.replace(outcome, spawned=tuple(self._spawned), edges=tuple(self._edges))


def check_call(where: str, call: object) -> None:
    if not isinstance(call, Call):
        raise _no_call(where, call)


def check_part(part: object) -> None:
    if not isinstance(part, Call | CallTree):
        raise _no_call("spawn", part, ", a chain or a group")
    if isinstance(part, CallTree):
        part.check_budget("spawn")


def _no_call(where: str, given: object, more: str = "") -> InvalidJob:
    return InvalidJob(f"{where}: expected a call such as task.bind(1, 2){more}, got {short(given)}", value=given)


def child_id(parent: str, number: int) -> str:
    """The id of a job spawned at once: the same in each attempt, so that none is inserted twice."""
    plain = f"{parent}.{number}"
    if len(plain) <= _MAX_ID_CHARS:
        return plain
    from hashlib import sha256  # deferred: only deep descendants need it

    return f"{sha256(parent.encode()).hexdigest()}.{number}"
