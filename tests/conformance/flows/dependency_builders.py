"""Small builders for jobs that wait for jobs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from headrace.core.jobs.dependencies import Dependency, Policy
from headrace.core.jobs.records import Claim, Filter, NewJob, Outcome
from headrace.core.jobs.states import State, Trigger
from headrace.engines.protocol.engine import Engine
from tests.support.builders import NOW, new_job, succeed


def child(job_id: str, **more: Any) -> NewJob:
    """A job that has parents, as a client would submit it."""
    return new_job(job_id, state=State.WAITING, **more)


def the(*job_ids: str) -> Filter:
    """These jobs and no others."""
    return Filter(ids=job_ids)


def plant_chain(engine: Engine, *names: str, policy: Policy = "cancel") -> None:
    """Jobs that each wait for the one before."""
    first, *others = names
    edges = [Dependency(one, next_one, policy) for one, next_one in pairwise(names)]
    engine.insert([new_job(first), *map(child, others)], edges=edges, now=NOW)


def cancel(engine: Engine, job_id: str) -> list[str]:
    moved = engine.queries.move(the(job_id), Trigger.CANCEL, 1, now=NOW)
    assert moved == [job_id]
    return moved


def spawning(claimed: Claim, jobs: Sequence[NewJob], edges: Sequence[Dependency]) -> Outcome:
    """A success that leaves jobs behind."""
    return replace(succeed(claimed), spawned=tuple(jobs), edges=tuple(edges))
