"""Parses conditions of alert rules: `error_rate{queue="emails"}[5m] > 5% and depth > 2 * baseline(depth)`.

The parser makes records of `core.alerts.conditions`. Errors give the position. Nothing is ever evaluated as Python.

    numbers      5   0.5   5%   10s 5m 2h 1d (seconds)   20kB 500MB 2GB 2GiB (bytes)
    metrics      depth   error_rate[5m]   wait_p99{queue="emails", task="send"}[10m]
    functions    baseline(run_p99)   its usual value     absent(depth)   whether it has no data
    arithmetic   + - * / ( )
    comparison   > >= < <= == !=
    logic        not, and, or
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from headrace.core.alerts.conditions import (
    COMPARISONS,
    LOGIC,
    BinaryOp,
    Condition,
    MetricRef,
    Node,
    NotOp,
    Number,
    is_condition,
)
from headrace.core.metrics.catalog import METRICS, Metric
from headrace.core.text import nearest, short
from headrace.errors import InvalidAlert

USUAL_WINDOW = 300_000  # milliseconds
SHORTEST_WINDOW, LONGEST_WINDOW = 10_000, 90 * 86_400_000
_MAX_CHARS, _MAX_TOKENS = 2000, 200
_PRECEDENCE = {"or": 1, "and": 2, **dict.fromkeys(COMPARISONS, 4), "+": 5, "-": 5, "*": 6, "/": 6}
_NOT, _COMPARISON, _SIGN = 3, 4, 7

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?|\.\d+)(?P<unit>%|[A-Za-z]+)?|(?P<name>[A-Za-z_][A-Za-z0-9_.]*)"
    r"|(?P<text>\"[^\"\n]*\"|'[^'\n]*')|(?P<sign>>=|<=|==|!=|[-+*/()<>{}\[\],=])|(?P<end>$))"
)
_TIMES = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_SIZES = {"B": 1.0, **{f"{prefix}B": 1000.0**n for n, prefix in enumerate("kMGT", 1)}}
_SIZES |= {"KB": 1000.0, **{f"{prefix}iB": 1024.0**n for n, prefix in enumerate("KMGT", 1)}}
_UNITS = {"%": 0.01, **_TIMES, **_SIZES}


class _Token(NamedTuple):
    kind: str
    text: str
    at: int
    unit: str | None = None


def parsed(text: Any) -> Condition:
    """The condition, or InvalidAlert with the place and the broken rule."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidAlert(f"when: expected a condition such as 'depth > 1000', got {short(text)}", value=text)
    if len(text) > _MAX_CHARS:
        raise InvalidAlert(f"when: {len(text)} characters are too many; use at most {_MAX_CHARS}")
    line = " ".join(text.split())
    return Condition(line, _Parser(line).condition())


