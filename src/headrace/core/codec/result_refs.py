"""Result references: an argument that is another job's result, and how it is filled in.

A stored reference is a tag like others, {"$result": id}, or {"$results": [id, …]} for a list of only these. A text that
the encoder wrote has these only where a reference was: quotes inside a text are escaped, and a user's own key that
begins with "$" is never written as a key. So they are found, and replaced by the texts of results, without decoding the
rest. This module knows nothing of stores or handles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any

from msgspec import Struct, json

from headrace.core.jobs.states import State
from headrace.errors import CorruptPayload, PermanentError

MISSING = "parent_result_missing"  # the failure reason of such a job
UNFIT = "parent_result_unfit"
MARK = '{"$result'  # no text without it holds a reference
_PLAIN = frozenset({str, int, float, bool, bytes, NoneType})
_ID = r'"[A-Za-z0-9_.:@/=-]{1,128}"'
_GIVEN = re.compile(r',"given":\[(\d+),"([^"]+)"\]\}$')
_REFERENCE = re.compile(rf'\{{"\$result":({_ID})\}}|\{{"\$results":\[({_ID}(?:,{_ID})*)\]\}}')


class MissingResult(PermanentError):
    """A parent's result that the job needs is missing for good."""


class UnfitResult(CorruptPayload):
    """A parent's result does not match the annotation of its argument."""


class ResultRef(Struct, frozen=True):
    """The result of this job, as an argument of one that waits for it."""

    id: str

    @property
    def result_ref_id(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"<result of {self.id}>"


class ParentFailure(Struct, frozen=True):
    """The argument in place of a result, for a job that runs although this job did not complete.

    `error` and `message` are its last error, if any, or why it was cancelled.
    """

    job_id: str
    task: str
    state: State
    error: str | None = None
    message: str | None = None


def is_result_ref(value: Any) -> bool:
    """Recognized by its attribute: handles of jobs and nodes of flows, in upper layers, are references too."""
    return hasattr(type(value), "result_ref_id")


def result_refs_in(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """All references in these arguments, also inside lists, tuples, sets and dicts."""
    if not kwargs and _PLAIN.issuperset(map(type, args)):  # the usual case in large flows
        return []
    return list(_found_in([args, kwargs]))


def _found_in(value: Any) -> Iterator[Any]:
    left = [value]
    while left:
        one = left.pop()
        if type(one) in _PLAIN:
            continue
        if isinstance(one, dict):
            left += reversed(one.values())
        elif isinstance(one, list | tuple | set | frozenset):
            left += reversed([*one])
        elif is_result_ref(one):
            yield one


def ids_in(text: str) -> list[str]:
    """The jobs whose results this stored call gets, each once."""
    if MARK not in text:
        return []
    found = (job_id for match in _REFERENCE.finditer(text) for job_id in _ids(match))
    return list(dict.fromkeys(found))


def filled(text: str, result: Callable[[str], str]) -> str:
    """The stored call with the text of a result in place of each reference."""

    def fill(match: re.Match[str]) -> str:
        texts = [result(job_id) for job_id in _ids(match)]
        return texts[0] if match[1] else f"[{','.join(texts)}]"

    parents = ids_in(text)
    # The parents are recorded beside the arguments, where no decoder of a call reads.
    return f'{_REFERENCE.sub(fill, text)[:-1]},"given":[{len(parents)},"{parents[0]}"]}}' if parents else text


def parents_text(text: str) -> str | None:
    """A text that names the parents whose results are in this call; None if there are none."""
    match = _GIVEN.search(text)
    if match is None:
        return None
    one = f"the result of its parent {match[2]}"
    return one if match[1] == "1" else f"a result of one of its {match[1]} parents, the first of which is {match[2]}"


def _ids(match: re.Match[str]) -> list[str]:
    return [quoted[1:-1] for quoted in (match[1] or match[2]).split(",")]


def as_failure(content: list[Any]) -> ParentFailure:
    """The value of the tag $failure."""
    job_id, task, state, error, message = content
    return ParentFailure(job_id, task, State(state), error, message)


def failure_text(failure: ParentFailure) -> str:
    """A failure as it is written in a stored call."""
    return json.encode({"$failure": failure_fields(failure)}).decode()


def failure_fields(failure: ParentFailure) -> list[str | None]:
    return [failure.job_id, failure.task, failure.state.value, failure.error, failure.message]
