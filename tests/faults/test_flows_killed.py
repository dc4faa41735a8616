"""Large random graphs under workers that are killed again and again: each job ends as it has to, in its order."""

from __future__ import annotations

import random
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import FlowRun, Headrace, Job
from headrace.core.jobs.dependencies import Policy
from tests.faults.test_kill import _app
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.slow

WITHIN = 240.0
SIZE = 1000
# A start bears the time at which its worker asked, which may have been before it had to wait for who ended the parent.
BLUR = timedelta(seconds=0.3)


@pytest.mark.timed
def test_every_job_of_a_random_graph_ends_as_it_has_to_though_workers_are_killed(
    fleet: SimpleNamespace, url: str, chance: random.Random
) -> None:
    with _app(url) as app:
        plan = _plan(chance)
        run = _enqueue(app, plan)
        names = {job.id: n for n, job in enumerate(run.jobs)}
        cancelled = {chance.randrange(SIZE) for _ in range(5)}
        for n in cancelled:
            plan[n]["cancelled"] = app.jobs.get(run.jobs[n].id).cancel()
        workers = [fleet.start(concurrency=4) for _ in range(3)]
        for _ in range(6):
            time.sleep(chance.uniform(0.2, 0.5))
            victim = workers.pop(chance.randrange(len(workers)))
            victim.kill()
            victim.wait()
            workers.append(fleet.start(concurrency=4))
        expected = _expected(plan)
        eventually(lambda: _states(app, run) == expected, "the end of the graph", WITHIN)
        _check_order(run, plan, names)


def _plan(rng: random.Random) -> list[dict[str, Any]]:
    """Each node with its fate, its parents among those before it, and what a lost one of them means to it."""
    plan: list[dict[str, Any]] = []
    for n in range(SIZE):
        parents = rng.sample(range(max(n - 40, 0), n), min(rng.choice([0, 1, 1, 2, 3]), n, 40))
        fate = rng.choices(["done", "flaky", "lost"], [20, 3, 1])[0]
        policy = rng.choices(["cancel", "run", "hold"], [2, 4, 1])[0]
        plan.append({"fate": fate, "parents": parents, "policy": policy, "cancelled": False})
    return plan


def _enqueue(app: Headrace, plan: list[dict[str, Any]]) -> FlowRun:
    fated = app.task_by_name("fated")
    flow = app.flow("storm")
    nodes: list[Any] = []
    for node in plan:
        parents = [nodes[parent] for parent in node["parents"]]
        nodes.append(flow.add(fated.bind(node["fate"]), after=parents, on_parent_failure=node["policy"]))
    return flow.enqueue()


def _expected(plan: list[dict[str, Any]]) -> list[str]:
    """The end of each node, from the definition: parents come before their children."""
    ends: list[str] = []
    for node in plan:
        lost = [ends[parent] for parent in node["parents"] if ends[parent] not in ("completed", "waiting")]
        if node["cancelled"] or (lost and node["policy"] == "cancel"):
            ends.append("cancelled")
        elif (lost and node["policy"] == "hold") or any(ends[parent] == "waiting" for parent in node["parents"]):
            ends.append("waiting")
        else:
            ends.append("failed" if node["fate"] == "lost" else "completed")
    return ends


def _states(app: Headrace, run: FlowRun) -> list[str]:
    states = {job.id: str(job.state) for job in app.jobs.find(flow=run.id, limit=SIZE)}
    return [states[job.id] for job in run.jobs]


def _check_order(run: FlowRun, plan: list[dict[str, Any]], names: dict[str, int]) -> None:
    jobs: list[Job[Any]] = [job.refresh() for job in run.jobs]
    for job in jobs:
        for parent in plan[names[job.id]]["parents"] if job.started_at else ():
            assert jobs[parent].finished_at is not None, "it ran before its parent had ended"
            assert job.started_at is not None
            assert job.started_at + BLUR >= jobs[parent].finished_at


@pytest.mark.parametrize("policy", ["cancel", "run"])
def test_a_parent_that_kills_its_worker_again_and_again_leaves_nobody_waiting(
    fleet: SimpleNamespace, url: str, policy: Policy
) -> None:
    with _app(url) as app:
        flow = app.flow("poisoned")
        poison = flow.add(app.task_by_name("poison").bind())
        child = flow.add(app.task_by_name("fated").bind("done"), after=[poison], on_parent_failure=policy)
        flow.add(app.task_by_name("fated").bind("done"), after=[child])
        run = flow.enqueue()
        for _ in range(3):
            fleet.start(max_crashes=3).wait(PATIENCE)
        fleet.start(max_crashes=3)
        assert run.wait(WITHIN) == "failed"
        end = "cancelled" if policy == "cancel" else "completed"
        assert [str(job.state) for job in run.refresh().jobs] == ["failed", end, end]
