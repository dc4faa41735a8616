"""Jobs that a running job spawns and waits for: inserted with its success, or at once.

The app of each call decides where they are stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from headrace.core.codec.result_refs import result_refs_in
from headrace.core.jobs.dependencies import Dependency
from headrace.core.jobs.records import Claim, NewJob, Outcome
from headrace.core.jobs.states import Trigger
from headrace.core.queues.limits import Limit
from headrace.core.text import short
from headrace.errors import InvalidJob
from headrace.runtime.jobs.call_tree import CallTree, Part
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.task import Call, ChildDraft

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
        """The job of a call; of a chain or a group, all its jobs. All are spawned, or none if one is refused."""
        check_part(part)
        drafts: list[tuple[Call[Any], ChildDraft]] = []

        def put(call: Call[Any], after: Sequence[Any], limits: tuple[Limit, ...]) -> Job[Any]:
            job_id = self._new_id() if at_once else None
            call = self._inheriting(call) if inherit else call
            drafts.append((call, self._drafted(call, now, job_id, [job.id for job in after], limits)))
            return drafts[-1][1].job

        if isinstance(part, Call):
            put(part, (), ())
        else:
            part.place(put, self._new_id)
        _ensure_results(drafts)
        if at_once:
            jobs = [call.task.submits.children.submit(draft, self._claim.id) for call, draft in drafts]
        else:
            jobs = [draft.job for _, draft in drafts]
            for _, draft in drafts:
                self._spawned.append(draft.new)
                self._edges += draft.edges
        return jobs[0] if isinstance(part, Call) else jobs

    def _inheriting(self, call: Call[Any]) -> Call[Any]:
        if self._inheritable is None:
            self._inheritable = call.task.submits.children.inheritable(self._claim.id)
        return call.with_defaults(self._inheritable)

    def _drafted(
        self, call: Call[Any], now: int, job_id: str | None, after: Sequence[str], limits: tuple[Limit, ...]
    ) -> ChildDraft:
        submits = call.task.submits
        if submits.tracer is None:
            return submits.children.draft(call, self._claim.id, now, job_id, after, limits)
        with submits.tracer.submitting(call) as report:
            draft = submits.children.draft(call, self._claim.id, now, job_id, after, limits)
            report([draft.job])
            return draft

    def _new_id(self) -> str:
        return child_id(self._claim.id, next(self._numbers))

    def enclosed(self, outcome: Outcome) -> Outcome:
        """The outcome with the jobs to insert in its commit. Only a success has children."""
        if not self._spawned or outcome.event is not Trigger.SUCCEED:
            return outcome
        return structs.replace(outcome, spawned=tuple(self._spawned), edges=tuple(self._edges))


def _ensure_results(drafts: Sequence[tuple[Call[Any], ChildDraft]]) -> None:
    """Refuse a job that needs a result which is not stored."""
    unkept = {draft.job.id: call for call, draft in drafts if not call.keeps_result}
    if not unkept:
        return
    for call, _ in drafts:
        for ref in result_refs_in(call.args, call.kwargs):
            if (parent := unkept.get(ref.result_ref_id)) is not None:
                raise InvalidJob(
                    f"spawn: {call.task.name} needs the result of {parent.task.name}, which has keep_result=False; "
                    "set keep_result=True, or detach the call with detached()"
                )


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
