"""The filters of jobs as users give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State
from headrace.core.option_times import check_moment
from headrace.core.tasks.index import tag_of
from headrace.core.tasks.options import check_text
from headrace.core.text import short
from headrace.errors import InvalidJob

_NAMES = ("state", "queue", "task", "tag", "args", "worker", "text", "flow", "since", "until", "ids")


def as_filter(given: dict[str, Any]) -> Filter:
    """Validate filters; InvalidJob names the wrong one."""
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _NAMES:
            raise InvalidJob(f"unknown filter {name!r}; filters are {', '.join(_NAMES)}", field=name)
        if value is None:
            continue
        if name == "state":
            values["states"] = _states(value)
        elif name == "ids":
            values["ids"] = _ids(value)
        elif name == "args":
            values["tag"] = _indexed(value, given.get("tag"))
        elif name in ("since", "until"):
            values[name] = check_moment(name, value) if isinstance(value, datetime) else _wrong_time(name, value)
        else:
            values[name] = check_text(name, getattr(value, "id" if name == "flow" else "name", value))
    if () in (values.get("ids"), values.get("states")):
        values["ids"] = ("",)  # matches nothing: no id is empty
    return Filter(**values)


def described(given: Mapping[str, Any]) -> str:
    """The given filters in a line, for people."""
    return ", ".join(f"{name} {_shown(value)}" for name, value in given.items() if value is not None)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={one}" for name, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(getattr(value, "id", value))


def _states(value: Any) -> tuple[State, ...]:
    try:
        return tuple(State(state) for state in ([value] if isinstance(value, str) else value))
    except (ValueError, TypeError):
        raise InvalidJob(f"state: {short(value)} is not one of {', '.join(State)}", value=value) from None


def _ids(value: Any) -> tuple[str, ...]:
    if not isinstance(value, Iterable) or isinstance(value, str):
        raise InvalidJob(f"ids: expected a list of ids, got {short(value)}", value=value)
    return tuple(check_text("ids", job_id) for job_id in value)


def _indexed(args: Any, tag: Any) -> str:
    """The hidden tag of an indexed argument."""
    if not isinstance(args, Mapping) or len(args) != 1:
        raise InvalidJob(
            f"args: expected one indexed argument, such as args={{'order_id': 7}}, got {short(args)}", value=args
        )
    if tag is not None:
        raise InvalidJob("args and tag exclude each other; give one of them", field="args")
    ((name, value),) = args.items()
    return tag_of(name, value)


def _wrong_time(name: str, value: Any) -> int:
    raise InvalidJob(f"{name}: expected a datetime with a time zone, got {short(value)}", value=value)
