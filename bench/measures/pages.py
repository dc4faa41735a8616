"""Whether every page of the dashboard is there at once, however many jobs there are."""

from __future__ import annotations

import asyncio
from functools import partial
from statistics import quantiles

from bench import population
from bench.asking import ask, visiting
from bench.ground import Ground, Store
from bench.measure import Figure, Goal, Measure, Readings
from bench.tasks import open_subject
from headrace import Headrace

_VISITS = 20
PAGES = (
    *(
        "/",
        "/queues",
        "/queues/queue-3",
        "/workers",
        "/jobs",
        "/flows",
        "/schedules",
        "/new-schedule",
    ),
    *("/dead", "/lifecycle", "/alerts", "/alerts/rules", "/system", "/webhooks", "/enqueue", "/palette"),
)
JOBS = ("pending", "scheduled", "waiting", "running", "completed", "failed")  # a job's page, of each of these states
_SEEN = {"first": "{0}, first visit", "p95": "{0}, p95"}


def pages(ground: Ground) -> Readings:
    """Visit every page in a store of many jobs, by a web app that has counted nothing yet and by one that has.

    The figures are the time that the server takes for the very first visit, and the time of which nineteen of twenty
    further ones are below. The web app is asked in its own process, without a network.
    """
    build = partial(population.build, jobs=ground.sizes.deep, kind="aged")
    store = ground.kept("population, aged", build)
    ground.place.rest(store.url)
    return asyncio.run(_visit_everything(store))


async def _visit_everything(store: Store) -> Readings:
    readings: Readings = {}
    with open_subject(store.url, store.durability).app as app:
        paths = {page: page for page in PAGES} | {f"a {state} job": path_of(app, state) for state in JOBS}
        for name, path in paths.items():
            async with visiting(app) as client:
                readings[f"{name}, first"], _ = await ask(client, path)
                times = [(await ask(client, path))[0] for _ in range(_VISITS)]
            readings[f"{name}, p95"] = quantiles(times, n=20, method="inclusive")[-1]
    return readings


def path_of(app: Headrace, state: str) -> str:
    """The page of a job in this state."""
    return f"/jobs/{app.jobs.find(state=state, limit=1)[0].id}"


MEASURE = Measure(
    "pages",
    pages,
    tuple(
        Figure(f"{name}, {seen}", title.format(name), "ms", Goal("at most", 200))
        for name in (*PAGES, *(f"a {state} job" for state in JOBS))
        for seen, title in _SEEN.items()
    ),
)
