"""How many jobs may start now by their limits, and a fair order among those that share a queue. Pure.

A job whose start depends on more than its queue carries a **lane**, the list of its **limits**: a key that only so many
jobs may hold at once, a group of which only so many may run at once, a key of which only so many may start in a time, a
capability that its worker must have, a task that an operator has limited. A job may start when all of its limits allow
it. Jobs of one lane wait behind each other and behind no others, so a blocked lane delays no other, and no lane with a
million jobs starves one with ten.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from headrace.core.damaged_records import DAMAGE
from headrace.core.jobs.queue_rules import QueueRules, Strategy

EVERYTHING = "*"  # a capability that stands for all
STRATEGIES: tuple[Strategy, ...] = ("priority", "fifo", "lifo", "weighted_random", "fresh_first")


Kind = Literal["key", "rate", "needs", "task"]


class Limit(NamedTuple):
    kind: Kind
    name: str


_PREFIXES: dict[Kind, str] = {"key": "c", "rate": "r", "needs": "n", "task": "t"}
_KINDS: dict[str, Kind] = {prefix: kind for kind, prefix in _PREFIXES.items()}
_OF_GROUP = re.compile(r"([1-9][0-9]{0,9})\t")
_UNIQUE = "unique "
_texts = msgspec.json.Decoder(list[str])


def group_limit(at_most: int, group_id: str) -> Limit:
    """The limit that the jobs of a group share: a key with a number of its own, so that no rule has to be stored.

    No user's key has a tab. Workers that do not know such keys run one of these jobs at a time, as of any key.
    """
    return Limit("key", f"{at_most}\t{group_id}")


def group_concurrency(lane_limit: Limit) -> int | None:
    """How many jobs of a group may run at once; None if it is another limit."""
    number = _OF_GROUP.match(lane_limit.name) if lane_limit.kind == "key" else None
    return None if number is None else int(number[1])


def unique_limit(unique_key: str | None) -> Limit:
    """The limit of jobs with this unique key, of which one may run at once."""
    return Limit("key", f"{_UNIQUE}{unique_key}")


def is_concurrency_key(kind: Kind, name: str) -> bool:
    """Whether this is a key that a user gave, and not one of headrace."""
    return kind == "key" and not name.startswith(_UNIQUE) and group_concurrency(Limit(kind, name)) is None


def key_concurrency(lane_limit: Limit, rules: QueueRules) -> int:
    """How many jobs with this key may run at once."""
    return group_concurrency(lane_limit) or rules.concurrency_of_key(lane_limit.name)


def lane_weight(lane: str, rules: QueueRules) -> int:
    """How many jobs of this lane start in each of its turns: the weight of its key, of two keys the larger one."""
    if not rules.keys:
        return 1
    own = (rules.keys.get(lane_limit.name) for lane_limit in lane_limits_of(lane) if lane_limit.kind in ("key", "rate"))
    return max((rules.weight or 1 for rules in own if rules is not None), default=1)


def lane_of(lane_limits: Iterable[Limit]) -> str:
    """The lane of a job with these limits; "" if it has none, and may start whenever its queue may."""
    texts = sorted({f"{_PREFIXES[lane_limit.kind]}:{lane_limit.name}" for lane_limit in lane_limits})
    return msgspec.json.encode(texts).decode() if texts else ""


def lane_limits_of(lane: str) -> list[Limit]:
    """The limits of a lane. A damaged one needs a capability that no worker has, as its limits are unknown."""
    found = _read(lane)
    return [Limit("needs", lane)] if found is None else found


def rated_keys(lanes: Iterable[str]) -> set[str]:
    """The keys of these lanes that have a rate of their own, if their queue has one for keys."""
    return {found.name for lane in lanes for found in lane_limits_of(lane) if found.kind == "rate"}


def is_damaged(lane: str | bytes) -> bool:
    """Whether the limits of this lane can't be read."""
    return _read(lane) is None


def _read(lane: str | bytes) -> list[Limit] | None:
    if not lane:
        return []
    try:
        return [Limit(_KINDS[text[0]], text[2:]) for text in _texts.decode(lane)]
    except (*DAMAGE, LookupError):
        return None


def behind_task(lane: str, task: str) -> str:
    """The same lane with a limit for its jobs' task."""
    return lane_of([*lane_limits_of(lane), Limit("task", task)])


def needs_of(lane: str) -> frozenset[str]:
    """The capabilities that jobs of this lane need."""
    return frozenset(lane_limit.name for lane_limit in lane_limits_of(lane) if lane_limit.kind == "needs")


def is_equipped(capabilities: Iterable[str], needs: Iterable[str]) -> bool:
    """Whether a worker with these capabilities has all the needed ones."""
    has = set(capabilities)
    return EVERYTHING in has or has.issuperset(needs)


class QueuedJob(Struct, frozen=True, array_like=True, gc=False):
    """A job near the front of its lane."""

    seq: int
    task: str
    priority: int
    rank: int
    lane: str = ""


