"""Compensations: jobs that undo the finished steps of a job that does not complete.

A compensation waits for the job, with the policy "only". Each also waits for the one that was registered after it, so
they run in reverse order. For each, the job stores a step of the kind "compensation" with the id of its job. A step
that was undone runs again if the job is retried: its later results have higher numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from headrace.core.jobs.states import State
from headrace.core.jobs.steps import Step, StepKind

KIND: StepKind = "compensation"
_MAX_ID_CHARS = 128
_NOT_BEGUN = frozenset({State.WAITING, State.CANCELLED})


def compensation_id(parent: str, name: str, number: int) -> str:
    """The id of a compensation: the same in each attempt, so that none is inserted twice."""
    digest = sha256(name.encode()).hexdigest()[:12]
    plain = f"{parent}.undo.{digest}.{number}"
    return plain if len(plain) <= _MAX_ID_CHARS else f"{sha256(parent.encode()).hexdigest()}.undo.{digest}.{number}"


def encoded(job_id: str) -> str:
    return msgspec.json.encode(job_id).decode()


def job_of(step: Step) -> str | None:
    """The compensation's job, "" if the step is not to be undone; None if it has begun: the step counts as undone."""
    return None if step.value is None else msgspec.json.decode(step.value, type=str)


def jobs_of(steps: Sequence[Step]) -> list[str]:
    return [job_id for step in steps if step.kind == KIND and (job_id := job_of(step))]


def with_undone(steps: Sequence[Step], states: Mapping[str, State]) -> list[Step]:
    """The steps, with compensations that have begun marked as such. A job without a state was removed: it was over."""
    return [
        replace(step, value=None, checksum=None)
        if step.kind == KIND and (job_id := job_of(step)) and states.get(job_id) not in _NOT_BEGUN
        else step
        for step in steps
    ]
