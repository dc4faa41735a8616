"""Options that several commands share, and the parsing of their values.

Bad values raise here, with the option's name. Nothing opens a store.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

from headrace.core.fields import Field
from headrace.core.jobs.states import State
from headrace.core.settings.settings import choices_of
from headrace.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])
Callback = Callable[[click.Context, click.Parameter, Any], Any]
_OPPOSITES = {"--enabled": "--disabled"}
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")


def example(*lines: str) -> str:
    """The epilog of a command: its examples."""
    title = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join(["\b", title, *(f"  {line}" for line in lines)])


def _set_on_session(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value and param.name:
        setattr(ctx.obj, param.name, value)


_SHARED = (
    click.option(
        "--app",
        metavar="MODULE:ATTR",
        expose_value=False,
        callback=_set_on_session,
        help="The app, such as shop.jobs:app.",
    ),
    click.option(
        "--url",
        metavar="URL",
        expose_value=False,
        callback=_set_on_session,
        help="The store, such as sqlite:///jobs.db or postgresql://host/database.",
    ),
    click.option(
        "--env-file",
        metavar="PATH",
        expose_value=False,
        callback=_set_on_session,
        help="Read variables from this file, such as .env; those that are set win.",
    ),
    click.option(
        "--traceback",
        is_flag=True,
        expose_value=False,
        callback=_set_on_session,
        help="Show the traceback of an error.",
    ),
)


def shared(function: F) -> F:
    """The options of every command, allowed before and after its name."""
    for option in reversed(_SHARED):
        function = option(function)
    return function


as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
OUTPUT_OPTIONS = (as_json_option, *_SHARED)
limit_option = click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=50, show_default=True)
by_option = click.option("--by", metavar="NAME", help="Your name, for the record.")


def _log_level(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    # Deferred: with it come all of jobs and tasks, which help and completion do not need.
    from headrace.runtime.context.logs import levels_in

    try:
        if value is not None:
            levels_in(value)
    except ConfigError as error:
        raise click.BadParameter(str(error).removeprefix("log_level: "), ctx, param) from None
    return value


def log_options(function: F) -> F:
    """The log options of long-running commands."""
    for option in reversed(_LOGS):
        function = option(function)
    return function


_LOGS = (
    click.option(
        "--log-level",
        metavar="LEVEL",
        callback=_log_level,
        help="Log level: INFO, or per logger: INFO,headrace.worker=DEBUG.",
    ),
    click.option("--log-format", type=click.Choice(choices_of("log_format")), help="Log format."),
)


def yes_option(function: F) -> F:
    return click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")(function)


def field_options(fields: Iterable[Field], callback: Callback | None = None) -> Callable[[F], F]:
    """An option for each field, read by the callback or, without one, by what the field is."""

    def add(function: F) -> F:
        for field in reversed(list(fields)):
            function = _field_option(field, callback)(function)
        return function

    return add


def _field_option(field: Field, callback: Callback | None) -> Callable[[F], F]:
    name = f"--{field.name.rstrip('_').replace('_', '-')}"
    how: dict[str, Any] = {"metavar": field.metavar, "help": field.help}
    if callback is not None:
        return click.option(name, field.name, callback=callback, **how)
    if field.many:
        return click.option(name, field.name, multiple=True, callback=names, **how)
    if field.choices:
        return click.option(name, field.name, type=click.Choice(field.choices), **how)
    if field.kind is bool:
        return click.option(f"{name}/{_OPPOSITES[name]}", field.name, default=None, **how)
    if field.kind in (float, datetime):
        return click.option(name, field.name, callback=duration if field.kind is float else moment, **how)
    return click.option(name, field.name, type=field.kind, **how)


# -- durations and moments


def parse_seconds(text: str) -> float | None:
    """Parse `90`, `1.5`, `500ms`, `10m` or `1h30m` to seconds; None if invalid."""
    try:
        seconds = float(text)
    except ValueError:
        parts = _PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            return None
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    return seconds if seconds >= 0 and math.isfinite(seconds) else None


def parse_moment(text: str) -> datetime | None:
    """Parse an ISO 8601 time, UTC without an offset."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Callback of options that take a duration."""
    if value is None:
        return None
    seconds = parse_seconds(value)
    if seconds is None:
        raise click.BadParameter(f"{value!r} is not a time; use seconds or 500ms, 10m, 2h, 3d", ctx, param)
    return seconds


