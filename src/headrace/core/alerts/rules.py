"""Makes an alert rule of user input, or refuses it with a sentence. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from msgspec import Struct

from headrace.core.alerts.alert import SEVERITIES, AlertRuleRow, Severity
from headrace.core.alerts.conditions import COMPARISONS, Condition
from headrace.core.alerts.expressions import parsed
from headrace.core.clock import to_ms
from headrace.core.fields import checked, entry, fields_of
from headrace.core.metrics.catalog import LABELS, METRICS, Label
from headrace.core.text import nearest, short
from headrace.errors import InvalidAlert

STRUCTURED = ("metric", "op", "threshold", "window")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,49}")
_MAX_TEXT_CHARS, _MAX_LABELS = 500, 20
MAX_SPAN = 90 * 86_400
_LINK = re.compile(r"https?://\S{1,2000}")


def rule(name: Any, fields: Mapping[str, Any], before: AlertRuleRow | None = None) -> AlertRuleRow:
    """The rule of this name with these fields, the others as before; InvalidAlert names the error."""
    for field in fields:
        if field not in FIELDS:
            near = nearest(field, FIELDS)
            hint = f"did you mean {near!r}?" if near else f"it has {', '.join(FIELDS)}"
            raise InvalidAlert(f"{field}: an alert rule has no such field; {hint}")
    known = {} if before is None else {field: getattr(before, field) for field in AlertRuleRow.__struct_fields__}
    given = {field: _read(field, value) for field, value in fields.items() if field != "when" and field in ALERT_RULE}
    when = _condition(fields, None if before is None else before.when)
    made = AlertRuleRow(**{**known, **given, "name": check_rule_name(name), "when": when.text})
    _ensure_labels(made, when)
    return made


def _read(field: str, value: Any) -> Any:
    check = ALERT_RULE[field].check
    assert check is not None
    try:
        return check(field, value)
    except InvalidAlert as error:
        error.concerns(field, value)
        raise


def check_rule_name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidAlert(
            f"name: {short(name)} is no name of a rule; use 1 to 100 letters, digits, '_', '-' or '.', beginning with "
            "a letter or digit",
            value=name,
        )
    return name


# -- the condition


def _condition(fields: Mapping[str, Any], before: str | None) -> Condition:
    given = [field for field in STRUCTURED if fields.get(field) is not None]
    when = fields.get("when")
    if when is not None and given:
        raise InvalidAlert(f"when: give either a condition or {', '.join(STRUCTURED)}, not {given[0]} beside it")
    if given:
        return parsed(_composed(fields))
    if when is None and before is None:
        raise InvalidAlert("when: give a condition such as 'depth > 1000', or metric, op and threshold")
    return parsed(before if when is None else when)


def _composed(fields: Mapping[str, Any]) -> str:
    """`error_rate[5m] > 5%` of its parts."""
    metric, sign, threshold = fields.get("metric"), fields.get("op", ">"), fields.get("threshold")
    if sign not in COMPARISONS:
        raise InvalidAlert(f"op: expected one of {' '.join(sorted(COMPARISONS))}, got {short(sign)}", value=sign)
    if not isinstance(metric, str):
        raise InvalidAlert(f"metric: expected a name such as 'depth', got {short(metric)}", value=metric)
    if not isinstance(threshold, int | float | str) or isinstance(threshold, bool):
        raise InvalidAlert(
            f"threshold: expected a number or a text such as '5%', got {short(threshold)}", value=threshold
        )
    number = _in_digits(threshold) if isinstance(threshold, float) else threshold
    return f"{metric}{_window(fields.get('window'))} {sign} {number}"


def _window(value: Any) -> str:
    if value is None:
        return ""
    return f"[{value}]" if isinstance(value, str) else f"[{_in_digits(check_span('window', value) / 1000)}s]"


def _in_digits(number: float) -> str:
    """All digits and no exponent, which conditions don't have."""
    return str(int(number)) if number.is_integer() else f"{Decimal(repr(number)):f}"


def _ensure_labels(made: AlertRuleRow, when: Condition) -> None:
    for label in made.per:
        metrics = [one for one in when.metrics() if label in one.metric.labels and label not in dict(one.labels)]
        if not metrics:
            able = sorted(name for name, metric in METRICS.items() if label in metric.labels)
            raise InvalidAlert(
                f"per: no metric in {made.when!r} can be grouped by {label}; those that can are {', '.join(able[:12])}"
            )


# -- fields


