"""A condition as a tree of records that can do nothing but read measures, reckon and compare. Pure.

No figure is not zero. Whatever is reckoned from it is no figure either, a division by zero gives none, and a comparison
with it is neither true nor false. `false and ...` is false all the same, and `true or ...` is true.
How a condition is written is the matter of `core.expressions`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from headrace.core.alerts.metrics import MEASURES, AlertMetric


class MetricSource(Protocol):
    """Where the figures come from. None is no figure. Windows are milliseconds."""

    def value(self, name: str, labels: Mapping[str, str], window: int | None) -> float | None:
        """What the measure is now or, with a window, was within it."""
        ...

    def baseline(self, name: str, labels: Mapping[str, str], window: int | None) -> float | None:
        """What the measure usually is."""
        ...

    def labels(self, per: tuple[str, ...], window: int | None) -> list[dict[str, str]]:
        """The sets of labels of these names that there are, or were within a window, such as every queue."""
        ...


class Number(Struct, frozen=True):
    value: float


class MetricRef(Struct, frozen=True):
    """A measure, or what it usually is (`baseline`), or whether there is no figure (`absent`)."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    window: int | None = None
    function: Literal["", "baseline", "absent"] = ""

    @property
    def measure(self) -> AlertMetric:
        return MEASURES[self.name]

    def bound(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Its own labels, and of these the ones that it can be told apart by."""
        return {name: text for name, text in labels.items() if name in self.measure.labels} | dict(self.labels)

    def __str__(self) -> str:
        told = ", ".join(f'{name}="{text}"' for name, text in self.labels)
        told = self.name + (f"{{{told}}}" if told else "") + (f"[{_span(self.window)}]" if self.window else "")
        return f"{self.function}({told})" if self.function else told


class NotOp(Struct, frozen=True):
    what: Node
    sign: Literal["-", "not"]


class BinaryOp(Struct, frozen=True):
    sign: str
    left: Node
    right: Node


Node = Number | MetricRef | NotOp | BinaryOp
Figure = float | bool | None

_REPLY: dict[str, Callable[[float, float], float | bool]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
COMPARING = frozenset(("<", "<=", "==", "!=", ">", ">="))
LOGIC = frozenset(("and", "or"))


class Evaluation(NamedTuple):
    """Whether a condition holds, None where that can't be told, and every figure that was read for it."""

    holds: bool | None
    figures: dict[str, float | None]


class Condition(Struct, frozen=True):
    """A condition that was parsed."""

    text: str
    tree: Node

    def readings(self) -> list[MetricRef]:
        """The measures that it reads, in the order they stand."""
        return list(_readings(self.tree))

    def answer(self, readings: MetricSource, labels: Mapping[str, str]) -> Evaluation:
        """Whether it holds for these labels. Each measure is read once."""
        figures: dict[MetricRef, float | None] = {}
        for reading in self.readings():
            if reading not in figures:
                ask = readings.baseline if reading.function == "baseline" else readings.value
                figures[reading] = ask(reading.name, reading.bound(labels), reading.window)
        holds = _reckoned(self.tree, figures)
        return Evaluation(None if holds is None else bool(holds), {str(one): value for one, value in figures.items()})


def _readings(node: Node) -> Iterator[MetricRef]:
    if isinstance(node, MetricRef):
        yield node
    elif isinstance(node, NotOp):
        yield from _readings(node.what)
    elif isinstance(node, BinaryOp):
        yield from _readings(node.left)
        yield from _readings(node.right)


def _reckoned(node: Node, figures: Mapping[MetricRef, float | None]) -> Figure:
    if isinstance(node, Number):
        return node.value
    if isinstance(node, MetricRef):
        return figures[node] is None if node.function == "absent" else figures[node]
    if isinstance(node, NotOp):
        inner = _reckoned(node.what, figures)
        return None if inner is None else (not inner if node.sign == "not" else -inner)
    left, right = _reckoned(node.left, figures), _reckoned(node.right, figures)
    if node.sign in LOGIC:
        deciding = node.sign == "or"
        if deciding in (left, right):
            return deciding
        return None if left is None or right is None else not deciding
    if left is None or right is None or (node.sign == "/" and right == 0):
        return None
    return _REPLY[node.sign](left, right)


def is_truth(node: Node) -> bool:
    """Whether it holds or not, rather than being a number."""
    if isinstance(node, BinaryOp):
        return node.sign in LOGIC or node.sign in COMPARING
    return node.sign == "not" if isinstance(node, NotOp) else isinstance(node, MetricRef) and node.function == "absent"


def _span(ms: int | None) -> str:
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")):
        if ms and ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms}ms"
