"""What a running job remembers for its next attempt: the results of its steps, and the events that came for it."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

StepKind = Literal["step", "sleep", "event"]
KINDS: tuple[str, ...] = get_args(StepKind)

# How long a job waits for an event if nobody says how long: a century is a moment that every store can count with.
NO_DEADLINE = 100 * 365 * 86_400_000
AWAITING = "waits for event "


class Step(Struct, frozen=True, array_like=True):
    """One thing a job remembers. `number` tells sleeps and events of one name apart, from 1; a step's is 1.

    `value` is the encoded result of a step, the moment a sleep ends, the data of an event.
    """

    kind: StepKind
    name: str
    number: int
    at: int
    value: str | None = None
    checksum: int | None = None


def awaiting(name: str) -> str:
    """The reason of a job that is suspended until this event comes."""
    return f"{AWAITING}{name!r}"


def is_awaiting(reason: str | None) -> bool:
    """Whether this is the reason of a job that is suspended until an event comes."""
    return reason is not None and reason.startswith(AWAITING)


def asleep(name: str | None) -> str:
    """The reason of a job that is suspended until a time comes."""
    return "sleeps" if name is None else f"sleeps: {name}"


def is_asleep(reason: str | None) -> bool:
    """Whether this is the reason of a job that is suspended until a time comes."""
    return reason is not None and reason.partition(":")[0] == "sleeps"
