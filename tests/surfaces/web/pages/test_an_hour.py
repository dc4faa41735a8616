"""An hour of an open Overview leaks nothing, neither in the browser nor in the server.

The page reloads at most once a second, so an hour is 3600 reloads; the test moves the page's clock from one to the
next. The suite takes the first 60. All of them, by hand, take some minutes:

    HEADRACE_TEST_LOOKS=3600 python -m pytest tests/surfaces/web/pages/test_an_hour.py --timeout=3600
"""

from __future__ import annotations

import gc
import os
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import CDPSession, Page

from headrace import Headrace

pytestmark = pytest.mark.slow

LOOKS = int(os.environ.get("HEADRACE_TEST_LOOKS", "60"))
OURS = [tracemalloc.Filter(True, f"*/{name}/*") for name in ("headrace", "starlette", "uvicorn", "jinja2", "h11")]
COUNT = "window.looks = 0; document.addEventListener('headrace:updated', () => (window.looks += 1))"
SHOWN = """() => {
  const walk = document.createTreeWalker(document, NodeFilter.SHOW_ALL);
  let shown = 1;
  while (walk.nextNode()) shown += 1;
  return shown;
}"""
# Run everything that a page does when it becomes visible again.
WAKE = "document.dispatchEvent(new Event('visibilitychange'))"


def in_browser(cdp: CDPSession) -> dict[str, float]:
    """The figures after garbage collection."""
    for _ in range(3):
        cdp.send("HeapProfiler.collectGarbage")
    found = {one["name"]: one["value"] for one in cdp.send("Performance.getMetrics")["metrics"]}
    return {name: found[name] for name in ("JSHeapUsedSize", "Nodes", "JSEventListeners")}


def at_rest(page: Page, cdp: CDPSession) -> dict[str, float]:
    """The least the browser held over ten measurements, with the nodes that are held and on no page.

    A page that was just replaced is held until its timers have run and the renderer has drawn: a leak
    shows in the smallest figure, a replaced page does not.
    """
    found = []
    for _ in range(10):
        page.clock.run_for(200)
        page.evaluate(
            "new Promise((drawn) => { const port = new MessageChannel(); "
            "port.port1.onmessage = drawn; port.port2.postMessage(0); })"
        )
        figures = in_browser(cdp)
        found.append({**figures, "lost": figures["Nodes"] - float(page.evaluate(SHOWN))})
    return {name: min(one[name] for one in found) for name in found[0]}


def in_server() -> int:
    """The bytes that the server holds, without the browser's driver."""
    gc.collect()
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(OURS).traces)


def look(page: Page, app: Headrace, tasks: dict[str, Any], number: int) -> None:
    """Change something, let a second pass, and wait until the page shows it."""
    tasks["refuse" if number % 10 == 0 else "add"].enqueue(*((number,) if number % 10 == 0 else (number, 1)))
    seen = page.evaluate("window.looks")
    page.evaluate(WAKE)
    page.clock.run_for(1000)
    page.wait_for_function("(seen) => window.looks > seen", arg=seen)


@pytest.mark.timed
def test_an_open_overview_leaks_no_memory_on_either_side(
    app: Headrace, tasks: dict[str, Any], page: Page, visit: Callable[[str], Page]
) -> None:
    page.clock.install()
    with app.worker(concurrency=2, queues=["sums", "orders"]):
        visit("/").evaluate(COUNT)
        cdp = page.context.new_cdp_session(page)
        cdp.send("Performance.enable")
        tracemalloc.start(1)
        try:
            for number in range(LOOKS // 3):
                look(page, app, tasks, number)
            before, held = at_rest(page, cdp), in_server()
            for number in range(LOOKS // 3, LOOKS):
                look(page, app, tasks, number)
            after, holds = at_rest(page, cdp), in_server()
        finally:
            tracemalloc.stop()
    assert page.evaluate("window.looks") >= LOOKS
    figures_text = f"{before} -> {after}; {held} -> {holds} bytes in the server"
    assert after["JSEventListeners"] <= before["JSEventListeners"] + 5, figures_text
    assert after["lost"] <= before["lost"] + 1000, figures_text
    assert after["JSHeapUsedSize"] <= 1.2 * before["JSHeapUsedSize"] + 500_000, figures_text
    assert holds <= 1.2 * held + 2_000_000, figures_text
    print(figures_text)
