"""Batch tasks: one call of the function runs several jobs. What such a function looks like, and its limits. Pure.

The function takes a list with the argument of each job, and may return a list with the result of each.
"""

from __future__ import annotations

import collections.abc
import inspect
from collections.abc import Sequence
from types import UnionType
from typing import Any, Union, get_args, get_origin

from msgspec import UNSET, Struct

from headrace.core.text import counted, short
from headrace.errors import ConfigError, InvalidJob, PermanentError

MOST_JOBS = 1000
LONGEST_WITHIN = 60
_USUAL_WITHIN = 100  # milliseconds
_LISTS = (list, collections.abc.Sequence, collections.abc.Collection, collections.abc.Iterable)


class BatchLimits(Struct, frozen=True):
    """How many jobs one call gets at most, and how many seconds the first of them waits for others."""

    jobs: int
    within: float

    @classmethod
    def of(cls, options: Any) -> BatchLimits | None:
        """The limits that the options of a task set; None if it is no batch task."""
        if options.batch is UNSET:
            return None
        return cls(options.batch, (_USUAL_WITHIN if options.within is UNSET else options.within) / 1000)


def batch_text(batch: int | None, within: float | None) -> str:
    """`batch 100 within 0.5 s`; nothing for other tasks."""
    return "" if batch is None else f"batch {batch} within {within:g} s"


def check_batch(name: str, value: Any) -> int:
    """How many jobs a call gets at most."""
    if type(value) is not int or not 1 <= value <= MOST_JOBS:
        raise InvalidJob(f"{name}: expected a number of jobs from 1 to {MOST_JOBS}, got {short(value)}", value=value)
    return value


def ensure_batchable(options: Any) -> None:
    """Refuse options that a batch task can't have, and `within` for another task."""
    if options.batch is UNSET:
        if options.within is not UNSET:
            raise InvalidJob("within: it belongs to a batch; give batch=... as well", field="within")
        return
    for name, refused, reason in (
        ("isolation", "process", "its jobs share one call in the worker's process"),
        ("preemptible", True, "one job can't be ended without the others"),
        ("interrupt", True, "each of its jobs has a timeout of its own, and they share one call"),
        ("keep_logs", True, "what a call logs belongs to all its jobs; use current_jobs()[...].log()"),
    ):
        given = getattr(options, name)
        if given is not UNSET and (bool(given) if refused is True else given == refused):
            raise InvalidJob(f"{name}={refused!r} and batch exclude each other: {reason}", field=name)


def check_parameters(parameters: Sequence[inspect.Parameter], title: str) -> None:
    """ConfigError unless the function takes one list, besides what is injected."""
    first = parameters[0] if len(parameters) == 1 else None
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        names = ", ".join(parameter.name for parameter in parameters) or "none"
        raise ConfigError(
            f"{title}: a batch task takes one parameter, the list of its jobs' arguments; it has {names}. "
            "For several values in a job, use a dataclass",
            field="batch",
        )
    if first.default is not first.empty:
        raise ConfigError(f"{title}: {first.name!r} must have no default: each job has an argument", field="batch")


def item_of(annotation: Any, title: str) -> Any:
    """The type of a job's argument: that of the items of the list that the function takes."""
    if annotation in (Any, object, list):
        return Any
    if get_origin(annotation) not in _LISTS:
        raise ConfigError(
            f"{title}: a batch task takes a list; annotate its parameter as list[...], not {short(annotation)}",
            field="batch",
        )
    return get_args(annotation)[0]


def result_of(annotation: Any) -> Any:
    """The type of a job's result: that of the items of the list that the function returns, without the exceptions."""
    if get_origin(annotation) not in _LISTS:
        return Any
    item = get_args(annotation)[0]
    if get_origin(item) not in (Union, UnionType):
        return item
    kinds = [kind for kind in get_args(item) if not (isinstance(kind, type) and issubclass(kind, BaseException))]
    return Union[tuple(kinds)] if kinds else Any  # noqa: UP007 - of a tuple


def results_of(returned: Any, jobs: int, task: str) -> list[Any]:
    """The result of each job. An exception among them fails its job alone. None stands for no results."""
    if returned is None:
        return [None] * jobs
    if not hasattr(returned, "__len__") or isinstance(returned, str | bytes | collections.abc.Mapping | set):
        raise PermanentError(f"{task}() returned {short(returned)} for a batch; return a list with a result per job")
    if len(returned) != jobs:
        raise PermanentError(f"{task}() returned {counted(len(returned), 'result')} for {counted(jobs, 'job')}")
    return list(returned)
