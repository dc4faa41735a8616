"""Forms of described fields: what the page shows, and the values of what it sends."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from starlette.datastructures import QueryParams

from headrace.core.fields import Field
from headrace.core.text import short
from headrace.errors import InvalidJob
from headrace.web.pages import formatting
from headrace.web.pages.request import PageRequest

_MODES = {int: "numeric", float: "decimal", datetime: "moment"}


class FormField(NamedTuple):
    """A field of a form with its text."""

    label: str
    name: str
    value: str
    hint: str
    mode: str
    choices: tuple[str, ...]


def form_fields(fields: Mapping[str, Field], values: Mapping[str, Any]) -> list[FormField]:
    return [
        FormField(
            one.label, one.name, shown_text(values.get(one.name)), one.hint, _MODES.get(one.kind, ""), one.choices
        )
        for one in fields.values()
    ]


def shown_text(value: Any) -> str:
    if isinstance(value, datetime):
        return formatting.iso(value)[:19]
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, tuple):
        return ", ".join(value)
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def form_value(field: Field, text: str | None) -> Any:
    """The value of a text; None if it is empty."""
    if text is None or field.kind not in _MODES:
        return text
    if field.kind is datetime:
        return moment_of(field.name, text)
    try:
        return field.kind(text)
    except ValueError:
        what = "whole number" if field.kind is int else "number of seconds" if field.metavar == "TIME" else "number"
        raise InvalidJob(f"{field.name.rstrip('_')}: {short(text)} is not a {what}") from None


def form_values(form: QueryParams, fields: Mapping[str, Field]) -> dict[str, Any]:
    """The values of the fields in the form. An empty one is None, or left out if it may not be None."""
    given: dict[str, Any] = {}
    for name, field in fields.items():
        text = form.get(name, "").strip() or None
        if field.many and field.choices:
            given[name] = form.getlist(name)
        elif name in form and (text is not None or field.may_be_none):
            given[name] = words(text) if field.many and text is not None else form_value(field, text)
    return given


def moment_of(name: str, text: str) -> datetime:
    """A time from a form field; UTC without a zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidJob(f"{name}: {text!r} is not a time such as 2025-06-01T12:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def words(text: str | None) -> list[str]:
    """The words of a list with commas."""
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def given_rules(request: PageRequest, fields: Mapping[str, Field]) -> dict[str, Any]:
    """The rules of a queue or a task in the form; an empty field removes a rule."""
    texts = {name: request.form_field(name) for name in fields if name in request.form}
    for rate, burst in (("rate", "burst"), ("key_rate", "key_burst")):
        if texts.get(rate) is None:
            texts.pop(burst, None)  # it belongs to its rate
    return {name: form_value(fields[name], text) for name, text in texts.items()}