def check_span(name: str, value: Any) -> int:
    """Seconds or a timedelta to milliseconds."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if not isinstance(number, int | float) or isinstance(number, bool):
        raise InvalidAlert(f"{name.rstrip('_')}: expected seconds or a timedelta, got {short(value)}", value=value)
    if not 0 <= number <= MAX_SPAN:  # nan is not in any range
        raise InvalidAlert(f"{name.rstrip('_')}: {short(value)} is out of range; use 0 seconds to 90 days", value=value)
    return to_ms(number)


def _severity(name: str, value: Any) -> str:
    if value not in SEVERITIES:
        raise InvalidAlert(f"{name}: expected one of {', '.join(SEVERITIES)}, got {short(value)}", value=value)
    return str(value)


def _per(name: str, value: Any) -> tuple[str, ...]:
    labels = _names(name, value) or ()
    for label in labels:
        if label not in LABELS:
            raise InvalidAlert(f"{name}: expected {', '.join(LABELS)}, got {short(label)}", value=label)
    if len({*labels}) < len(labels):
        raise InvalidAlert(f"{name}: {short(value)} names one twice", value=value)
    return labels


def _names(name: str, value: Any) -> tuple[str, ...] | None:
    """A name or several; None stays None."""
    if value is None:
        return None
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (value,)
    for item in names:
        if not isinstance(item, str) or not _NAME.fullmatch(item):
            raise InvalidAlert(f"{name}: expected a name or a list of names, got {short(value)}", value=value)
    return names


def check_labels(name: str, value: Any) -> dict[str, str]:
    """Names and texts that people can read."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or len(value) > _MAX_LABELS:
        raise InvalidAlert(f"{name}: expected at most {_MAX_LABELS} names with texts, got {short(value)}", value=value)
    for label, text in value.items():
        if not isinstance(label, str) or not _LABEL.fullmatch(label):
            raise InvalidAlert(
                f"{name}: {short(label)} is no name of a label; use letters, digits and '_'", value=label
            )
        check_line(f"{name}: {label}", text)
    return dict(value)


def check_line(name: str, value: Any) -> str | None:
    """A text of one line; None stays None."""
    if value is None:
        return None
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= _MAX_TEXT_CHARS:
        raise InvalidAlert(
            f"{name}: expected a text of one line, at most {_MAX_TEXT_CHARS} long, got {short(value)}", value=value
        )
    return value


def _link(name: str, value: Any) -> str | None:
    if check_line(name, value) is not None and not _LINK.fullmatch(value):
        raise InvalidAlert(
            f"{name}: expected a link that begins with https:// or http://, got {short(value)}", value=value
        )
    return None if value is None else str(value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidAlert(f"{name}: expected True or False, got {short(value)}", value=value)
    return value


# -- as users write them

_Span = Annotated[float, checked(check_span, minimum=0, maximum=MAX_SPAN)]


class AlertRuleFields(Struct, frozen=True, kw_only=True):
    """The fields of an alert rule; times in seconds."""

    name: Annotated[str, entry("Name of the rule.", label="Name", hint="mail-fails")]
    when: Annotated[
        str,
        entry(
            "Such as 'error_rate[5m] > 5% and depth > 100'.",
            "CONDITION",
            "Condition",
            'error_rate{queue="emails"}[5m] > 5%',
        ),
    ]
    for_: Annotated[
        _Span,
        entry(
            "How long the condition must hold before it fires",
            "TIME",
            "Must hold for, seconds",
            "0",
            typed=": 30s, 5m.",
        ),
    ]
    cooldown: Annotated[
        _Span,
        entry("Time between repeated notifications", "TIME", "Repeat after, seconds", "default", typed=": 10m, 1h."),
    ]
    severity: Annotated[Severity, checked(_severity), entry("Severity of its alerts.", label="Severity")]
    per: Annotated[
        tuple[Label, ...],
        checked(_per),
        entry(f"Evaluate separately per: {', '.join(LABELS)}.", label="Separately for each"),
    ]
    labels: Annotated[dict[str, str], checked(check_labels), entry("Labels of its alerts, besides those of `per`.")]
    notify: Annotated[
        tuple[str, ...] | None,
        checked(_names),
        entry("Channels to notify", label="Channels, with commas", hint="default", typed="; may be repeated, or a,b."),
    ]
    summary: Annotated[
        str | None,
        checked(check_line),
        entry("Summary text for notifications.", "TEXT", "Summary", "the condition in words"),
    ]
    runbook: Annotated[
        str | None,
        checked(_link),
        entry("Link to the runbook, for notifications.", "URL", "Runbook", "https://wiki.example.com/mail"),
    ]
    enabled: Annotated[bool, checked(_flag), entry("Enable or disable the rule.")]


ALERT_RULE = {name: field for name, field in fields_of(AlertRuleFields).items() if name != "name"}
FIELDS = (*ALERT_RULE, *STRUCTURED)