class _Parser:
    """Precedence climbing. Numbers and conditions are distinguished while parsing."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._place = 0

    def condition(self) -> Node:
        begin = self._now
        tree = self._joined(0)
        if self._now.kind != "end":
            raise self._error("expected an operator or the end", self._now)
        if not is_condition(tree):
            raise self._error("that is a number, not a condition; compare it, as in 'depth > 1000'", begin)
        return tree

    # -- tokens

    def _split(self) -> Iterator[_Token]:
        place, count = 0, 0
        while True:
            match = _TOKEN.match(self._text, place)
            if match is None or match.lastgroup is None:
                raise self._error("unexpected character", _Token("", "", place + _blanks(self._text, place)))
            kind = "number" if match["number"] is not None else match.lastgroup
            yield _Token(kind, match[kind], match.start(kind), match["unit"])
            count, place = count + 1, match.end()
            if kind == "end":
                return
            if count > _MAX_TOKENS:
                raise InvalidAlert(f"when: too long; use at most {_MAX_TOKENS} names, numbers and signs")

    @property
    def _now(self) -> _Token:
        return self._tokens[self._place]

    def _take(self) -> _Token:
        token = self._now
        self._place += token.kind != "end"
        return token

    def _takes(self, sign: str) -> bool:
        found = self._now.kind == "sign" and self._now.text == sign
        self._place += found
        return found

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            raise self._error(f"expected {sign!r}", self._now)

    def _error(self, message: str, token: _Token) -> InvalidAlert:
        return InvalidAlert(
            f"when: {message}, at column {token.at + 1}:\n  {self._text}\n  {' ' * token.at}^", value=self._text
        )

    # -- grammar

    def _joined(self, precedence: int) -> Node:
        left = self._single()
        while (own := self._precedence_of(self._now)) > precedence:
            sign = self._take()
            right = self._joined(own)
            self._ensure_kinds(sign, left, right)
            if own == _COMPARISON == self._precedence_of(self._now):
                raise self._error("comparisons can't be chained; join two with 'and'", self._now)
            left = BinaryOp(sign.text.lower(), left, right)
        return left

    def _precedence_of(self, token: _Token) -> int:
        return _PRECEDENCE.get(token.text.lower(), 0) if token.kind in ("sign", "name") else 0

    def _ensure_kinds(self, sign: _Token, left: Node, right: Node) -> None:
        if sign.text.lower() in LOGIC:
            if not (is_condition(left) and is_condition(right)):
                raise self._error(f"{sign.text.lower()!r} joins conditions, and one side of it is a number", sign)
        elif is_condition(left) or is_condition(right):
            raise self._error(f"{sign.text!r} goes between numbers, and one side of it is a condition", sign)

    def _single(self) -> Node:
        token = self._take()
        if token.kind == "number":
            return Number(self._number(token))
        if token.kind == "name":
            return self._named(token)
        if token.text == "(" and token.kind == "sign":
            inner = self._joined(0)
            self._expect(")")
            return inner
        if token.text == "-" and token.kind == "sign":
            return self._negated(token, "-", self._joined(_SIGN))
        raise self._error("expected a metric, a number or '('", token)

    def _negated(self, token: _Token, sign: Literal["-", "not"], what: Node) -> NotOp:
        if is_condition(what) != (sign == "not"):
            raise self._error(f"{sign!r} goes before a {'condition' if sign == 'not' else 'number'}", token)
        return NotOp(what, sign)

    def _number(self, token: _Token) -> float:
        factor = 1.0 if token.unit is None else _UNITS.get(token.unit)
        value = float(token.text)
        if factor is None:
            raise self._error(f"there is no unit {token.unit!r}; units are {', '.join(_UNITS)}", token)
        if not math.isfinite(value * factor):
            raise self._error("that number is too large", token)
        return value * factor

    def _named(self, token: _Token) -> Node:
        name = token.text.lower()
        if name == "not":
            return self._negated(token, "not", self._joined(_NOT))
        if name in ("baseline", "absent"):
            self._expect("(")
            metric = self._reading(self._take(), "baseline" if name == "baseline" else "absent")
            self._expect(")")
            return metric
        return self._reading(token, "")

    def _reading(self, token: _Token, function: Literal["", "baseline", "absent"]) -> MetricRef:
        metric = METRICS.get(token.text) if token.kind == "name" else None
        if metric is None:
            near = nearest(token.text, METRICS) if token.kind == "name" else None
            hint = f"; did you mean {near!r}?" if near else ""
            raise self._error(f"expected a metric{hint}", token)
        labels = tuple(self._labels(metric)) if self._takes("{") else ()
        window = self._window(metric) if self._takes("[") else (USUAL_WINDOW if metric.timed else None)
        return MetricRef(metric.name, labels, window, function)

    def _labels(self, metric: Metric) -> Iterator[tuple[str, str]]:
        seen = set()
        while not self._takes("}"):
            name = self._take()
            if name.kind != "name" or name.text not in metric.labels or name.text in seen:
                hint = f"use {', '.join(metric.labels)}, each once" if metric.labels else "it has no labels"
                raise self._error(f"{metric.name} has no such label; {hint}", name)
            self._expect("=")
            value = self._take()
            if value.kind != "text" or not value.text[1:-1]:
                raise self._error('expected a text in quotes, such as "emails"', value)
            seen.add(name.text)
            yield name.text, value.text[1:-1]
            if not self._takes(",") and self._now.text != "}":
                raise self._error("expected ',' or '}'", self._now)

    def _window(self, metric: Metric) -> int:
        token = self._take()
        if not metric.timed:
            raise self._error(f"{metric.name} is a current value; it has no window", token)
        if token.kind != "number" or token.unit not in _TIMES:
            raise self._error("expected a length of time such as 5m", token)
        window = round(1000 * self._number(token))
        if not SHORTEST_WINDOW <= window <= LONGEST_WINDOW:
            raise self._error("a window is from 10s to 90d", token)
        self._expect("]")
        return window


def _blanks(text: str, place: int) -> int:
    return len(text) - place - len(text[place:].lstrip())
