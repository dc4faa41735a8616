"""What a running job remembers for its next attempt: the results of its steps, and the events that came for it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

StepKind = Literal["step", "sleep", "event"]


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
    return f"waits for event {name!r}"
