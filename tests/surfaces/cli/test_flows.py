"""Flows from the command line: output is correct, and actions are carried out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest

from headrace import FlowRun, Headrace, Task, current_job
from headrace.core.jobs.budgets import Spending
from headrace.testing import drain
from tests.support.command_line import Shell


@pytest.fixture
def app(shell: Shell) -> Iterator[Headrace]:
    with shell.app() as app:
        yield app


@pytest.fixture
def give(app: Headrace) -> Task[..., Any, Any]:
    @app.task(retry=0)
    def give(value: Any) -> Any:
        if value == "broken":
            raise ValueError("broken")
        return value

    return give


@pytest.fixture
def run(app: Headrace, give: Task[..., Any, Any]) -> FlowRun:
    """One job failed, one was cancelled for it, one completed."""
    flow = app.flow("im port")
    bad = flow.add(give.bind("broken"))
    flow.add(give.bind(bad))
    flow.add(give.bind(1))
    run = flow.enqueue()
    drain(app)
    return run.refresh()


def test_flows_are_listed_with_how_far_they_are(shell: Shell, run: FlowRun) -> None:
    for command in (("flows",), ("flows", "list")):
        listed = shell(*command)
        assert listed.code == 0
        assert f"{run.id}  failed  im port   3/3" in listed.out
        assert "1 completed, 1 failed, 1 cancelled" in listed.out
    [record] = shell("flows", "--json").json
    assert (record["id"], record["state"], record["done"], record["total"]) == (run.id, "failed", 3, 3)
    assert "there are no flows" in shell("flows", "list", "--before", run.id).err


def test_one_flow_is_shown_with_its_jobs(shell: Shell, run: FlowRun) -> None:
    shown = shell("flows", "show", run.id)
    assert shown.code == 0
    assert "3 of 3 jobs" in shown.out
    assert all(job.id in shown.out for job in run.jobs)
    record = shell("flows", "show", run.id, "--json").json
    assert [job["state"] for job in record["jobs"]] == ["failed", "cancelled", "completed"]
    assert {job["flow"] for job in record["jobs"]} == {run.id}


def test_the_failed_part_is_run_again_and_the_rest_cancelled(shell: Shell, run: FlowRun) -> None:
    assert shell("flows", "retry", run.id).out.startswith("1 job queued again")
    assert run.refresh().counts == {"pending": 1, "waiting": 1, "completed": 1}
    refused = shell("flows", "cancel", run.id)
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert shell("flows", "cancel", run.id, "--yes").out == "2 jobs cancelled\n"
    again = shell("flows", "retry", run.id, "--json").json
    assert again["changed"] > 0
    assert again["flow"]["state"] == "running"


def test_a_flow_is_drawn(shell: Shell, run: FlowRun) -> None:
    assert shell("flows", "graph", run.id).out.startswith("flowchart TD\n")
    picture = ElementTree.fromstring(shell("flows", "graph", run.id, "--format", "svg").out)
    assert picture.tag.endswith("svg")
    graph = shell("flows", "graph", run.id, "--format", "json").json
    assert graph == shell("flows", "graph", run.id, "--json").json
    assert (len(graph["nodes"]), len(graph["edges"])) == (3, 1)


def test_a_job_is_shown_with_its_dependencies_and_found_by_its_flow(shell: Shell, run: FlowRun) -> None:
    bad, cancelled, _ = run.jobs
    shown = shell("jobs", "show", cancelled.id).out
    assert re.search(rf"^flow +{run.id}$", shown, re.MULTILINE)
    assert re.search(rf"^parents +{bad.id} give failed$", shown, re.MULTILINE)
    assert f"<result of {bad.id}>" in shown
    record = shell("jobs", "show", bad.id, "--json").json
    assert record["children"] == [{"id": cancelled.id, "task": "give", "state": "cancelled"}]
    assert record["parents"] == []
    assert shell("jobs", "show", cancelled.id, "--json").json["args"] == [{"$result": bad.id}]
    assert len(shell("jobs", "--flow", run.id, "--json").json["jobs"]) == 3


def test_an_unknown_flow_is_an_error(shell: Shell, run: FlowRun) -> None:
    for command in ("show", "cancel", "retry", "graph"):
        ran = shell("flows", command, "nowhere")
        assert ran.code == 1
        assert ran.err.startswith("error: no flow has the id 'nowhere'; a flow is deleted with the last of its jobs")
        assert ran.err.endswith("See app.jobs.find(archived=True)\n")
    assert shell("flows", "graph", run.id, "--format", "png").code == 2


def test_a_budget_is_shown_with_the_flow_and_its_jobs_and_raised(shell: Shell, app: Headrace) -> None:
    @app.task
    def ask(tokens: int) -> None:
        current_job().report_cost(tokens)

    flow = app.flow("research", budget=1000)
    node = flow.add(ask.using(budget=5000).bind(1200))
    run = flow.enqueue()
    drain(app)
    assert "used 1,200 of 1,000 units" in shell("flows", "show", run.id).out
    assert shell("flows", "show", run.id, "--json").json["budget"] == {"used": 1200, "ceiling": 1000}
    assert "1,200 of 5,000 units" in shell("jobs", "show", node.id).out
    assert shell("jobs", "show", node.id, "--json").json["cost"] == 1200
    assert shell("flows", "budget", run.id, "2000").out == "used 1,200 of 2,000 units\n"
    assert run.spending == Spending(1200, 2000)
    assert shell("flows", "budget", run.id, "0").code == 2


def test_a_flow_without_a_budget_gets_none(shell: Shell, run: FlowRun) -> None:
    assert "budget" not in shell("flows", "show", run.id).out
    assert "was enqueued without a budget" in shell("flows", "budget", run.id, "5").err
