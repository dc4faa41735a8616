"""A graph of calls knows its nodes, refuses strangers and circles by name, and can be drawn whatever it is called."""

from __future__ import annotations

from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.flows.drawing import GraphNode, JobGraph, layers_of, mermaid, svg
from headrace.core.flows.graph import Graph, Node
from headrace.core.jobs.dependencies import Dependency
from headrace.errors import InvalidJob


class Call(NamedTuple):
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def add(graph: Graph, name: str, *args: Any, **kwargs: Any) -> Node:
    return graph.add(Call(args, kwargs), name, name)


def test_a_node_depends_on_those_among_its_arguments_and_on_those_it_comes_after() -> None:
    graph = Graph("import")
    a, b, c, d = (add(graph, name) for name in "abcd")
    node = add(graph, "e", a, [b, {"x": (c,)}], k=a)
    assert node.after(d, "job-7") is node
    assert list(node.nodes()) == [a, b, c, a, d]
    assert node.waits_for == ("d", "job-7")
    assert graph.nodes == [a, b, c, d, node]
    graph.ensure_whole()


def test_a_flow_without_jobs_is_refused() -> None:
    with pytest.raises(InvalidJob, match="'empty' has no jobs"):
        Graph("empty").ensure_whole()


@pytest.mark.parametrize("how", ["argument", "nested", "after"])
def test_a_node_of_another_flow_is_refused_by_name(how: str) -> None:
    stranger = add(Graph("theirs"), "fetch")
    graph = Graph("ours")
    arguments: dict[str, list[Any]] = {"argument": [stranger], "nested": [{"k": [stranger]}], "after": []}
    node = add(graph, "clean", *arguments[how])
    if how == "after":
        node.after(stranger)
    with pytest.raises(InvalidJob, match="clean depends on fetch, which was added to another flow, 'theirs'"):
        graph.ensure_whole()


def test_a_circle_is_refused_with_the_way_it_takes() -> None:
    graph = Graph("loop")
    for name in ("a", "b", "c", "d"):
        add(graph, name)
    graph.ensure_acyclic([Dependency("a", "b"), Dependency("b", "c"), Dependency("a", "c"), Dependency("c", "d")])
    with pytest.raises(InvalidJob) as refused:
        graph.ensure_acyclic([Dependency("a", "b"), Dependency("b", "c"), Dependency("c", "b"), Dependency("c", "d")])
    assert str(refused.value).endswith(("b -> c -> b", "c -> b -> c"))


def test_a_chain_of_any_length_is_looked_through() -> None:
    graph = Graph("long")
    for number in range(20_001):
        add(graph, str(number))
    forward = [Dependency(str(number), str(number + 1)) for number in range(20_000)]
    graph.ensure_acyclic(forward)
    with pytest.raises(InvalidJob, match="for ever"):
        graph.ensure_acyclic([*forward, Dependency("20000", "0")])


@pytest.mark.parametrize("other", [None, 7, "not an id!", ["job", 3]], ids=repr)
def test_only_nodes_and_jobs_can_be_waited_for(other: Any) -> None:
    with pytest.raises(InvalidJob, match="after"):
        add(Graph("g"), "a").after(other)


def test_a_graph_that_is_stored_can_no_longer_be_changed() -> None:
    graph = Graph("g")
    node = add(graph, "a")
    graph.is_closed = True
    with pytest.raises(InvalidJob, match="already enqueued"):
        add(graph, "b")
    with pytest.raises(InvalidJob, match="already enqueued"):
        node.after("job-1")


# -- drawings

SVG = "{http://www.w3.org/2000/svg}"
DIAMOND = JobGraph(
    [
        GraphNode("a", "fetch", "completed"),
        GraphNode("b", "left", "running"),
        GraphNode("c", "right", "failed"),
        GraphNode("d", "end", "waiting"),
    ],
    [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")],
)


def test_a_job_is_drawn_below_all_it_waits_for() -> None:
    assert layers_of(DIAMOND) == [["a"], ["b", "c"], ["d"]]
    assert layers_of(JobGraph(DIAMOND.boxes, [*DIAMOND.edges, ("a", "d")])) == [["a"], ["b", "c"], ["d"]]


def test_the_svg_has_a_box_for_each_job_and_a_line_for_each_edge() -> None:
    root = ElementTree.fromstring(svg(DIAMOND))
    boxes = root.findall(f".//{SVG}rect")
    assert len(boxes) == 4
    assert len(root.findall(f"{SVG}path")) == 4
    heights = [int(box.attrib["y"]) for box in boxes]
    assert heights[0] < heights[1] == heights[2] < heights[3]
    assert len({box.attrib["fill"] for box in boxes}) == 4
    assert len({(box.attrib["x"], box.attrib["y"]) for box in boxes}) == 4


def test_an_empty_picture_is_an_image_all_the_same() -> None:
    assert ElementTree.fromstring(svg(JobGraph([], []))).tag == f"{SVG}svg"


@given(st.text(min_size=1))
def test_no_name_breaks_a_drawing(name: str) -> None:
    picture = JobGraph([GraphNode("a", name, "running"), GraphNode("b", name, "failed")], [("a", "b")])
    root = ElementTree.fromstring(svg(picture).encode("utf-8", "replace"))
    assert len(root.findall(f".//{SVG}text")) == 4
    lines = mermaid(picture).split("\n")
    assert lines[0] == "flowchart TD"
    assert lines[3] == "    n1 --> n2"
    assert len(lines) == 6
    assert all(lines[number].count('"') == 2 for number in (1, 2))


def test_mermaid_has_names_of_its_own_and_the_states_as_classes() -> None:
    assert mermaid(DIAMOND).splitlines()[:6] == [
        "flowchart TD",
        '    n1["fetch<br/>completed"]:::completed',
        '    n2["left<br/>running"]:::running',
        '    n3["right<br/>failed"]:::failed',
        '    n4["end<br/>waiting"]:::waiting',
        "    n1 --> n2",
    ]
