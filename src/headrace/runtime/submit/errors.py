"""Why calls were not stored, in words: a store tells only an id. Knows neither engines nor handles."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from headrace.core.codec.result_refs import result_refs_in
from headrace.core.jobs.records import NewJob
from headrace.core.jobs.unique_rules import UniqueResult
from headrace.core.tasks.options import SAMENESS
from headrace.errors import DuplicateJob, InvalidJob, PayloadTooLarge
from headrace.runtime.jobs.task import Call

_SAME = "a job that counts as the same exists already: {}; nothing was stored"
_BYTES_OF_AN_ID = 39  # as we make them, with quotes and a comma
_TWICE = "two of these calls count as the same; nothing was stored"


def refuse(call: Call[Any], new: NewJob, verdict: UniqueResult) -> None:
    """Raise what the verdict on a single call means, if it was not stored and none stands for it."""
    if verdict.id == new.id and call.options.job_id is UNSET:
        return  # only this very job can have an id we made ourselves: it had to be stored twice
    if verdict.kind == "taken":
        raise DuplicateJob(new.id)
    if verdict.kind == "refused":
        raise DuplicateJob(verdict.id, _SAME)


def not_itself(call: Call[Any]) -> InvalidJob:
    """What to raise for a call with kin that another one may stand for."""
    options = call.options.over(call.task.options)
    said = next((name for name in SAMENESS if getattr(options, name)), "unique")
    return InvalidJob(
        f"{call.task.name}: a job that waits for others, or is waited for, can't be one that counts as the same as "
        f"another; take that back for this call with using({said}=None), or enqueue it by itself",
        field=said,
    )


def refuse_too_many_results(call: Call[Any], limit: int) -> None:
    """Raise if a call is too large for the results it is to be given, which are told by the ids of their jobs."""
    results = sum(1 for _ in result_refs_in(call.args, call.kwargs))
    if results * _BYTES_OF_AN_ID > limit // 2:  # else it is the rest that is large
        raise PayloadTooLarge(
            f"{call.task.name}: the ids of the {results:,} jobs whose results it is to be given take more than the "
            f"limit of {limit:,} bytes; raise the setting max_payload, or split the group into smaller ones, each "
            "followed by a job that puts its results together",
            field=None,
            limit=limit,
        )


class RefusalText:
    """Says of a batch that was refused what the reason was: a store tells only the id of the job in the way."""

    def __init__(self, calls: list[Call[Any]], news: list[NewJob]) -> None:
        self._calls = calls
        self._news = news

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if not isinstance(error, DuplicateJob):
            return
        places = [place for place, new in enumerate(self._news) if new.id == error.job_id]
        if any(self._calls[place].options.job_id is not UNSET for place in places):
            return  # the id was the caller's own, and is taken
        raise DuplicateJob(error.job_id, _TWICE if places else _SAME) from None
