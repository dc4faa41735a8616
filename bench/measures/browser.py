"""How soon somebody can use a page of the dashboard, in a browser, however many jobs there are."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

from bench import population
from bench.child import Child, free_port
from bench.ground import Ground, Store
from bench.measure import Figure, Goal, Measure, Readings
from bench.measures.pages import JOBS, PAGES, path_of
from bench.tasks import open_subject

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_VISITS = 5
_WHOLE = tuple(page for page in PAGES if page != "/palette")  # which is a part of each
_SEEN = {"cold": "{0}, with nothing cached", "slowest": "{0}, the slowest of five more"}
# A page says that it takes keys by an attribute; what is read is how long ago its address was entered.
_WATCH = """
new MutationObserver((_, watch) => {
  if (!("ready" in document.documentElement?.dataset)) return;
  window.interactive = performance.now();
  watch.disconnect();
}).observe(document, {attributes: true, subtree: true});
"""


def browser(ground: Ground) -> Readings:
    """Open every page in Chromium, from `headrace web` of a store of many jobs in another process.

    The figures are the time from the address to the moment when the page takes keys and clicks, with an empty cache
    and with what a browser has kept of a visit before. Without a browser on the machine there are none.
    """
    from tests.surfaces.web.pages.browser import NAMES

    if not any(map(shutil.which, NAMES)):
        return {}
    build = partial(population.build, jobs=ground.sizes.deep, kind="aged")
    store = ground.kept("population, aged", build)
    ground.place.rest(store.url)
    port = free_port()
    with Child(ground, store, "web", port) as web:
        web.wait_until_ready()
        return _visit_everything(store, f"http://127.0.0.1:{port}")


def _visit_everything(store: Store, site: str) -> Readings:
    from tests.surfaces.web.pages.browser import open_browser

    with open_subject(store.url, store.durability).app as app:
        paths = {page: page for page in _WHOLE} | {f"a {state} job": path_of(app, state) for state in JOBS}
    readings: Readings = {}
    with open_browser() as chromium:
        for name, path in paths.items():
            cold, *others = _visits(chromium, site + path)
            readings |= {f"{name}, cold": cold, f"{name}, slowest": max(others)}
    return readings


def _visits(chromium: Browser, address: str) -> list[float]:
    """How many milliseconds each visit took until the page could be used, the first with an empty cache."""
    context = chromium.new_context()
    times = []
    for _ in range(1 + _VISITS):
        page = context.new_page()
        page.add_init_script(_WATCH)
        page.goto(address)
        page.wait_for_function("() => window.interactive")
        times.append(float(page.evaluate("window.interactive")))
        page.close()
    context.close()
    return times


MEASURE = Measure(
    "browser",
    browser,
    tuple(
        Figure(f"{name}, {seen}", title.format(name), "ms", Goal("at most", 1000))
        for name in (*_WHOLE, *(f"a {state} job" for state in JOBS))
        for seen, title in _SEEN.items()
    ),
)