def duration_or_none(ctx: click.Context, param: click.Parameter, value: str | None) -> float | str | None:
    """Like `duration`, but keeps the word `none` (no limit) as a text, because None means "not given"."""
    return "none" if value == "none" else duration(ctx, param, value)


def moment(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """Callback of options that take a time."""
    if value is None:
        return None
    found = parse_moment(value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not a time such as 2026-03-01T12:30:00Z", ctx, param)
    return found


def moment_or_age(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """Callback of options that take a time or an age."""
    seconds = None if value is None else parse_seconds(value)
    if value is None or seconds is None:
        found = None if value is None else parse_moment(value)
        if value is not None and found is None:
            raise click.BadParameter(
                f"{value!r} is neither an age such as 10m, 2h, 3d nor a time such as 2026-03-01T12:30:00Z", ctx, param
            )
        return found
    try:
        return datetime.now(UTC) - timedelta(seconds=seconds)
    except OverflowError:
        raise click.BadParameter(f"{value!r} is too long ago", ctx, param) from None


def names(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    """Callback of options that take names, as a,b,c or repeated."""
    for text in value:
        if not text.strip(" ,"):
            raise click.BadParameter(f"{text!r} is not a name; write one, or several as a,b,c", ctx, param)
    return tuple(name.strip() for text in value for name in text.split(",") if name.strip()) or None


# -- which jobs


def _states(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    given = [word.strip().lower() for text in value for word in text.split(",") if word.strip()]
    for word in given:
        if word not in list(State):
            raise click.BadParameter(f"{word!r} is not a state; states are {', '.join(State)}", ctx, param)
    return tuple(given)


def argument_option(function: F) -> F:
    """The option that finds jobs by an indexed argument."""
    return click.option(
        "--arg",
        "args",
        metavar="NAME=VALUE",
        callback=_argument,
        help="Only jobs with this value of an indexed argument: order_id=40199.",
    )(function)


def _argument(ctx: click.Context, param: click.Parameter, value: str | None) -> dict[str, str] | None:
    """Callback of the option that takes an indexed argument."""
    if value is None:
        return None
    name, is_given, text = value.partition("=")
    if not is_given or not name.isidentifier():
        raise click.BadParameter(f"{value!r} is not NAME=VALUE, such as order_id=40199", ctx, param)
    return {name: text}


_FILTERS = (
    click.option(
        "--state",
        multiple=True,
        callback=_states,
        shell_complete=lambda ctx, param, begun: [state.value for state in State if state.startswith(begun)],
        help="Only this state; may be repeated, or a,b,c.",
    ),
    click.option("--queue", "-q", help="Only jobs in this queue."),
    click.option("--task", "-t", help="Only jobs of this task."),
    click.option("--tag", help="Only jobs with this tag."),
    argument_option,
    click.option("--worker", help="Only jobs run by this worker."),
    click.option("--flow", help="Only jobs of the flow with this id."),
    click.option("--text", help="Only jobs with this text in the id, task, arguments, reason or metadata."),
    click.option(
        "--since", metavar="TIME", callback=moment_or_age, help="Created since: 10m, 2h, 3d or an ISO time (UTC)."
    ),
    click.option("--until", metavar="TIME", callback=moment_or_age, help="Created before; same format as --since."),
)


def filters(function: F) -> F:
    """The options that select jobs; `chosen()` turns them into filters."""
    for option in reversed(_FILTERS):
        function = option(function)
    return function


def chosen(given: dict[str, Any]) -> dict[str, Any]:
    """The given filters."""
    return {name: value for name, value in given.items() if value not in (None, ())}


def chosen_limits(given: dict[str, Any]) -> dict[str, Any]:
    """The given limits; the word `none`, which removes one, is None."""
    return {name: None if value == "none" else value for name, value in given.items() if value is not None}
