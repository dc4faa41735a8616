"""Error texts for refused calls: the store names only an id. Knows neither engines nor handles."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from headrace.core.codec.result_refs import result_refs_in
from headrace.core.jobs.records import NewJob
from headrace.core.jobs.unique_rules import InsertResult
from headrace.core.tasks.options import SAMENESS
from headrace.errors import DuplicateJob, InvalidJob, PayloadTooLarge
from headrace.runtime.jobs.task import Call

_SAME = "a job that counts as the same exists already: {}; nothing was stored"
_BYTES_OF_AN_ID = 39  # the length of a generated id, with quotes and a comma
_TWICE = "two of these calls count as the same; nothing was stored"


def refuse(call: Call[Any], new: NewJob, result: InsertResult) -> None:
    """Raise the error for the result of a single call, if it was neither stored nor matched to another job."""
    if result.id == new.id and call.options.job_id is UNSET:
        return  # a generated id can only belong to this same job: its insert was repeated
    if result.kind == "taken":
        raise DuplicateJob(new.id)
    if result.kind == "refused":
        raise DuplicateJob(result.id, _SAME)


def not_itself(call: Call[Any]) -> InvalidJob:
    """The error for a call with dependencies that may be matched to another job."""
    options = call.options.over(call.task.options)
    option = next((name for name in SAMENESS if getattr(options, name)), "unique")
    return InvalidJob(
        f"{call.task.name}: a job with dependencies can't be unique; "
        f"turn that off for this call with using({option}=None), or enqueue it by itself",
        field=option,
    )


def refuse_too_many_results(call: Call[Any], limit: int) -> None:
    """Raise if the ids of the parents whose results a call gets make it too large."""
    results = sum(1 for _ in result_refs_in(call.args, call.kwargs))
    if results * _BYTES_OF_AN_ID > limit // 2:  # else the rest of the call is large
        raise PayloadTooLarge(
            f"{call.task.name}: the ids of the {results:,} jobs whose results it gets take more than the "
            f"limit of {limit:,} bytes; raise the setting max_payload, or split the group into smaller ones, each "
            "followed by a job that combines its results",
            field=None,
            limit=limit,
        )


class RefusalText:
    """Adds the reason to the error of a refused batch: the store names only the id of the conflicting job."""

    def __init__(self, calls: list[Call[Any]], new_jobs: list[NewJob]) -> None:
        self._calls = calls
        self._new_jobs = new_jobs

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if not isinstance(error, DuplicateJob):
            return
        places = [place for place, new in enumerate(self._new_jobs) if new.id == error.job_id]
        if any(self._calls[place].options.job_id is not UNSET for place in places):
            return  # the caller gave this id, and it is taken
        raise DuplicateJob(error.job_id, _TWICE if places else _SAME) from None
