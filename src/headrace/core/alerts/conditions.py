"""A condition as a tree of records that can only read metrics, calculate and compare. Pure.

No data is not zero. A calculation with it has no value either, a division by zero has none, and a comparison with it is
neither true nor false. `false and ...` is still false, and `true or ...` is true. `core.alerts.expressions` parses the
text of a condition.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from headrace.core.metrics.catalog import METRICS, Metric


class MetricSource(Protocol):
    """The source of metrics. None is no data. Windows are milliseconds."""

    def value(self, name: str, labels: Mapping[str, str], window: int | None) -> float | None:
        """The metric now or, with a window, over it."""
        ...

    def baseline(self, name: str, labels: Mapping[str, str], window: int | None) -> float | None:
        """The usual value of the metric."""
        ...

    def labels(self, per: tuple[str, ...], window: int | None) -> list[dict[str, str]]:
        """The existing sets of labels of these names, now or within a window, such as every queue."""
        ...


class Number(Struct, frozen=True):
    value: float


class MetricRef(Struct, frozen=True):
    """A metric, its usual value (`baseline`), or whether it has no data (`absent`)."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    window: int | None = None
    function: Literal["", "baseline", "absent"] = ""

    @property
    def metric(self) -> Metric:
        return METRICS[self.name]

    def bound(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Its own labels, and those of the given ones that the metric has."""
        return {name: text for name, text in labels.items() if name in self.metric.labels} | dict(self.labels)

    def __str__(self) -> str:
        shown = ", ".join(f'{name}="{text}"' for name, text in self.labels)
        shown = (
            self.name + (f"{{{shown}}}" if shown else "") + (f"[{_format_window(self.window)}]" if self.window else "")
        )
        return f"{self.function}({shown})" if self.function else shown


class NotOp(Struct, frozen=True):
    what: Node
    sign: Literal["-", "not"]


class BinaryOp(Struct, frozen=True):
    sign: str
    left: Node
    right: Node


Node = Number | MetricRef | NotOp | BinaryOp
Figure = float | bool | None

_OPERATORS: dict[str, Callable[[float, float], float | bool]] = {
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
COMPARISONS = frozenset(("<", "<=", "==", "!=", ">", ">="))
LOGIC = frozenset(("and", "or"))


class Evaluation(NamedTuple):
    """Whether a condition holds, None if unknown, and every value that was read for it."""

    holds: bool | None
    figures: dict[str, float | None]


class Condition(Struct, frozen=True):
    """A parsed condition."""

    text: str
    tree: Node

    def metrics(self) -> list[MetricRef]:
        """The metrics that it reads, in order of appearance."""
        return list(_metrics_in(self.tree))

    def evaluate(self, source: MetricSource, labels: Mapping[str, str]) -> Evaluation:
        """Whether it holds for these labels. Each metric is read once."""
        figures: dict[MetricRef, float | None] = {}
        for metric in self.metrics():
            if metric not in figures:
                read = source.baseline if metric.function == "baseline" else source.value
                figures[metric] = read(metric.name, metric.bound(labels), metric.window)
        holds = _evaluate(self.tree, figures)
        return Evaluation(None if holds is None else bool(holds), {str(one): value for one, value in figures.items()})


def _metrics_in(node: Node) -> Iterator[MetricRef]:
    if isinstance(node, MetricRef):
        yield node
    elif isinstance(node, NotOp):
        yield from _metrics_in(node.what)
    elif isinstance(node, BinaryOp):
        yield from _metrics_in(node.left)
        yield from _metrics_in(node.right)


def _evaluate(node: Node, figures: Mapping[MetricRef, float | None]) -> Figure:
    if isinstance(node, Number):
        return node.value
    if isinstance(node, MetricRef):
        return figures[node] is None if node.function == "absent" else figures[node]
    if isinstance(node, NotOp):
        inner = _evaluate(node.what, figures)
        return None if inner is None else (not inner if node.sign == "not" else -inner)
    left, right = _evaluate(node.left, figures), _evaluate(node.right, figures)
    if node.sign in LOGIC:
        deciding = node.sign == "or"
        if deciding in (left, right):
            return deciding
        return None if left is None or right is None else not deciding
    if left is None or right is None or (node.sign == "/" and right == 0):
        return None
    return _OPERATORS[node.sign](left, right)


def is_condition(node: Node) -> bool:
    """Whether it is a condition rather than a number."""
    if isinstance(node, BinaryOp):
        return node.sign in LOGIC or node.sign in COMPARISONS
    return node.sign == "not" if isinstance(node, NotOp) else isinstance(node, MetricRef) and node.function == "absent"


def _format_window(ms: int | None) -> str:
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")):
        if ms and ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms}ms"
