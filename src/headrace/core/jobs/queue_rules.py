"""An operator's rules for queues and tasks, as stored. The records hold values and decide nothing."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Struct

from headrace.core.damaged_records import read_or

Strategy = Literal["priority", "fifo", "lifo", "weighted_random", "fresh_first"]


class Rate(Struct, frozen=True, omit_defaults=True):
    """So many starts in so many microseconds, and up to `burst` at once after a pause.

    With a `period` it is a window of the clock: `burst` starts in each period of so many microseconds. With `units` it
    counts the units of the jobs that start. A job starts when the windows in `more` allow it, too.
    """

    every: Annotated[int, msgspec.Meta(ge=1)]  # microseconds between two starts at the steady rate
    burst: Annotated[int, msgspec.Meta(ge=1)]
    period: Annotated[int, msgspec.Meta(ge=0)] = 0
    units: bool = False
    more: tuple[Rate, ...] = ()

    @property
    def windows(self) -> tuple[Rate, ...]:
        """This one, and those in `more`."""
        return (self, *self.more) if self.more else (self,)


RateOwner = tuple[str, ...]  # whose rate: ("queue", NAME), ("task", NAME), or of a rate key ("key", QUEUE, NAME)


class KeyRules(Struct, frozen=True, omit_defaults=True):
    """An operator's rules for one key of a queue, in place of those for every key. None is no rule of its own."""

    rate: Rate | None = None
    concurrency: int | None = None
    weight: int | None = None


class QueueRules(Struct, frozen=True, omit_defaults=True):
    """An operator's rules for a queue, for every worker and every caller. None is no rule.

    `keys` are the rules of single keys, by name.
    """

    max_length: int | None = None
    weight: int | None = None
    strategy: Strategy | None = None
    ageing: int | None = None
    rate: Rate | None = None
    concurrency: int | None = None
    key_rate: Rate | None = None
    key_concurrency: int | None = None
    keys: dict[str, KeyRules] = {}

    def rate_of_key(self, name: str) -> Rate | None:
        """The rate of this rate key."""
        own = self.keys.get(name)
        return self.key_rate if own is None or own.rate is None else own.rate

    def concurrency_of_key(self, name: str) -> int:
        """How many jobs with this concurrency key may run at once."""
        own = self.keys.get(name)
        return (own.concurrency if own is not None else None) or self.key_concurrency or 1

    @property
    def rates(self) -> list[Rate]:
        """All rates of the queue and its keys."""
        found = [self.rate, self.key_rate, *(own.rate for own in self.keys.values())]
        return [rate for rate in found if rate is not None]

    @property
    def shape_claims(self) -> bool:
        """Whether a claim from this queue has to consider more than the order of its jobs."""
        return QueueRules(max_length=self.max_length, weight=self.weight) != self


decode_queue_rules = msgspec.json.Decoder(QueueRules).decode


def queue_rules(stored: str | bytes | None) -> QueueRules:
    """The stored rules of a queue; damaged ones count as none, so that the queue does not stop."""
    return read_or(decode_queue_rules, stored, QueueRules()) if stored else QueueRules()


class TaskRules(Struct, frozen=True, omit_defaults=True):
    """An operator's rules for all jobs of a task, whatever their queue."""

    paused: bool = False
    rate: Rate | None = None
    concurrency: int | None = None
    strategy: Strategy | None = None

    @property
    def limit_starts(self) -> bool:
        """Whether a claim has to find its jobs in all queues. An order of its own applies inside its lanes."""
        return TaskRules(strategy=self.strategy) != self


decode_task_rules = msgspec.json.Decoder(TaskRules).decode


def task_rules(stored: str | bytes) -> TaskRules:
    """The stored rules of a task; damaged ones count as none."""
    return read_or(decode_task_rules, stored, TaskRules())


class LimitState(NamedTuple):
    """What limits count at a moment.

    `running` is the number of jobs with a live lease by queue, task and lane; `full_at` is what the buckets of the
    windows of each rate hold, as in core/queues/rates.py.
    """

    running: list[tuple[str, str, str, int]]
    full_at: dict[RateOwner, list[int]]


class QueueRow(Struct, frozen=True, array_like=True):
    """A queue's stored settings. `rules` is a QueueRules in JSON, None if there are none."""

    name: str
    paused: bool
    created_at: int
    rules: str | None = None


class TaskRow(Struct, frozen=True, array_like=True):
    """A task with rules."""

    name: str
    rules: TaskRules


class StoreRules(NamedTuple):
    """The queues with their settings, and the tasks that have rules."""

    queues: list[QueueRow]
    tasks: list[TaskRow]
