"""Inserts of new jobs, and the errors of refused ones. Each insert is one script and so all or nothing."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.jobs.dependencies import Dependency, FlowRow
from headrace.core.jobs.records import NewJob
from headrace.core.jobs.states import Trigger, sources
from headrace.core.jobs.transfer import StoreStatus
from headrace.core.jobs.unique_rules import InsertResult, UniqueRule, results_of
from headrace.engines.redis import serialization
from headrace.engines.redis.script_loader import Script, load
from headrace.engines.shared.decisions import closed_error, queue_full
from headrace.errors import DuplicateJob, InvalidJob, StoreMoved

if TYPE_CHECKING:
    from headrace.engines.redis.connections import RedisConnections, Value

_insert, _insert_unique, _insert_graph = load("jobs/insert"), load("jobs/insert_unique"), load("flows/insert_graph")
_UPDATABLE = sorted(state.value for state in sources(Trigger.UPDATE))


def insert(
    connections: RedisConnections, jobs: Sequence[NewJob], all_or_nothing: bool, now: int, record_events: bool
) -> list[InsertResult]:
    """Insert the jobs whose id is free; the result of each."""
    taken = _run(connections, _insert, jobs, all_or_nothing, now, int(record_events))
    fresh = [True] * len(jobs)
    for position in taken:
        fresh[position - 1] = False
    if taken and all_or_nothing:
        raise DuplicateJob(jobs[taken[0] - 1].id)
    return results_of(jobs, fresh)


def insert_unique(
    connections: RedisConnections,
    jobs: Sequence[NewJob],
    unique: Sequence[UniqueRule | None],
    all_or_nothing: bool,
    now: int,
) -> list[InsertResult]:
    """Insert the jobs under their unique rules; the result of each."""
    rules = serialization.encode([rule or False for rule in unique])
    answer = _run(connections, _insert_unique, jobs, all_or_nothing, now, rules, *_UPDATABLE)
    return [
        InsertResult(kind.decode(), job_id.decode()) for kind, job_id in zip(answer[::2], answer[1::2], strict=True)
    ]


def insert_graph(
    connections: RedisConnections, jobs: Sequence[NewJob], edges: Sequence[Dependency], flow: FlowRow | None, now: int
) -> list[InsertResult]:
    """Insert jobs with their dependencies and their flow."""
    batch = (len(jobs), serialization.encode([job.id for job in jobs]), serialization.encode_batch(jobs))
    flow_args = ("", b"") if flow is None else (flow.id, serialization.encode(flow))
    args = (now, secrets.randbits(50), *batch, serialization.encode_batch(edges), *flow_args)
    if answer := connections.run(_insert_graph, *args, repeat=args):
        raise_refusal(*answer)
    return results_of(jobs, [True] * len(jobs))


def _run(
    connections: RedisConnections, script: Script, jobs: Sequence[NewJob], all_or_nothing: bool, now: int, *more: Value
) -> list[Any]:
    call = (now, int(all_or_nothing), secrets.randbits(50))
    batch = (len(jobs), serialization.encode([job.id for job in jobs]), serialization.encode_batch(jobs), *more)
    # A second try must not take its own earlier success for another caller's.
    answer: list[Any] = connections.run(script, *call, 0, *batch, repeat=(*call, 1, *batch))
    if answer and isinstance(answer[0], bytes):
        raise_refusal(*answer)
    return answer


def unless_closed(answer: Any) -> Any:
    """The answer, unless it is a store status: that is in a list of its own, since an id may be any text."""
    if isinstance(answer, list) and answer and isinstance(answer[0], list):
        kind, other = answer[0]
        raise closed_error(StoreStatus("moved" if kind == b"moved" else "arriving", other.decode(), 0))
    return answer


def raise_refusal(kind: bytes, subject: bytes, *details: Any) -> None:
    """Raise the refusal that a script returned instead of its answer."""
    if kind == b"moved":
        raise StoreMoved(subject.decode())
    if kind == b"duplicate":
        raise DuplicateJob(subject.decode())
    if kind == b"full":
        raise queue_full(subject.decode(), *details[:3])
    if kind == b"unknown":
        raise InvalidJob(
            f"a dependency names job {subject.decode()!r}, which does not exist; it may be archived, or deleted"
        )
    if kind == b"ended":
        raise InvalidJob(f"job {subject.decode()!r} is {details[0].decode()} already; it can't wait for another one")
    if kind == b"cycle":
        path = " -> ".join(name.decode() for name in (subject, *details))
        raise InvalidJob(f"these jobs would wait for each other: {path}")
