"""How many jobs may start now: rates, concurrency, and a fair order among those that share a queue. Pure.

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
from headrace.core.jobs.queue_rules import QueueRules, Rate, Strategy
from headrace.core.text import short
from headrace.errors import ConfigError

EVERYTHING = "*"  # a capability that stands for all
STRATEGIES: tuple[Strategy, ...] = ("priority", "fifo", "lifo", "weighted_random", "fresh_first")
_UNITS = {
    "s": 1,
    "sec": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hour": 3600,
    "d": 86400,
    "day": 86400,
}
RATE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:/|\s+[Pp][Ee][Rr]\s+)\s*([0-9]+(?:\.[0-9]+)?)?\s*([A-Za-z]+)\s*")
_FASTEST, _SLOWEST = 1_000_000, 1 / (366 * 86400)  # starts per second; slower rates are mistakes, and overflow a store


def allows(rate: Rate, full_at: int, now: int) -> int:
    """How many may start now, where `full_at` is when the bucket will be full again; all in microseconds."""
    return max((now + rate.burst * rate.every - max(full_at, now)) // rate.every, 0)


def spent(rate: Rate, full_at: int, now: int, starts: int) -> int:
    """When the bucket will be full again after so many starts."""
    return max(full_at, now) + starts * rate.every


def opens_at(rate: Rate, full_at: int) -> int:
    """When one more may start."""
    return full_at - (rate.burst - 1) * rate.every


def as_rate(text: str, burst: int | None = None) -> Rate:
    """A rate as a user writes it: "10/s", "100/min", "5 per hour", "3/10s". The default burst is one second's worth."""
    match = RATE.fullmatch(text)
    unit = _unit(match[3].lower()) if match else None
    if match is None or unit is None:
        raise ConfigError(
            f"rate: {short(text)} is no rate; write so many per time, such as '10/s', '100/min' or '3/10s'", value=text
        )
    seconds = float(match[2] or 1) * unit
    jobs = float(match[1])
    if not seconds or not _SLOWEST <= jobs / seconds <= _FASTEST:
        raise ConfigError(
            f"rate: {short(text)} must be at least one a year and at most {_FASTEST} a second", value=text
        )
    every = max(round(1_000_000 * seconds / jobs), 1)
    # Not from `every`, whose rounding would turn "6/s" into five.
    return Rate(every, burst if burst is not None else max(int(jobs / seconds + 1e-9), 1))


def _unit(name: str) -> int | None:
    """The seconds of a unit; only long names have plurals, so that "ms" is not read as minutes."""
    return _UNITS.get(name) or (_UNITS.get(name.removesuffix("s")) if len(name) > 2 else None)


# -- limits

Kind = Literal["key", "rate", "needs", "task"]


class Limit(NamedTuple):
    kind: Kind
    name: str


_PREFIXES: dict[Kind, str] = {"key": "c", "rate": "r", "needs": "n", "task": "t"}
_KINDS: dict[str, Kind] = {prefix: kind for kind, prefix in _PREFIXES.items()}
_OF_GROUP = re.compile(r"([1-9][0-9]{0,9})\t")
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


def key_concurrency(lane_limit: Limit, rules: QueueRules) -> int:
    """How many jobs with this key may run at once."""
    return group_concurrency(lane_limit) or rules.key_concurrency or 1


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

    def admit(self, lane_limits: Sequence[Limit]) -> bool:
        """Whether one more job with these limits may start; if so, it is counted."""
        if any(self.capacity(lane_limit) < 1 for lane_limit in lane_limits):
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


def round_robin(
    lanes: Iterable[Sequence[QueuedJob]], order: ClaimOrder = _STRICT, served: Mapping[int, str] | None = None
) -> list[QueuedJob]:
    """The heads of several lanes in a fair order: of equally urgent ones, one of each lane in turn.

    `served` has the last served lane of a level: the one after it begins. Without that, the lane with the oldest jobs
    would get every turn of a worker with a single slot.
    """
    placed = []
    for heads in lanes:
        rounds: dict[int, int] = {}
        for head in heads:
            level = order.level_of(head)
            number = rounds[level] = rounds.get(level, 0) + 1
            last = served.get(order.remembered_at(level)) if served else None
            turn = (False, "") if last is None else (head.lane <= last, head.lane)
            place = _aged(head, order.ageing_step) if order.ageing_step else head.rank
            placed.append((-level, number, turn, place, head.seq, head))
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
