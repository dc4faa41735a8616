"""Whether jobs are found and listed at once, whatever is asked of however many."""

from __future__ import annotations

import asyncio
from functools import partial
from statistics import quantiles

import httpx

from bench import population
from bench.asking import ask, visiting
from bench.ground import Ground, Store
from bench.measure import Figure, Goal, Measure, Readings
from bench.tasks import open_subject

_RUNS = 20
_PATIENCE = 1.0  # seconds for one question; one that takes longer is asked less often

# What a filter looks for may be everywhere, rare, or nowhere; old or new; alone or among others.
_QUESTIONS = (
    "",
    "limit=1000",
    *(f"state={state}" for state in ("pending", "scheduled", "waiting", "retrying", "running")),
    *(f"state={state}" for state in ("completed", "failed", "cancelled")),
    "state=pending&state=scheduled",
    "state=failed&state=cancelled",
    "state=running&state=completed",
    "queue=queue-3",
    "queue=queue-17",
    "queue=nowhere",
    "queue=queue-3&state=pending",
    "queue=queue-17&state=pending",
    "queue=queue-3&state=scheduled",
    "queue=queue-3&state=completed",
    "queue=queue-17&state=failed",
    "task=shop.task_7",
    "task=no.such.task",
    "task=shop.task_7&state=pending",
    "task=shop.task_7&queue=queue-17&state=retrying",
    "tag=common",
    "tag=some",
    "tag=rare",
    "tag=nowhere",
    "tag=common&state=running",
    "tag=common&state=failed",
    "tag=common&queue=queue-17",
    "tag=common&task=no.such.task",
    "worker=worker-3",
    "worker=nobody",
    "worker=worker-3&state=running",
    "worker=nobody&state=failed",
    "text=customer",
    "text=no such customer",
    "text=nowhere at all",
    "text=nowhere at all&queue=queue-3&state=completed",
    "flow=flow-50",
    "flow=nowhere",
    "since=2020-01-01T00:00:00Z",
    "since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z",
    "since=2090-01-01T00:00:00Z",
    "since=2090-01-01T00:00:00Z&state=pending",
    *(f"{which}total=true" for which in ("", "state=pending&", "state=completed&", "queue=queue-3&")),
    *(f"{which}&total=true" for which in ("task=shop.task_7", "tag=common", "text=nowhere at all", "worker=nobody")),
)
_THOUSAND = 100  # milliseconds for twenty times as many jobs as usual
_PAGES = ("", "state=completed", "state=pending&queue=queue-3", "text=nowhere at all", "tag=common&task=no.such.task")
_KINDS: dict[population.Kind, str] = {"aged": "a mixed store", "backlog": "a mere backlog"}


def find(ground: Ground) -> Readings:
    """Ask `GET /api/v1/jobs` every kind of question, and the dashboard for its lists, in two stores of many jobs.

    One holds jobs of every state, the other a backlog that has not begun. Each question is asked twenty times, each
    time for the page behind the last one as well, and what is read is the time of which nineteen are below. The web app
    is asked in its own process, without a network.
    """
    readings: Readings = {}
    for kind in _KINDS:
        store = ground.kept(f"population, {kind}", partial(population.build, jobs=ground.sizes.deep, kind=kind))
        ground.place.rest(store.url)
        readings |= asyncio.run(_ask_everything(store, kind))
    return readings


async def _ask_everything(store: Store, kind: str) -> Readings:
    readings: Readings = {}
    with open_subject(store.url, store.durability).app as app:
        async with visiting(app) as client:
            await ask(client, "/jobs")  # what is imported and counted first is not the list's
            for question in _QUESTIONS:
                readings[f"{kind}, {question}"] = await _p95(client, f"/api/v1/jobs?{question}")
            for question in _PAGES:
                readings[f"{kind}, page {question}"] = await _p95(client, f"/jobs?{question}")
    return readings


async def _p95(client: httpx.AsyncClient, path: str) -> float:
    times: list[float] = []
    while (len(times) < 2 * _RUNS and sum(times) < 1000 * _PATIENCE) or len(times) < 2:
        taken, answer = await ask(client, path)
        times.append(taken)
        if answer.headers["content-type"].startswith("application/json") and (cursor := answer.json()["cursor"]):
            taken, _ = await ask(client, f"{path}&cursor={cursor}")
            times.append(taken)
    return quantiles(times, n=20, method="inclusive")[-1]


def _most(question: str, usual: int) -> int:
    return _THOUSAND if "limit=1000" in question else usual


MEASURE = Measure(
    "find",
    find,
    tuple(
        Figure(
            f"{kind}, {prefix}{asked}", f"{title}, {prefix}{asked or 'all'}", "ms", Goal("at most", _most(asked, most))
        )
        for kind, title in _KINDS.items()
        for prefix, questions, most in (("", _QUESTIONS, 50), ("page ", _PAGES, 200))
        for asked in questions
    ),
)
