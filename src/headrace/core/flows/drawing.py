"""Draws a graph of jobs: as Mermaid text, or as an SVG of its own with a layer for each step.

Pure text from plain data. A label is whatever a user called a task, so every one is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from msgspec import Struct

_COLORS = {
    "scheduled": ("#e8eefc", "#4a6fd0"),
    "waiting": ("#eef0f3", "#7a8699"),
    "pending": ("#e6f4fb", "#2b8bc0"),
    "running": ("#d9f2f7", "#0b8fa8"),
    "retrying": ("#fdf3d7", "#b7860b"),
    "completed": ("#def5e4", "#2c8a4b"),
    "failed": ("#fde2e1", "#c8362f"),
    "cancelled": ("#f1f1f1", "#8a8a8a"),
}
WIDTH, HEIGHT, _ACROSS, _DOWN, MARGIN = 150, 44, 24, 40, 16
_MAX_LABEL_CHARS = 20
_ARROW = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0,0 L8,4 L0,8 z" fill="#7a8699"/></marker></defs>'
)


class GraphNode(Struct, frozen=True):
    """A job in a drawing; `detail` tells it from others of the same label."""

    id: str
    label: str
    state: str
    task: str = ""  # jobs of one task may be drawn as one
    detail: str = ""


class JobGraph(Struct, frozen=True):
    """The graph to draw. An edge leads from a parent to its child, by their ids."""

    boxes: Sequence[GraphNode]
    edges: Sequence[tuple[str, str]]


# -- Mermaid


def mermaid(graph: JobGraph) -> str:
    """The graph as Mermaid, for a Markdown page."""
    return "\n".join(_mermaid_lines(graph))


def _mermaid_lines(graph: JobGraph) -> Iterator[str]:
    names = {box.id: f"n{number}" for number, box in enumerate(graph.boxes, 1)}
    yield "flowchart TD"
    for box in graph.boxes:
        yield f'    {names[box.id]}["{_mermaid_text(box.label)}<br/>{_mermaid_text(box.state)}"]:::{box.state}'
    for parent, child in graph.edges:
        yield f"    {names[parent]} --> {names[child]}"
    for state in dict.fromkeys(box.state for box in graph.boxes):
        fill, line = _COLORS.get(state, _COLORS["waiting"])
        yield f"    classDef {state} fill:{fill},stroke:{line},color:#1c2530"


def _mermaid_text(text: str) -> str:
    """All but plain words as character codes: Mermaid has no other escape inside quotes."""
    plain = " _-.:/"
    return "".join(char if char.isalnum() or char in plain else f"#{ord(char)};" for char in text)


# -- SVG


def svg(graph: JobGraph) -> str:
    """The graph as an SVG image, parents above their children."""
    places = places_of(graph)
    width = max((x for x, _ in places.values()), default=0) + WIDTH + MARGIN
    height = max((y for _, y in places.values()), default=0) + HEIGHT + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" font-family="system-ui, sans-serif" font-size="12">'
    )
    return "\n".join(
        [
            head,
            _ARROW,
            *(_line(places[parent], places[child]) for parent, child in graph.edges),
            *(_box(box, *places[box.id]) for box in graph.boxes),
            "</svg>",
        ]
    )


def _line(parent: tuple[int, int], child: tuple[int, int]) -> str:
    x1, y1 = parent[0] + WIDTH // 2, parent[1] + HEIGHT
    x2, y2 = child[0] + WIDTH // 2, child[1]
    middle = (y1 + y2) // 2
    curve = f"M{x1},{y1} C{x1},{middle} {x2},{middle} {x2},{y2}"
    return f'<path d="{curve}" fill="none" stroke="#7a8699" stroke-width="1.2" marker-end="url(#tip)"/>'


def _box(box: GraphNode, x: int, y: int) -> str:
    fill, line = _COLORS.get(box.state, _COLORS["waiting"])
    label = box.label if len(box.label) <= _MAX_LABEL_CHARS else f"{box.label[: _MAX_LABEL_CHARS - 1]}…"
    center = x + WIDTH // 2
    return (
        f"<g><title>{_xml(f'{box.label} {box.id}: {box.state}')}</title>"
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{fill}" stroke="{line}"/>'
        f'<text x="{center}" y="{y + 19}" text-anchor="middle" fill="#1c2530">{_xml(label)}</text>'
        f'<text x="{center}" y="{y + 35}" text-anchor="middle" fill="{line}">{_xml(box.state)}</text></g>'
    )


def _xml(text: str) -> str:
    # XML can't represent most control characters at all.
    return escape("".join(char if char.isprintable() else "\ufffd" for char in text))


def places_of(graph: JobGraph) -> dict[str, tuple[int, int]]:
    """The upper left corner of each box, which is WIDTH by HEIGHT."""
    layers = _ordered(layers_of(graph), graph)
    widest = max((len(layer) for layer in layers), default=0)
    places = {}
    for depth, layer in enumerate(layers):
        indent = (widest - len(layer)) * (WIDTH + _ACROSS) // 2
        for place, job_id in enumerate(layer):
            places[job_id] = (
                MARGIN + indent + place * (WIDTH + _ACROSS),
                MARGIN + depth * (HEIGHT + _DOWN),
            )
    return places


def layers_of(graph: JobGraph) -> list[list[str]]:
    """The jobs by layer: each one below the lowest of its parents."""
    waits: dict[str, int] = {box.id: 0 for box in graph.boxes}
    children: dict[str, list[str]] = {}
    for parent, child in graph.edges:
        waits[child] += 1
        children.setdefault(parent, []).append(child)
    layers, layer = [], [job_id for job_id, count in waits.items() if not count]
    while layer:
        layers.append(layer)
        following: list[str] = []
        for job_id in layer:
            for child in children.get(job_id, ()):
                waits[child] -= 1
                if not waits[child]:
                    following.append(child)
        layer = following
    return layers


def _ordered(layers: list[list[str]], graph: JobGraph) -> list[list[str]]:
    """Each layer ordered by the parents' positions, so that fewer lines cross."""
    parents: dict[str, list[str]] = {}
    for parent, child in graph.edges:
        parents.setdefault(child, []).append(parent)
    at: dict[str, float] = {}

    def middle(job_id: str) -> float:
        above = parents.get(job_id)
        return sum(at[parent] for parent in above) / len(above) if above else 0.0

    ordered = []
    for layer in layers:
        ordered.append(sorted(layer, key=middle))
        at |= {job_id: place - len(layer) / 2 for place, job_id in enumerate(ordered[-1])}
    return ordered
