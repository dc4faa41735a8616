"""Records for inserts: unique rule, request, result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from headrace.core.jobs.records import NewJob
from headrace.core.jobs.states import State

Act = Literal["keep", "refuse", "replace", "reschedule", "cancel"]
Kind = Literal["new", "taken", "existing", "refused", "replaced", "rescheduled", "spooled"]


class UniqueCondition(Struct, frozen=True, array_like=True):
    """Jobs in one of these states, and of at most this age: since their creation, or since they finished."""

    states: tuple[State, ...]
    created_since: int | None = None
    finished_since: int | None = None


class UniqueRule(Struct, frozen=True, array_like=True):
    """What to do if a job with the same key exists that meets any of the conditions.

    `keep` returns the existing job, `refuse` does not store the new one. `replace` gives the existing job, if it has
    not started, everything of the new one but its id; `reschedule` gives it only the new time. A running or finished
    job can be neither replaced nor rescheduled, and is kept. For these two, a suspended job counts as running: it has
    steps, or waits for an event. `cancel` replaces like `replace`, and ends the jobs with this key that have started: a
    running one is asked to stop and stays running until its worker has settled that, the others are cancelled at once.

    Inserts of one key are decided one after the other, over all processes and within a call.
    """

    conditions: tuple[UniqueCondition, ...]
    act: Act = "keep"

    @property
    def updates(self) -> bool:
        return self.act in ("replace", "reschedule", "cancel")

    @property
    def cancels(self) -> bool:
        return self.act == "cancel"


class UniqueInsert(Struct, frozen=True, array_like=True):
    """A job that is inserted only as its rule allows. Without a rule it is inserted as by `insert`."""

    job: NewJob
    rule: UniqueRule | None = None


class InsertResult(Struct, frozen=True, array_like=True):
    """The result of an insert, and the id of the resulting job: its own, or that of an existing one.

    `taken` says that its id already existed, `spooled` that it waits in a local file for its store.
    """

    kind: Kind
    id: str


def results_of(jobs: Sequence[NewJob], fresh: Iterable[bool]) -> list[InsertResult]:
    """The results of jobs without unique rules; `fresh` says whose id was free."""
    return [InsertResult("new" if is_new else "taken", job.id) for job, is_new in zip(jobs, fresh, strict=True)]


def candidates_of(jobs: Sequence[NewJob], unique: Sequence[UniqueRule | None]) -> list[UniqueInsert]:
    """The jobs, each with its unique rule."""
    return [UniqueInsert(job, rule) for job, rule in zip(jobs, unique, strict=True)]
