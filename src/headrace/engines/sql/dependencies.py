"""Job dependencies in a SQL database, as steps, so that they also run in a caller's transaction.

Children are locked before their dependencies are read: of two parents that end at the same moment in different
transactions, the second one to get the lock sees the changes of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.core.jobs.dependencies import (
    PARENT_FAILED,
    PARENTS_COMPLETED,
    Dependency,
    FlowRow,
    find_cycle,
    parent_end_text,
)
from headrace.core.jobs.history_texts import NOT_NEEDED, PARENT_ADDED, PARENT_RUNS_AGAIN, UNBLOCKED, WAITS_FOR_CHILDREN
from headrace.core.jobs.records import NewJob, Outcome
from headrace.core.jobs.states import FINAL, State, Trigger
from headrace.core.text import counted
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql.records import SettleKey
from headrace.engines.sql.transaction import Transaction
from headrace.engines.sql.unique_insert import (
    Fetch,
    Steps,
    StoreUnique,
    has_moved,
    refuse_if_full,
    refuse_if_moved,
    run,
)
from headrace.errors import DuplicateJob, InvalidJob

K = TypeVar("K")
V = TypeVar("V")

_names = msgspec.json.Decoder(list[str])
_numbers = msgspec.json.Decoder(list[int])
_named = msgspec.json.Decoder(list[tuple[str, int, State]])
_pairs = msgspec.json.Decoder(list[tuple[str, str]])
_to_cancel = msgspec.json.Decoder(list[tuple[int, str, str, State, str | None]])
_freed = msgspec.json.Decoder(list[tuple[int, State]])
_revivable = msgspec.json.Decoder(list[tuple[int, str]])
_number_pairs = msgspec.json.Decoder(list[tuple[int, int]])


class Wakeups(Struct):
    """Topics to ring: workers, if a job may run now; callers that wait for results, if a job has finished.

    And the workers' heartbeats, if a running job has to end.
    """

    work: bool = False
    done: bool = False
    commands: bool = False

    def add(self, other: Wakeups) -> None:
        self.work |= other.work
        self.done |= other.done
        self.commands |= other.commands

    def ring(self, bell: Callable[[str], None]) -> None:
        for topic in self.topics():
            bell(topic)

    def topics(self) -> list[str]:
        return ["work"] * self.work + ["done"] * self.done + ["commands"] * self.commands


# -- new jobs


def insert_graph(
    jobs: Sequence[NewJob], edges: Sequence[Dependency], flow: FlowRow | None, lengths: Mapping[str, int], now: int
) -> Steps[Wakeups]:
    """Insert the jobs with their dependencies on both sides."""
    yield from refuse_if_moved()
    existing = yield from _find_existing(jobs, edges)
    if (path := (yield from _find_cycle(jobs, edges, existing))) is not None:
        raise InvalidJob(f"these jobs would wait for each other: {' -> '.join(path)}")
    yield from refuse_if_full(jobs, lengths)
    parents = {edge.parent for edge in edges}
    fresh = yield StoreUnique(
        [replace(job, has_dependencies=1) if not job.has_dependencies and job.id in parents else job for job in jobs]
    )
    if not all(fresh):
        if not any(fresh) and (yield from _stored_before(jobs)):
            return Wakeups()  # this very call stored them before; its answer was lost
        raise DuplicateJob(jobs[fresh.index(False)].id)
    if flow is not None:
        yield Fetch("add_flow", {"id": flow.id, "name": flow.name, "created_at": flow.created_at})
    return (yield from _add_edges(edges, existing, now))


def _stored_before(jobs: Sequence[NewJob]) -> Steps[bool]:
    stored = _names.decode((yield Fetch("stored_as_given", {"j": as_json(jobs)})))
    return {job.id for job in jobs} == set(stored)


def _find_existing(jobs: Sequence[NewJob], edges: Sequence[Dependency]) -> Steps[dict[str, tuple[int, State]]]:
    """The existing jobs by id, locked: none of them ends before this is stored."""
    new = {job.id for job in jobs}
    others = set(_names_in(edges)) - new
    if not others:
        return {}
    rows = _named.decode((yield Fetch("lock_named", {"ids": as_json(sorted(others))})))
    existing = {name: (seq, state) for name, seq, state in rows}
    for name in sorted(others - existing.keys()):
        raise InvalidJob(f"a dependency names job {name!r}, which does not exist; it may be archived")
    for edge in edges:
        if edge.child in existing and existing[edge.child][1] in FINAL:
            raise InvalidJob(f"job {edge.child!r} is {existing[edge.child][1]} already; it can't wait for another one")
    return existing


def _find_cycle(
    jobs: Sequence[NewJob], edges: Sequence[Dependency], existing: Mapping[str, object]
) -> Steps[list[str] | None]:
    """The path of a cycle that these dependencies would close."""
    older = sorted({edge.child for edge in edges if edge.child in existing})
    place = {job.id: number for number, job in enumerate(jobs)}
    if not older and all(place.get(edge.parent, -1) < place[edge.child] for edge in edges):
        return None  # nearly always: each job waits for earlier ones only
    pairs = [(edge.parent, edge.child) for edge in edges]
    # A new job can wait for itself by way of an older job only if an older job waits for a new one.
    if older and any(edge.parent in existing for edge in edges):
        pairs += _pairs.decode((yield Fetch("edges_below", {"ids": as_json(older)})))
    return find_cycle(pairs)


def _add_edges(edges: Sequence[Dependency], existing: Mapping[str, tuple[int, State]], now: int) -> Steps[Wakeups]:
    if not edges:
        return Wakeups()
    yield Fetch("add_edges", {"b": as_json(edges)})
    if existing_names := [name for name in _names_in(edges) if name in existing]:
        yield Fetch("mark_dependents", {"ids": as_json(existing_names)})
    older = [existing[name] for name in {edge.child for edge in edges} if name in existing]
    back = [seq for seq, state in older if state not in (State.RUNNING, State.WAITING)]
    if back:
        yield _history_step(back, Trigger.UPDATE, State.WAITING, PARENT_ADDED, now)
        yield Fetch("back_to_waiting", {"seqs": as_json(back), "now": now})
    ended_parents = {existing[edge.parent] for edge in edges if edge.parent in existing}
    completed = sorted(seq for seq, state in ended_parents if state is State.COMPLETED)
    lost = {seq for seq, state in ended_parents if state in (State.FAILED, State.CANCELLED)}
    return (yield from propagate(completed, sorted(lost | set((yield from _lost_before(back)))), now))


def _lost_before(waiting: Sequence[int]) -> Steps[list[int]]:
    """Parents of newly waiting jobs that failed or were cancelled before."""
    if not waiting:
        return []
    return _numbers.decode((yield Fetch("lost_parents", {"seqs": as_json(waiting)})))


# -- the end of jobs


def propagate(completed: Sequence[int], lost: Sequence[int], now: int, unchecked: Sequence[int] = ()) -> Steps[Wakeups]:
    """Settle the dependencies on jobs that were completed or lost, and on the jobs that end because of that."""
    effects = Wakeups()
    while completed or lost or unchecked:
        children = yield from _locked_children([*completed, *lost])
        if not (children or unchecked):
            break
        if completed:
            yield Fetch("delete_edges", {"seqs": as_json(completed), "completed": True})
        cancelled = (yield from _settle_failures(lost, now)) if lost else []
        completed, not_needed = yield from _unblock([*children, *unchecked], now, effects)
        lost, unchecked = [*cancelled, *not_needed], ()
        effects.done |= bool(completed or lost)
    return effects


def _locked_children(parents: Sequence[int]) -> Steps[list[int]]:
    return _numbers.decode((yield Fetch("lock_children", {"seqs": as_json(parents)})))


def _settle_failures(lost: Sequence[int], now: int) -> Steps[list[int]]:
    """Cancel, unblock or hold the jobs that waited for failed or cancelled ones, as their dependency says."""
    batch = {"seqs": as_json(lost)}
    yield Fetch("delete_edges", {**batch, "completed": False})
    cancelled = yield from _cancel(lost, now)
    yield Fetch("hold_children", batch)
    return cancelled


def _cancel(ended: Sequence[int], now: int) -> Steps[list[int]]:
    to_cancel = _to_cancel.decode((yield Fetch("children_to_cancel", {"seqs": as_json(ended)})))
    details = {seq: parent_end_text(task, name, state, reason) for seq, name, task, state, reason in to_cancel}
    for detail, seqs in _grouped((detail, seq) for seq, detail in details.items()).items():
        yield _history_step(seqs, Trigger.CANCEL, State.CANCELLED, detail, now)
    if details:
        yield Fetch("cancel", {"seqs": as_json(list(details)), "now": now, "reason": PARENT_FAILED})
    return list(details)


def _unblock(waiting: Sequence[int], now: int, effects: Wakeups) -> Steps[tuple[list[int], list[int]]]:
    """Let the jobs run that wait for no other any more. Returns those that are over, and those not needed."""
    freed = _freed.decode((yield Fetch("unblocked", {"seqs": as_json(waiting), "now": now})))
    by_target = _grouped((target, seq) for seq, target in freed)
    if not_needed := by_target.pop(State.CANCELLED, []):
        yield _history_step(not_needed, Trigger.CANCEL, State.CANCELLED, NOT_NEEDED, now)
        yield Fetch("cancel", {"seqs": as_json(not_needed), "now": now, "reason": PARENTS_COMPLETED})
    for target, seqs in by_target.items():
        yield _history_step(seqs, Trigger.UNBLOCK, target, UNBLOCKED, now)
        yield Fetch("unblock", {"seqs": as_json(seqs), "target": target.value, "now": now})
    effects.work |= bool(by_target)  # also for jobs due later: a worker needs to know the time
    return by_target.get(State.COMPLETED, []), not_needed


# -- jobs that run again


def reopen(revived: Sequence[int], now: int) -> Steps[None]:
    """Make the dependents of these jobs wait again, also those that only their end had cancelled."""
    level = list(revived)
    while level:
        batch = {"seqs": as_json(level)}
        if not (yield from _locked_children(level)):
            break
        yield Fetch("restore_blocks", batch)
        yield Fetch("unhold_children", batch)
        found = _revivable.decode((yield Fetch("revivable", batch)))
        for name, seqs in _grouped((name, seq) for seq, name in found).items():
            yield _history_step(seqs, Trigger.REVIVE, State.WAITING, PARENT_RUNS_AGAIN % name, now)
        level = [seq for seq, _ in found]
        if level:
            yield Fetch("wait_again", {"seqs": as_json(level), "now": now})
            yield Fetch("hold_again", {"seqs": as_json(level)})


# -- for callers with a transaction of their own


def with_dependents(tx: Transaction, seqs: Sequence[int]) -> list[int]:
    """Those of these jobs that have dependencies."""
    return _numbers.decode(tx.fetch("with_dependents", seqs=as_json(seqs))) if seqs else []


def propagate_failures(tx: Transaction, seqs: Sequence[int], now: int) -> Wakeups:
    """`propagate` for those of these failed or cancelled jobs that have dependencies."""
    seqs = with_dependents(tx, seqs)
    return run(propagate([], seqs, now), tx) if seqs else Wakeups()


class MustWaitForChildren(Exception):
    """Raised when an optimistic completion hits a job with open children; the transaction is retried with checks."""


def propagate_completed(tx: Transaction, seqs: Sequence[int], now: int) -> Wakeups:
    """`propagate` for jobs that this transaction completed without checking for open children."""
    # Since the write, no other transaction can have added children to them.
    if _number_pairs.decode(tx.fetch("blocking", seqs=as_json(seqs))):
        raise MustWaitForChildren
    return run(propagate(seqs, [], now), tx)


class DependencySettlement(Struct):
    """The settled jobs with dependencies: positions of their outcomes, wake-ups, and whether any has to wait."""

    places: set[int]
    effects: Wakeups
    some_wait: bool = False


class SettleWriter(Protocol):
    """How a store settles jobs with dependencies."""

    def complete(self, outcomes: list[Outcome]) -> None:
        """Store plain successes."""
        ...

    def settle(self, outcomes: list[Outcome]) -> None:
        """Store outcomes other than plain successes, with their history."""
        ...


def settle(tx: Transaction, outcomes: Sequence[Outcome], writer: SettleWriter, now: int) -> DependencySettlement:
    """Settle the outcomes of jobs with dependencies, and decide about their dependents."""
    places: dict[int, int] = {}
    is_closed = any(outcome.spawned for outcome in outcomes) and _is_closed(tx)
    keys = [SettleKey(outcome.id, outcome.version, bool(outcome.spawned)) for outcome in outcomes]
    for place, seq in sorted(_number_pairs.decode(tx.fetch("outcomes_with_dependents", o=as_json(keys)))):
        # A second outcome of one claim is stale, and so is one that would spawn jobs in a store that has moved.
        if not (is_closed and outcomes[place].spawned):
            places.setdefault(seq, place)
    # Not in the locking statement: it would see dependencies from before it waited for the lock.
    blocking = dict(_number_pairs.decode(tx.fetch("blocking", seqs=as_json(list(places))))) if places else {}
    settled = {seq: (place, _effective_outcome(outcomes[place], blocking.get(seq, 0))) for seq, place in places.items()}
    if not settled:
        return DependencySettlement(set(), Wakeups())
    effective = {seq: outcome for seq, (_, outcome) in settled.items()}
    completed = {seq: outcome for seq, outcome in effective.items() if outcome.state is State.COMPLETED}
    if completed:
        writer.complete(list(completed.values()))
    if others := [outcome for seq, outcome in effective.items() if seq not in completed]:
        writer.settle(others)
    effects = Wakeups()
    unchecked = [seq for seq, outcome in effective.items() if outcome.state is State.WAITING]
    for outcome in effective.values():
        if outcome.spawned:
            effects.add(run(_spawn(outcome, now, unchecked), tx))
    lost = [seq for seq, outcome in effective.items() if outcome.state in (State.FAILED, State.CANCELLED)]
    lost += run(_lost_before([seq for seq, outcome in effective.items() if outcome.state is State.WAITING]), tx)
    effects.add(run(propagate(list(completed), lost, now, unchecked), tx))
    return DependencySettlement({place for place, _ in settled.values()}, effects, bool(unchecked))


def _is_closed(tx: Transaction) -> bool:
    """Whether the store accepts no jobs any more. If it does, that holds until the transaction ends."""
    # First: a process that sets the store status waits for our writes, but not for our earlier reads.
    tx.run("hold_inserts")
    return has_moved(tx.fetch("store_status"))


def _effective_outcome(outcome: Outcome, blocks: int) -> Outcome:
    """The success of a job with open children makes it waiting."""
    if outcome.event is not Trigger.SUCCEED:
        return outcome
    blocks += len([edge for edge in outcome.edges if edge.child == outcome.id])
    if not blocks:
        return outcome
    jobs = counted(blocks, "job")
    return replace(outcome, state=State.WAITING, reason=WAITS_FOR_CHILDREN % jobs)


def _spawn(outcome: Outcome, now: int, unchecked: list[int]) -> Steps[Wakeups]:
    """Insert the jobs that a successful job spawned. The success stands, so nothing here may raise.

    Existing jobs were spawned by an earlier success. Dependencies on missing jobs or of finished children are dropped.
    """
    fresh = yield StoreUnique([replace(job, has_dependencies=1) for job in outcome.spawned])
    rows = _named.decode((yield Fetch("lock_named", {"ids": as_json(_names_in(outcome.edges))})))
    known = {name: (seq, state) for name, seq, state in rows}
    edges = [b for b in outcome.edges if b.parent in known and b.child in known and known[b.child][1] not in FINAL]
    new = {job.id for job, is_new in zip(outcome.spawned, fresh, strict=True) if is_new}
    unchecked += [known[job.id][0] for job in outcome.spawned if job.id in new and job.id in known]
    existing = {name: found for name, found in known.items() if name not in new}
    while (path := (yield from _find_cycle(outcome.spawned, edges, existing))) is not None:
        on_cycle = set(pairwise(path))
        dropped = next((b for b in edges if (b.parent, b.child) in on_cycle and b.parent in existing), None)
        edges = [edge for edge in edges if edge is not dropped] if dropped else []
    effects = yield from _add_edges(edges, existing, now)
    effects.work |= any(fresh)
    return effects


def names_existing(jobs: Sequence[NewJob], edges: Sequence[Dependency]) -> bool:
    """Whether the dependencies name other jobs than these."""
    return not set(_names_in(edges)) <= {job.id for job in jobs}


def _names_in(edges: Sequence[Dependency]) -> list[str]:
    return sorted({name for edge in edges for name in (edge.parent, edge.child)})


def _history_step(seqs: Sequence[int], event: Trigger, target: State, detail: str, now: int) -> Fetch:
    values: dict[str, Any] = {"event": event.value, "target": target.value, "detail": detail, "now": now}
    return Fetch("record_changes", {"seqs": as_json(seqs), **values})


def _grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
