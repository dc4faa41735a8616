"""Under what condition a job is stored at all: the records of uniqueness that cross the engine seam."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from headrace.core.jobs.records import NewJob
from headrace.core.jobs.states import State

Act = Literal["keep", "refuse", "replace", "reschedule"]
Kind = Literal["new", "taken", "existing", "refused", "replaced", "rescheduled"]


class UniqueCondition(Struct, frozen=True, array_like=True):
    """Jobs in one of these states, and of at most this age: since they were created, or since they finished."""

    states: tuple[State, ...]
    created_since: int | None = None
    finished_since: int | None = None


class UniqueRule(Struct, frozen=True, array_like=True):
    """What to do if a job with the same key is there already that meets any of the conditions.

    `keep` lets that one stand for the new one, `refuse` does not store the new one. `replace` gives the one that is
    there, if it has not started, everything of the new one but its id; `reschedule` gives it the new one's time only.
    A job that runs, or is finished, can be neither replaced nor rescheduled, and stands. To these two acts a job that
    has begun counts as one that runs, also while it is laid aside: it remembers something, or waits for an event.
    """

    conditions: tuple[UniqueCondition, ...]
    act: Act = "keep"

    @property
    def amends(self) -> bool:
        return self.act in ("replace", "reschedule")


class UniqueInsert(Struct, frozen=True, array_like=True):
    """A job that is stored only as its rule allows. Without a rule it is stored as by `insert`."""

    job: NewJob
    rule: UniqueRule | None = None


class UniqueResult(Struct, frozen=True, array_like=True):
    """What became of a candidate, and the id of the job that stands for it: its own, or one that was there.

    `taken` says that its id was there already.
    """

    kind: Kind
    id: str