class LimitCounter:
    """Counts how many jobs each limit still allows in one claim."""

    def __init__(self, capacity_of: Callable[[Limit], float]) -> None:
        self._capacity_of = capacity_of
        self._capacity: dict[Limit, float] = {}
        self.passed: dict[Limit, int] = {}

    def capacity(self, lane_limit: Limit) -> float:
        if lane_limit not in self._capacity:
            self._capacity[lane_limit] = self._capacity_of(lane_limit)
        return self._capacity[lane_limit]

    def has_room(self, lane_limits: Sequence[Limit]) -> bool:
        """Whether one more job with these limits may start."""
        return all(self.capacity(lane_limit) >= 1 for lane_limit in lane_limits)

    def admit(self, lane_limits: Sequence[Limit]) -> bool:
        """Whether one more job with these limits may start; if so, it is counted."""
        if not self.has_room(lane_limits):
            return False
        for lane_limit in lane_limits:
            self._capacity[lane_limit] -= 1
            self.passed[lane_limit] = self.passed.get(lane_limit, 0) + 1
        return True


class ClaimOrder(NamedTuple):
    """The order of jobs inside a lane, and among lanes."""

    strategy: Strategy
    ageing: int | None = None

    @property
    def uses_priority(self) -> bool:
        """Whether lanes go by the priority of their jobs. In all other orders lanes are equally urgent."""
        return self.strategy in ("priority", "fresh_first")

    @property
    def ageing_step(self) -> int:
        """The milliseconds of waiting that count as one point of priority; 0 without ageing."""
        return self.ageing or 0 if self.strategy == "priority" else 0

    def level_of(self, head: QueuedJob) -> int:
        """The urgency of a job among lanes, in whole points. All jobs age alike, so the current time is left out."""
        if not self.uses_priority:
            return 0
        return head.priority - abs(head.rank) // self.ageing_step if self.ageing_step else head.priority

    def remembered_at(self, level: int) -> int:
        """The key of a level's last served lane. With ageing, levels change, so all share one key."""
        return 0 if self.ageing_step else level


_STRICT = ClaimOrder("priority")


class LaneTurn(NamedTuple):
    """The lane whose turn is not over, and how many of its jobs have started in it."""

    lane: str
    starts: int


def round_robin(
    lanes: Iterable[Sequence[QueuedJob]],
    order: ClaimOrder = _STRICT,
    served: Mapping[int, str] | None = None,
    begun: Mapping[int, LaneTurn] | None = None,
    weight_of_lane: Callable[[str], int] = lambda lane: 1,
) -> list[QueuedJob]:
    """The heads of several lanes in a fair order: of equally urgent ones, as many of each lane in turn as its weight.

    `served` has the last served lane of a level: the one after it begins. Without that, the lane with the oldest jobs
    would get every turn of a worker with a single slot. `begun` has the turns of a level that are not over.
    """
    placed = []
    for heads in lanes:
        rounds: dict[int, int] = {}
        for head in heads:
            level = order.level_of(head)
            if level not in rounds:
                turn = begun.get(order.remembered_at(level)) if begun else None
                rounds[level] = turn.starts if turn is not None and turn.lane == head.lane else 0
            number = rounds[level] // weight_of_lane(head.lane)
            rounds[level] += 1
            last = served.get(order.remembered_at(level)) if served else None
            behind = (False, "") if last is None else (head.lane <= last, head.lane)
            place = _aged(head, order.ageing_step) if order.ageing_step else head.rank
            placed.append((-level, number, behind, place, head.seq, head))
    return [head for *_, head in sorted(placed, key=lambda place: place[:5])]


# -- the order inside a queue


def weight_of(priority: int) -> float:
    """How often a priority is drawn: ten points more, ten times as often."""
    return 10 ** (priority / 10)


def drawn(waiting: Mapping[int, int], jobs: int, chance: Callable[[], float]) -> list[int]:
    """Draw priorities by their weights, each at most as often as jobs of it wait."""
    left, order = {priority: count for priority, count in waiting.items() if count}, list[int]()
    while left and len(order) < jobs:
        total = sum(weight_of(priority) for priority in left)
        mark, chosen = chance() * total, max(left)
        for priority in sorted(left):
            mark -= weight_of(priority)
            if mark < 0:
                chosen = priority
                break
        order.append(chosen)
        left[chosen] -= 1
        if not left[chosen]:
            del left[chosen]
    return order


def merged(levels: Mapping[int, Sequence[QueuedJob]], order: ClaimOrder, jobs: int) -> list[QueuedJob]:
    """The first `jobs` of a queue, given the fronts of its priorities.

    With `fifo` the longest waiting comes first and with `lifo` the newest, whatever their priority. With `ageing`, so
    many milliseconds of waiting count as one point of priority.
    """

    def place(head: QueuedJob) -> tuple[int, int]:
        waited_from = _aged(head, order.ageing_step)
        return (-waited_from, -head.seq) if order.strategy == "lifo" else (waited_from, head.seq)

    return sorted((head for heads in levels.values() for head in heads), key=place)[:jobs]


def _aged(head: QueuedJob, ageing_step: int) -> int:
    """Since when a job waits, with its priority converted into waiting time."""
    return abs(head.rank) - head.priority * ageing_step


def in_places_of(heads: Iterable[QueuedJob], usual: Sequence[QueuedJob]) -> list[QueuedJob]:
    """Heads of a lane with its own order, each with the urgency of the most urgent one left when it starts.

    `usual` are as many of the lane in the order of its queue. So the queue decides when the lane is next and the lane
    decides which of its jobs starts, whether jobs are claimed singly or together.
    """
    placed, gone, front = list[QueuedJob](), set[int](), 0
    for head in heads:
        while usual[front].seq in gone:
            front += 1
        placed.append(QueuedJob(head.seq, head.task, usual[front].priority, usual[front].rank, head.lane))
        gone.add(head.seq)
    return placed
