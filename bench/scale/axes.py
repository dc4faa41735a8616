"""What grows: the axes, their steps, and the load that a step puts on a store."""

from __future__ import annotations

import math
import random
from string import ascii_letters
from typing import Literal

from msgspec import Struct

AxisName = Literal["waiting", "finished", "queues", "names", "processes", "keys", "schedules", "payload"]

_WARM_UP = 1000
_MOST_BYTES = 64_000_000  # of the payloads of one probe
_BATCH_BYTES = 8_000_000  # of the payloads of one enqueue_many()
_BATCH = 1000


class Axis(Struct, frozen=True):
    """One thing that grows, from its first step to its last."""

    name: AxisName
    title: str
    unit: str
    first: int
    last: int
    factor: int = 10
    keeps_store: bool = False  # each step adds to the store of the one before

    def steps(self, up_to: float) -> list[int]:
        """The steps within the bound: at least the first."""
        count = math.floor(math.log(self.last / self.first, self.factor) + 1e-9)
        steps = [self.first * self.factor**power for power in range(count + 1)]
        return [step for step in steps if step <= up_to] or steps[:1]


AXES: tuple[Axis, ...] = (
    Axis("waiting", "jobs waiting", "jobs", 10_000, 10_000_000, keeps_store=True),
    Axis("finished", "jobs finished", "jobs", 10_000, 10_000_000, keeps_store=True),
    Axis("queues", "queues", "queues", 1, 10_000),
    Axis("names", "task names", "names", 1, 10_000),
    Axis("processes", "worker processes", "processes", 1, 64, factor=2),
    Axis("keys", "keys of a limit", "keys", 1, 100_000),
    Axis("schedules", "schedules", "schedules", 100, 100_000, keeps_store=True),
    Axis("payload", "bytes of the payload", "bytes", 100, 1_000_000),
)
NAMES: tuple[AxisName, ...] = tuple(axis.name for axis in AXES)


class Load(Struct, frozen=True):
    """The jobs of a step, and who runs them."""

    queues: int = 1
    names: int = 1
    keys: int = 0
    payload: int = 0  # bytes of text; 0: a number
    processes: int = 1
    base: int = _WARM_UP  # jobs waiting before a probe begins
    probe: int = 20_000  # jobs a probe enqueues, and then drains
    warm_up: int = _WARM_UP  # jobs that run before the clock does

    @property
    def ballast(self) -> str:
        """The text of the payload, which no store can compress much."""
        return "".join(random.Random(24).choices(ascii_letters, k=self.payload))

    @property
    def batch(self) -> int:
        """Jobs of one enqueue_many()."""
        return max(1, min(_BATCH, _BATCH_BYTES // max(self.payload, 1)))


def load_of(axis: AxisName, step: int, probe: int) -> Load:
    """What a step asks of a store. With fewer jobs than queues, names or keys these would not be there."""
    base = max(step, _WARM_UP)
    match axis:
        case "queues":
            return Load(queues=step, base=base, probe=probe)
        case "names":
            return Load(names=step, base=base, probe=probe)
        case "keys":
            return Load(keys=step, base=base, probe=probe)
        case "processes":
            return Load(processes=step, probe=3 * probe)
        case "payload":
            jobs = max(20, min(probe, _MOST_BYTES // step))
            warm_up = min(_WARM_UP, max(2, jobs // 10))
            return Load(payload=step, base=jobs, probe=jobs, warm_up=warm_up)
        case "waiting":
            return Load(base=step, probe=probe)
        case _:
            return Load(probe=probe)
