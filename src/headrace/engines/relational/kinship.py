"""Jobs that wait for jobs, in a SQL database: as steps, so that they run in a caller's transaction as well.

Rows of children are locked before their bonds are looked at: of two parents that end at the same moment in different
transactions, the second one to get the lock sees what the first one left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headrace.core.kinship import PARENT_FAILED, Bond, FlowRow, circle_in, verdict_in_words
from headrace.core.model import NewJob, Outcome
from headrace.core.states import FINAL, Event, State
from headrace.engines.relational.admission import Ask, Steps, Store, make_room, refuse_if_moved, run
from headrace.engines.relational.ledger import Ledger
from headrace.engines.sql import as_json
from headrace.errors import DuplicateJob, InvalidJob

K = TypeVar("K")
V = TypeVar("V")

_numbers = msgspec.json.Decoder(list[int])
_named = msgspec.json.Decoder(list[tuple[str, int, State]])
_pairs = msgspec.json.Decoder(list[tuple[str, str]])
_doomed = msgspec.json.Decoder(list[tuple[int, str, str, State, str | None]])
_freed = msgspec.json.Decoder(list[tuple[int, State]])
_revivable = msgspec.json.Decoder(list[tuple[int, str]])
_kin = msgspec.json.Decoder(list[tuple[int, int, int]])


class Effects(Struct):
    """Whom it concerned: workers, if something may run now; those who wait for results, if something has ended."""

    work: bool = False
    done: bool = False

    def add(self, other: Effects) -> None:
        self.work |= other.work
        self.done |= other.done

    def ring(self, bell: Callable[[str], None]) -> None:
        for topic in self.topics():
            bell(topic)

    def topics(self) -> list[str]:
        return ["work"] * self.work + ["done"] * self.done


# -- new jobs


def plant(
    jobs: Sequence[NewJob], bonds: Sequence[Bond], flow: FlowRow | None, lengths: Mapping[str, int], now: int
) -> Steps[Effects]:
    """Store the jobs with what they wait for, and what waits for them."""
    yield from refuse_if_moved()
    standing = yield from _find_standing(jobs, bonds)
    yield from _refuse_circles(jobs, bonds, standing)
    yield from make_room(jobs, lengths)
    fresh = yield Store(list(jobs))
    if not all(fresh):
        raise DuplicateJob(jobs[fresh.index(False)].id)
    if flow is not None:
        yield Ask("add_flow", {"id": flow.id, "name": flow.name, "created_at": flow.created_at})
    return (yield from _tie(bonds, standing, now))


def _find_standing(jobs: Sequence[NewJob], bonds: Sequence[Bond]) -> Steps[dict[str, tuple[int, State]]]:
    """The jobs that are there already, by id, and locked: none of them ends before this is stored."""
    new = {job.id for job in jobs}
    elsewhere = {name for bond in bonds for name in (bond.parent, bond.child)} - new
    if not elsewhere:
        return {}
    told = _named.decode((yield Ask("lock_named", {"ids": as_json(sorted(elsewhere))})))
    standing = {name: (seq, state) for name, seq, state in told}
    for name in sorted(elsewhere - standing.keys()):
        raise InvalidJob(f"there is no job {name!r} to wait for, or to let wait")
    for bond in bonds:
        if bond.child in standing and standing[bond.child][1] in FINAL:
            raise InvalidJob(f"job {bond.child!r} is {standing[bond.child][1]} already; it can't wait for another one")
    return standing


def _refuse_circles(jobs: Sequence[NewJob], bonds: Sequence[Bond], standing: Mapping[str, object]) -> Steps[None]:
    pairs = [(bond.parent, bond.child) for bond in bonds]
    older = sorted({bond.child for bond in bonds if bond.child in standing})
    # Nothing that is new can wait for itself by way of an older job, unless an older one waits for what is new.
    if older and any(bond.parent in standing for bond in bonds):
        pairs += _pairs.decode((yield Ask("bonds_below", {"ids": as_json(older)})))
    if (path := circle_in(pairs)) is not None:
        raise InvalidJob(f"these jobs would wait for each other: {' -> '.join(path)}")


def _tie(bonds: Sequence[Bond], standing: Mapping[str, tuple[int, State]], now: int) -> Steps[Effects]:
    if not bonds:
        return Effects()
    yield Ask("tie", {"b": as_json(bonds)})
    concerned = {bond.parent for bond in bonds} | {bond.child for bond in bonds if bond.child in standing}
    yield Ask("mark_kin", {"ids": as_json(sorted(concerned))})
    older = [standing[name] for name in {bond.child for bond in bonds} if name in standing]
    back = [seq for seq, state in older if state not in (State.RUNNING, State.WAITING)]
    if back:
        yield _filed(back, Event.AMEND, State.WAITING, "it waits for a job that was added", now)
        yield Ask("hold_back", {"seqs": as_json(back)})
    over = [standing[bond.parent] for bond in bonds if bond.parent in standing]
    return (yield from follow(sorted({seq for seq, state in over if state in FINAL}), now))


# -- the end of jobs


def follow(ended: Sequence[int], now: int) -> Steps[Effects]:
    """Decide over all that waited for jobs which have ended, and for those that end by it."""
    effects = Effects()
    while ended:
        batch = {"seqs": as_json(ended)}
        if not (yield Ask("lock_children", batch)):
            break
        yield Ask("unbind", batch)
        cancelled = yield from _cancel(ended, now)
        yield Ask("hold", batch)
        completed = yield from _unblock(ended, now, effects)
        ended = cancelled + completed
        effects.done |= bool(ended)
    return effects


def _cancel(ended: Sequence[int], now: int) -> Steps[list[int]]:
    doomed = _doomed.decode((yield Ask("doomed", {"seqs": as_json(ended)})))
    told = {seq: verdict_in_words(task, name, state, reason) for seq, name, task, state, reason in doomed}
    for detail, seqs in _grouped((detail, seq) for seq, detail in told.items()).items():
        yield _filed(seqs, Event.CANCEL, State.CANCELLED, detail, now)
    if told:
        yield Ask("cancel", {"seqs": as_json(list(told)), "now": now, "reason": PARENT_FAILED})
    return list(told)


def _unblock(ended: Sequence[int], now: int, effects: Effects) -> Steps[list[int]]:
    freed = _freed.decode((yield Ask("unblocked", {"seqs": as_json(ended), "now": now})))
    by_target = _grouped((target, seq) for seq, target in freed)
    for target, seqs in by_target.items():
        yield _filed(seqs, Event.UNBLOCK, target, "all that it waited for has ended", now)
        yield Ask("unblock", {"seqs": as_json(seqs), "target": target.value, "now": now})
    effects.work |= bool(freed)  # also for what is due later: a worker has to know when
    return by_target.get(State.COMPLETED, [])


# -- jobs that are to run again


def reopen(revived: Sequence[int], now: int) -> Steps[None]:
    """Let wait again what waited for these, also what only their end had cancelled."""
    level = list(revived)
    while level:
        batch = {"seqs": as_json(level)}
        if not (yield Ask("lock_children", batch)):
            break
        yield Ask("rebind", batch)
        yield Ask("unhold", batch)
        found = _revivable.decode((yield Ask("revivable", batch)))
        for name, seqs in _grouped((name, seq) for seq, name in found).items():
            yield _filed(seqs, Event.REVIVE, State.WAITING, f"its parent {name} is to run again", now)
        level = [seq for seq, _ in found]
        if level:
            yield Ask("revive", {"seqs": as_json(level), "state": State.WAITING.value, "now": now})
            yield Ask("hold_again", {"seqs": as_json(level)})


# -- for those who have a transaction of their own


def kin_among(ledger: Ledger, seqs: Sequence[int]) -> list[int]:
    """Those of these jobs whose end concerns others."""
    return _numbers.decode(ledger.ask("kin_among", seqs=as_json(seqs))) if seqs else []


def follow_kin(ledger: Ledger, seqs: Sequence[int], now: int) -> Effects:
    """`follow` for those of these ended jobs that have kin."""
    kin = kin_among(ledger, seqs)
    return run(follow(kin, now), ledger) if kin else Effects()


class Settlement(Struct):
    """What was settled of jobs that have kin: the places of the outcomes, and whom it concerned."""

    places: set[int]
    effects: Effects


def settle(
    ledger: Ledger, outcomes: Sequence[Outcome], apply: Callable[[list[Outcome]], object], now: int
) -> Settlement:
    """Settle those outcomes whose job has kin; `apply` stores them as they are meant, with their history."""
    kin = _kin.decode(ledger.ask("kin_outcomes", o=as_json(outcomes)))
    if not kin:
        return Settlement(set(), Effects())
    meant = {seq: _meant(outcomes[place], blocks) for place, seq, blocks in kin}
    apply(list(meant.values()))
    effects = Effects()
    for outcome in meant.values():
        if outcome.spawned:
            effects.add(run(_spawn(outcome, now), ledger))
    ended = [seq for seq, outcome in meant.items() if outcome.state in FINAL]
    effects.add(run(follow(ended, now), ledger))
    return Settlement({place for place, _, _ in kin}, effects)


def _meant(outcome: Outcome, blocks: int) -> Outcome:
    """A success of a job that has to wait for others is not its end."""
    if outcome.event is not Event.SUCCEED:
        return outcome
    blocks += len(outcome.spawned)
    if not blocks:
        return replace(outcome, quiet=True)  # the row tells it
    jobs = "1 job" if blocks == 1 else f"{blocks} jobs"
    return replace(outcome, state=State.WAITING, reason=f"its own run is over; it waits for {jobs}")


def _spawn(outcome: Outcome, now: int) -> Steps[Effects]:
    """Store what a job left behind. What is there already was left by a success of it before."""
    fresh = yield Store(list(outcome.spawned))
    standing = yield from _find_standing(outcome.spawned, outcome.bonds)
    effects = yield from _tie(outcome.bonds, standing, now)
    effects.work |= any(fresh)
    return effects


def _filed(seqs: Sequence[int], event: Event, target: State, detail: str, now: int) -> Ask:
    values: dict[str, Any] = {"event": event.value, "target": target.value, "detail": detail, "now": now}
    return Ask("file_changes", {"seqs": as_json(seqs), **values})


def _grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
