"""Jobs that a running job spawns and waits for: inserted with its success, or at once.

The app of each call decides where they are stored.
"""

from __future__ import annotations

import itertools
from typing import Any

from msgspec import structs

from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import Claim, NewJob, Outcome
from headrace.core.jobs.states import Trigger
from headrace.core.text import short
from headrace.errors import InvalidJob
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.task import Call

_MAX_ID_CHARS = 128


class Spawning:
    """The jobs that one attempt has spawned; several threads may spawn at once."""

    __slots__ = ("_claim", "_edges", "_numbers", "_spawned")

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._numbers = itertools.count(1)
        self._spawned: list[NewJob] = []
        self._edges: list[Dependency] = []

    def spawn(self, call: Call[Any], now: int, at_once: bool) -> Job[Any]:
        check_call("spawn", call)
        tracer = call.task.submits.tracer
        if tracer is None:
            return self._spawn(call, now, at_once)
        with tracer.submitting(call) as report:
            job = self._spawn(call, now, at_once)
            report([job])
            return job

    def _spawn(self, call: Call[Any], now: int, at_once: bool) -> Job[Any]:
        submits, parent = call.task.submits, self._claim.id
        if at_once:
            return submits.children.submit(call, parent, now, child_id(parent, next(self._numbers)))
        job, new, edges = submits.children.draft(call, parent, now)
        self._spawned.append(new)
        self._edges += edges
        return job

    def enclosed(self, outcome: Outcome) -> Outcome:
        """The outcome with the jobs to insert in its commit. Only a success has children."""
        if not self._spawned or outcome.event is not Trigger.SUCCEED:
            return outcome
        return structs.replace(outcome, spawned=tuple(self._spawned), edges=tuple(self._edges))


def check_call(where: str, call: object) -> None:
    if not isinstance(call, Call):
        raise InvalidJob(f"{where}: expected a call such as task.bind(1, 2), got {short(call)}", value=call)


def child_id(parent: str, number: int) -> str:
    """The id of a job spawned at once: the same in each attempt, so that none is inserted twice."""
    plain = f"{parent}.{number}"
    if len(plain) <= _MAX_ID_CHARS:
        return plain
    from hashlib import sha256  # deferred: only deep descendants need it

    return f"{sha256(parent.encode()).hexdigest()}.{number}"
