"""What an operator asks of queues and of tasks, as it is stored. The records hold values and know no rule."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Struct

from headrace.core.damaged_records import read_or

Strategy = Literal["priority", "fifo", "lifo", "weighted_random", "fresh_first"]


class Rate(Struct, frozen=True):
    """So many starts in so many microseconds, and up to `burst` at once after a rest."""

    every: Annotated[int, msgspec.Meta(ge=1)]  # microseconds between two starts at the steady rate
    burst: Annotated[int, msgspec.Meta(ge=1)]


class QueueRules(Struct, frozen=True, omit_defaults=True):
    """What an operator asks of a queue, for every worker and every caller. None is no rule."""

    max_length: int | None = None
    weight: int | None = None
    strategy: Strategy | None = None
    ageing: int | None = None
    rate: Rate | None = None
    concurrency: int | None = None
    key_rate: Rate | None = None
    key_concurrency: int | None = None

    @property
    def shape_claims(self) -> bool:
        """Whether a claim from this queue has more to mind than the order of its jobs."""
        return QueueRules(max_length=self.max_length, weight=self.weight) != self


decode_queue_rules = msgspec.json.Decoder(QueueRules).decode


def queue_rules(stored: str | bytes | None) -> QueueRules:
    """The rules of a queue as they are stored; those that are damaged are none, lest the queue stand still."""
    return read_or(decode_queue_rules, stored, QueueRules()) if stored else QueueRules()


class TaskRules(Struct, frozen=True, omit_defaults=True):
    """What an operator asks of all jobs of a task, whatever their queue."""

    paused: bool = False
    rate: Rate | None = None
    concurrency: int | None = None
    strategy: Strategy | None = None

    @property
    def limit_starts(self) -> bool:
        """Whether its jobs have to be looked for wherever they wait. An order of its own is minded in its lanes."""
        return TaskRules(strategy=self.strategy) != self


decode_task_rules = msgspec.json.Decoder(TaskRules).decode


def task_rules(stored: str | bytes) -> TaskRules:
    """The rules of a task as they are stored; those that are damaged are none."""
    return read_or(decode_task_rules, stored, TaskRules())


class TaskRow(Struct, frozen=True, array_like=True):
    """A task that has rules."""

    name: str
    rules: TaskRules
