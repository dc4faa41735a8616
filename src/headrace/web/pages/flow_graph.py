"""The graph of a flow as SVG: each job in the color of its state, with a link. Pure functions.

`core` computes the layout. At a level with many jobs, those of one task are drawn as one bundle, to keep the graph
readable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup
from msgspec import Struct

from headrace.core.flows.drawing import HEIGHT, MARGIN, WIDTH, GraphNode, JobGraph, layers_of, places_of
from headrace.core.jobs.states import State
from headrace.core.tasks.arguments import cut

MAX_NODES = 120  # boxes; beyond this, all jobs are bundled
_MAX_SIBLINGS = 12  # boxes side by side; beyond this, the jobs of each task become one bundle
_MAX_LABEL, _MAX_STATE = 19, 17
_BY_IMPORTANCE = ("failed", "running", "retrying", "pending", "scheduled", "waiting", "cancelled", "completed")


class DrawnNode(Struct, frozen=True):
    """A box: one job, or a bundle of jobs of one task at one level."""

    id: str
    label: str
    counts: Mapping[str, int]
    link: str
    detail: str = ""

    @property
    def jobs(self) -> int:
        return sum(self.counts.values())

    @property
    def state(self) -> str:
        """The most important state of a bundle."""
        return next((state for state in _BY_IMPORTANCE if self.counts.get(state)), State.WAITING)


class DrawnGraph(Struct, frozen=True):
    """Nodes, and edges from a job to its dependents."""

    nodes: Sequence[DrawnNode]
    edges: Sequence[tuple[str, str]]


def graph(
    job_graph: JobGraph, link: Callable[[str], str], link_many: Callable[[str], str], max_nodes: int = MAX_NODES
) -> DrawnGraph:
    """The drawn graph; `link` leads to a job, `link_many` to the jobs of a task."""
    nodes_by_id = {graph_node.id: graph_node for graph_node in job_graph.boxes}
    bundle_of: dict[str, str] = {}
    for step, layer in enumerate(layers_of(job_graph)):
        jobs_per_task = Counter(_task_of(nodes_by_id[job_id]) for job_id in layer)
        is_wide = len(layer) > _MAX_SIBLINGS or len(nodes_by_id) > max_nodes
        for job_id in layer:
            task = _task_of(nodes_by_id[job_id])
            bundle_of[job_id] = f"{step} {task}" if is_wide and jobs_per_task[task] > 1 else job_id
    bundles: dict[str, list[GraphNode]] = {}
    for job_id, bundle in bundle_of.items():
        bundles.setdefault(bundle, []).append(nodes_by_id[job_id])
    nodes = [_bundled(bundle, members, link, link_many) for bundle, members in bundles.items()]
    edges = dict.fromkeys((bundle_of[parent], bundle_of[child]) for parent, child in job_graph.edges)
    return DrawnGraph(nodes, list(edges))


def _bundled(
    bundle: str, graph_nodes: Sequence[GraphNode], link: Callable[[str], str], link_many: Callable[[str], str]
) -> DrawnNode:
    first, counts = graph_nodes[0], Counter(graph_node.state for graph_node in graph_nodes)
    if len(graph_nodes) == 1:
        return DrawnNode(bundle, first.label, counts, link(first.id), first.detail)
    task = _task_of(first)
    return DrawnNode(bundle, f"{len(graph_nodes):,} × {task}", counts, link_many(task))


def _task_of(graph_node: GraphNode) -> str:
    return graph_node.task or graph_node.label


def svg(drawn_graph: DrawnGraph, title: str) -> Markup:
    """The graph as SVG in its natural size, parents above their children."""
    nodes = {node.id: node for node in drawn_graph.nodes}
    places = places_of(
        JobGraph([GraphNode(node.id, node.label, node.state) for node in drawn_graph.nodes], drawn_graph.edges)
    )
    width = max((x for x, _ in places.values()), default=0) + WIDTH + MARGIN
    height = max((y for _, y in places.values()), default=0) + HEIGHT + MARGIN
    body = Markup().join(
        [
            *(_edge(places[parent], places[child], nodes[parent].state) for parent, child in drawn_graph.edges),
            *(_box(node, *places[node.id]) for node in drawn_graph.nodes),
        ]
    )
    return Markup(
        '<svg class="graph-svg" id="graph-svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="group" '
        'aria-label="{title}">{body}</svg>'
    ).format(w=width, h=height, title=title, body=body)


def _edge(parent: tuple[int, int], child: tuple[int, int], state: str) -> Markup:
    x1, y1 = parent[0] + WIDTH // 2, parent[1] + HEIGHT
    x2, y2 = child[0] + WIDTH // 2, child[1]
    middle_y = (y1 + y2) // 2
    return Markup(
        '<path class="edge {edge_class}" d="M{x1} {y1}C{x1} {m} {x2} {m} {x2} {tip}"/>'
        '<path class="tip" d="M{left} {up}L{x2} {y2}L{right} {up}z"/>'
    ).format(
        edge_class="satisfied" if state == State.COMPLETED else "waiting",
        x1=x1,
        y1=y1,
        x2=x2,
        y2=y2,
        m=middle_y,
        tip=y2 - 5,
        left=x2 - 4,
        right=x2 + 4,
        up=y2 - 7,
    )


def _box(node: DrawnNode, x: int, y: int) -> Markup:
    state_text = (
        ", ".join(f"{count:,} {state}" for state, count in node.counts.items()) if node.jobs > 1 else node.state
    )
    return Markup(
        '<a class="node is-{state}" href="{link}" aria-label="{full}: {state_text}">'
        "<title>{full}: {state_text}</title>{shadow}"
        '<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6"/>'
        # A text wider than its box ends at the edge of the inner svg.
        '<svg x="{x}" y="{y}" width="{inner}" height="{h}">'
        '<text class="node-name" x="12" y="18">{label}</text>'
        '<use class="icon" href="#i-{state}" x="12" y="25" width="12" height="12"/>'
        '<text class="node-state" x="29" y="35">{second_line}</text></svg></a>'
    ).format(
        state=node.state,
        link=node.link,
        full=f"{node.label}({node.detail})" if node.detail else node.label,
        state_text=state_text,
        shadow=_shadow(x, y) if node.jobs > 1 else "",
        x=x,
        y=y,
        w=WIDTH,
        h=HEIGHT,
        inner=WIDTH - 4,
        label=cut(node.label, _MAX_LABEL),
        second_line=_second_line(node),
    )


def _shadow(x: int, y: int) -> Markup:
    """The shadow box that marks a bundle."""
    return Markup('<rect class="shadow" x="{}" y="{}" width="{}" height="{}" rx="6"/>').format(
        x + 5, y + 5, WIDTH, HEIGHT
    )


def _second_line(node: DrawnNode) -> str:
    """The arguments of a job, whose state has an icon and a color; the states of a bundle."""
    if node.jobs == 1:
        return cut(node.detail or node.state, _MAX_STATE)
    done = node.counts.get(State.COMPLETED, 0)
    count = f"{node.counts[node.state]:,} {node.state}"
    return f"{done:,} done" if node.state == State.COMPLETED else f"{done:,} done, {count}" if done else count
