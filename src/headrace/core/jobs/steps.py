"""Steps: the results of a job's steps, its sleeps and the events it received, stored for its next attempt."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

StepKind = Literal["step", "sleep", "event", "question", "compensation", "patch", "cost"]
KINDS: tuple[str, ...] = get_args(StepKind)

# The default wait for an event: a century, which every store can represent.
NO_DEADLINE = 100 * 365 * 86_400_000
AWAITING = "waits for event "
OR = " or "

Awaited = tuple[tuple[str, int], ...]  # events, of which the first one wakes a job: their names, each with its number


class Step(Struct, frozen=True, array_like=True):
    """One stored step, sleep, event, question, compensation, patch or cost. `number` counts those of one name, from 1.

    A step has a second result only after the first was undone. `value` is the encoded result of a step, the end of a
    sleep, the data of an event, the question that it answers, the job that undoes a step,
    or the units that a run has used: the `number` of a cost is the version of its run.
    """

    kind: StepKind
    name: str
    number: int
    at: int
    value: str | None = None
    checksum: int | None = None


class Suspended(BaseException):
    """Ends a run that has to wait. Not an Exception: a task that catches all errors must let it pass."""

    def __init__(self, until: int, reason: str, awaits: Awaited | None = None) -> None:
        super().__init__(reason)
        self.until = until
        self.reason = reason
        self.awaits = awaits


def suspension_in(error: BaseException) -> Suspended | None:
    """The suspension of the run, also inside a group in which one task was suspended and none failed."""
    while isinstance(error, BaseExceptionGroup) and error.split(Suspended)[1] is None:
        error = error.exceptions[0]
    return error if isinstance(error, Suspended) else None


def awaiting(*names: str) -> str:
    """The reason of a job that is suspended until the first of these events."""
    return AWAITING + OR.join(map(repr, names))


def is_woken_by(reason: str | None, name: str) -> bool:
    """Whether a job that is suspended for this reason runs when this event comes.

    A name in which another one is quoted may wake a job too early: it looks, and is suspended again.
    """
    if reason is None or not reason.startswith(AWAITING):
        return False
    return reason == awaiting(name) or (OR in reason and repr(name) in reason)


def is_awaiting(reason: str | None) -> bool:
    """Whether this is the reason of a job that is suspended until an event."""
    return reason is not None and reason.startswith(AWAITING)


def asleep(name: str | None) -> str:
    """The reason of a job that is suspended until a time."""
    return "sleeps" if name is None else f"sleeps: {name}"


def is_asleep(reason: str | None) -> bool:
    """Whether this is the reason of a job that is suspended until a time."""
    return reason is not None and reason.partition(":")[0] == "sleeps"
