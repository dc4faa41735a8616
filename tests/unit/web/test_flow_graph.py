"""The graph of a flow as the dashboard draws it."""

from __future__ import annotations

from headrace.core.flows.drawing import GraphNode, JobGraph
from headrace.web.pages.flow_graph import DrawnNode, graph, svg

HOSTILE = "<script>alert(1)</script>"


def link(job_id: str) -> str:
    return f"/jobs/{job_id}"


def many(task: str) -> str:
    return f"/jobs?task={task}"


def test_a_small_flow_has_a_box_and_a_link_for_each_job() -> None:
    picture = JobGraph([GraphNode("a", "fetch", "completed"), GraphNode("b", "merge", "failed")], [("a", "b")])
    drawn = graph(picture, link, many)
    assert [(node.link, node.state) for node in drawn.nodes] == [("/jobs/a", "completed"), ("/jobs/b", "failed")]
    text = svg(drawn, "What waits")
    assert text.count('class="node is-') == 2
    assert text.count('class="edge satisfied"') == 1
    assert 'href="#i-failed"' in text


def test_many_jobs_of_one_task_at_one_step_are_a_bundle() -> None:
    parts = [GraphNode(f"p{n}", "resize", "completed" if n else "failed") for n in range(50)]
    boxes = [GraphNode("first", "split", "completed"), *parts, GraphNode("last", "join", "waiting")]
    edges = [("first", part.id) for part in parts] + [(part.id, "last") for part in parts]
    drawn = graph(JobGraph(boxes, edges), link, many, max_nodes=20)
    assert {node.label: node.jobs for node in drawn.nodes} == {"split": 1, "50 × resize": 50, "join": 1}
    assert len(drawn.edges) == 2
    bundle = drawn.nodes[1]
    assert (bundle.state, bundle.link) == ("failed", "/jobs?task=resize")
    assert drawn.nodes[0].link == "/jobs/first"
    assert "49 done, 1 failed" in svg(drawn, "")


def test_a_step_that_is_too_wide_is_a_bundle_and_the_others_are_not() -> None:
    parts = [GraphNode(f"p{n}", "resize", "completed") for n in range(30)]
    boxes = [
        GraphNode("a", "split", "completed"),
        *parts,
        GraphNode("b", "join", "waiting"),
        GraphNode("c", "join", "waiting"),
    ]
    edges = [("a", part.id) for part in parts] + [(part.id, end) for part in parts for end in ("b", "c")]
    drawn = graph(JobGraph(boxes, edges), link, many)
    assert [(node.label, node.jobs) for node in drawn.nodes] == [
        ("split", 1),
        ("30 × resize", 30),
        ("join", 1),
        ("join", 1),
    ]
    assert [node.link for node in drawn.nodes] == ["/jobs/a", "/jobs?task=resize", "/jobs/b", "/jobs/c"]
    assert len(drawn.edges) == 3


def test_a_wide_step_is_bundled_by_task_whatever_its_jobs_are_called() -> None:
    named = [GraphNode(f"p{n}", f"resize {n}", "completed" if n < 8 else "pending", "resize") for n in range(10)]
    other = [GraphNode(f"m{n}", f"mail {n}", "pending", "mail") for n in range(2)]
    drawn = graph(JobGraph([*named, *other, GraphNode("one", "the only one", "running", "check")], []), link, many)
    assert [(node.label, node.link) for node in drawn.nodes] == [
        ("10 × resize", "/jobs?task=resize"),
        ("2 × mail", "/jobs?task=mail"),
        ("the only one", "/jobs/one"),
    ]
    text = svg(drawn, "")
    assert "8 done, 2 pending" in text
    assert "2 pending</text>" in text
    narrow = graph(JobGraph([*named, *other], []), link, many)
    assert [node.label for node in narrow.nodes][:2] == ["resize 0", "resize 1"]


def test_the_gravest_state_is_the_look_of_a_bundle() -> None:
    assert DrawnNode("x", "x", {"completed": 9, "running": 1}, "").state == "running"
    assert DrawnNode("x", "x", {"completed": 9, "running": 1, "failed": 1}, "").state == "failed"


def test_whatever_a_task_is_called_it_is_text() -> None:
    text = svg(graph(JobGraph([GraphNode("a", HOSTILE, "pending")], []), link, many), HOSTILE)
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_no_jobs_are_an_empty_drawing() -> None:
    assert "<svg" in svg(graph(JobGraph([], []), link, many), "nothing")


def test_the_second_line_of_a_job_is_its_arguments_cut_to_the_box() -> None:
    picture = JobGraph([GraphNode("a", "pack", "completed", detail="order=328511, item=tea")], [])
    assert '<text class="node-state" x="29" y="35">order=328511, it…</text></svg>' in svg(
        graph(picture, link, many), ""
    )
