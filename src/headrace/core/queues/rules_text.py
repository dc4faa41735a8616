"""The rules of queues and tasks: from what an operator writes to what is stored, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import structs

from headrace.core.fields import Field
from headrace.core.jobs.queue_rules import KeyRules, QueueRules, Rate, TaskRules
from headrace.core.queues.rates import as_rate, format_rate
from headrace.core.queues.rule_fields import KEY_RULES, QUEUE_RULES, TASK_RULES
from headrace.core.text import nearest, short
from headrace.errors import InvalidJob

Rules = TypeVar("Rules", QueueRules, TaskRules, KeyRules)
_FIELDS: dict[type, Mapping[str, Field]] = {QueueRules: QUEUE_RULES, TaskRules: TASK_RULES, KeyRules: KEY_RULES}
_MAX_KEYS = 1000  # with rules of their own: every claim from the queue reads them


def check_rule(name: str, value: Any) -> Any:
    """The value of one rule as stored."""
    return _stored(QUEUE_RULES[name], value)


def changed(rules: Rules, given: Mapping[str, Any]) -> Rules:
    """The rules with the given changes; None removes a rule."""
    values = _checked(_FIELDS[type(rules)], given)
    for rate, burst in (("rate", "burst"), ("key_rate", "key_burst")):
        if rate in values or burst in values:
            _join(rules, values, rate, burst)
    return structs.replace(rules, **values)


def with_key(rules: QueueRules, key: str, given: Mapping[str, Any]) -> QueueRules:
    """The rules with the given changes for one key."""
    own = changed(rules.keys.get(key, KeyRules()), given)
    keys = {name: known for name, known in rules.keys.items() if name != key}
    if own != KeyRules():
        keys[key] = own
    if len(keys) > _MAX_KEYS:
        raise InvalidJob(f"key: {_MAX_KEYS:,} keys of this queue have rules of their own, which is the most", value=key)
    return structs.replace(rules, keys=dict(sorted(keys.items())))


def _checked(fields: Mapping[str, Field], given: Mapping[str, Any]) -> dict[str, Any]:
    if not given:
        raise InvalidJob(f"configure() needs at least one rule; rules are {', '.join(fields)}")
    for name in given:
        if name not in fields:
            near = nearest(name, fields)
            meant = f" (did you mean {near!r}?)" if near else ""
            raise InvalidJob(f"unknown rule {short(name)}{meant}; rules are {', '.join(fields)}", field=name)
    return {name: None if value is None else _stored(fields[name], value) for name, value in given.items()}


def _stored(field: Field, value: Any) -> Any:
    assert field.check is not None
    try:
        return field.check(field.name, value)
    except InvalidJob as error:
        error.concerns(field.name, value)
        raise


def _join(rules: QueueRules | TaskRules | KeyRules, values: dict[str, Any], rate: str, burst: str) -> None:
    """A burst belongs to its rate: alone, it changes the present one, and a new rate brings its own."""
    new: Rate | None = values.get(rate, getattr(rules, rate))
    if burst in values:
        most = values.pop(burst)
        if new is not None:
            new = structs.replace(new, burst=as_rate(format_rate(new)).burst if most is None else most)
        elif most is not None:
            raise InvalidJob(f"{burst}: it belongs to a {rate}; give that too")
    values[rate] = new


def rule_values(rules: QueueRules | TaskRules | KeyRules) -> dict[str, Any]:
    """The rules by the names of their fields, as users write them; without those of single keys."""
    values: dict[str, Any] = {}
    for name, value in structs.asdict(rules).items():
        if name == "keys":
            continue
        if isinstance(value, Rate):
            values |= {name: format_rate(value), name.replace("rate", "burst"): value.burst}
        else:
            values[name] = value / 1000 if name == "ageing" and value is not None else value
    return values


def format_rules(rules: QueueRules | TaskRules | KeyRules) -> str:
    """The rules as an operator reads them: `rate=10/s burst=20 concurrency=5 keys=acme,globex`."""
    texts = [
        f"{name}={value:g}s" if name == "ageing" else f"{name}={str(value).lower()}"
        for name, value in rule_values(rules).items()
        if value is not None and value is not False
    ]
    keys = list(rules.keys) if isinstance(rules, QueueRules) else []
    if keys:
        texts.append(f"keys={','.join(keys[:3])}{'…' if len(keys) > 3 else ''}")
    return " ".join(texts)
