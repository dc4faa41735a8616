"""`make screenshots`: the pictures in docs/images, or those named by ARGS, of a store with an hour of jobs in it.

A virtual clock makes the hour pass in a moment; then real workers continue. If pngquant is installed, it reduces the
pictures to a palette, which looks the same at a third of the size.
"""

from __future__ import annotations

import itertools
import logging
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, ViewportSize

from headrace import Headrace, PermanentError, Retry, current_job
from headrace.testing import VirtualClock
from tests.support.site import serve
from tests.surfaces.web.pages.browser import open_browser

IMAGES = Path(__file__).parents[4] / "docs" / "images"
SIZE: ViewportSize = {"width": 1240, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 800}
COLORS = 160
# A traceback has the path of the shop's code; do not publish it.
ELSEWHERE = """(here) => document.querySelectorAll("pre").forEach((block) =>
    (block.textContent = block.textContent.replaceAll(new RegExp(`${here}/[^"]+py`, "g"), "/srv/shop/jobs.py")))"""
STEP, STEPS = 20, 180


class Shop:
    """What a shop does in the background. Time passes by the clock that is moved, or really, until the picture is
    taken."""

    def __init__(self, app: Headrace, chance: random.Random, clock: VirtualClock | None = None) -> None:
        self._chance = chance
        self._clock = clock
        self.taken = threading.Event()
        retry = Retry(limit=2, backoff="fixed", base=60)
        self.send = app.task(name="emails.send", queue="emails", retry=retry)(self._send)
        self.charge = app.task(name="billing.charge", queue="billing", redact=("card",))(self._charge)
        self.render = app.task(name="reports.render", queue="reports")(self._render)
        self.thumbnail = app.task(name="images.thumbnail", queue="images")(self._thumbnail)

    def _take(self, seconds: float) -> None:
        if self._clock is not None:
            self._clock.advance(seconds)

    def _send(self, to: str, subject: str) -> dict[str, int]:
        self._take(0.05 + self._chance.random() / 8)
        if self._chance.random() < 0.06:
            raise ConnectionError(f"smtp.example.com refused {to}: 421 try again later")
        return {"bytes": 4096}

    def _charge(self, order: int, card: str) -> str:
        self._take(0.2 + self._chance.random() / 4)
        if self._chance.random() < 0.05:
            raise PermanentError(f"order {order}: the card was declined")
        return "paid"

    def _render(self, report: str, pages: int = 24) -> int:
        self._take(1 + self._chance.random())
        for page in range(pages if self._clock is None else 0):
            current_job().progress((page + 1) / pages)
            current_job().log(f"page {page + 1} of {pages} rendered", report=report)
            if page >= pages * 0.6 and self.taken.wait(60):
                break
        return pages

    def _thumbnail(self, path: str) -> None:
        self._take(0.03)


def live_an_hour(url: str) -> None:
    chance, numbers = random.Random(7), itertools.count(4100)
    clock = VirtualClock(datetime.now(UTC) - timedelta(seconds=STEP * STEPS + 60))
    with Headrace(url, clock=clock) as app, app.worker(concurrency=4):
        shop = Shop(app, chance, clock)
        for step in range(STEPS):
            many = 6 + round(5 * chance.random()) + (12 if 90 < step < 110 else 0)
            calls: list[Any] = [
                shop.send.bind(f"user{next(numbers)}@example.com", subject="Your order") for _ in range(many)
            ]
            calls += [shop.charge.bind(next(numbers), card="4111 1111 1111 1111") for _ in range(many // 3)]
            calls += [shop.render.bind(f"sales-{next(numbers)}")] if step % 9 == 0 else []
            begun = clock.now()
            app.enqueue_many(calls)
            while app.jobs.count(state=["pending", "running"]):
                time.sleep(0.002)
            clock.advance(max(STEP - (clock.now() - begun) / 1000, 0.001))
            app.metrics.snapshot()


@contextmanager
def living(url: str) -> Iterator[Headrace]:
    """The same store with workers at work: some busy, one queue paused, some jobs for later."""
    with Headrace(url, shutdown_timeout=5) as app:
        shop = Shop(app, random.Random(11))
        app.queue("images").pause()
        app.enqueue_many([shop.thumbnail.bind(f"/photos/{n}.jpg") for n in range(34)])
        app.enqueue_many([shop.send.using(delay=1800).bind(f"vip{n}@example.com", subject="News") for n in range(12)])
        with app.worker(concurrency=6, queues=["emails", "billing"]), app.worker(concurrency=4, queues=["reports"]):
            app.enqueue_many([shop.render.bind(f"year-{n}") for n in range(2019, 2022)])
            app.enqueue_many([shop.send.bind(f"user{n}@example.com", subject="Hello") for n in range(12)])
            while app.jobs.count(state="running", queue="reports") < 3 or app.jobs.count(
                state="pending", queue="emails"
            ):
                pass
            furnish(app, shop)
            yield app
            shop.taken.set()


def furnish(app: Headrace, shop: Shop) -> None:
    """Content for every admin page."""
    flow = app.flow("month end")
    orders = [flow.add(shop.charge.bind(n, card="4111")) for n in range(3)]
    report = flow.add(shop.render.bind("month")).after(*orders)
    for name in ("board", "tax office", "archive"):
        flow.add(shop.thumbnail.bind(f"/reports/{name}.png")).after(report)
    flow.enqueue()
    app.schedules.create(
        "month-end", "reports.render", args=["month"], cron="0 3 1 * *", tz="Europe/Vienna", priority=5
    )
    app.schedules.create("newsletter", "emails.send", args=["all@example.com", "News"], cron="30 8 * * MON-FRI")
    app.schedules.create("clean-up", "images.thumbnail", args=["/tmp"], every=900)
    app.schedules.run_now("newsletter")
    app.schedules.pause("clean-up")
    app.alerts.channels.create("ops", kind="slack", url="https://chat.example.com/hooks/T1")
    app.alerts.rules.create("mail-fails", when='error_rate{queue="emails"}[5m] > 5%', for_=60, severity="critical")
    app.alerts.evaluate()
    app.lifecycle.configure(queue="reports", max_running=3600, on_stale="review")
    dead_letter = app.dead.list(limit=1)[0]
    app.dead.note(dead_letter.id, "The customer has a new card; requeue it tomorrow.", by="ann")


def shoot(page: Page, address: str, name: str, *, scheme: Any = "light", size: ViewportSize = SIZE) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size(size)
    page.goto(address)
    page.locator("#link[data-link=live]").wait_for(state="attached")  # a phone hides it
    while page.locator("[data-counting]").count():
        page.wait_for_timeout(200)
    page.evaluate(ELSEWHERE, str(IMAGES.parents[1]))
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    if shutil.which("pngquant"):
        subprocess.run(["pngquant", "--force", "--ext=.png", "--speed=1", "--strip", str(COLORS), path], check=True)


def addresses(app: Headrace) -> dict[str, str]:
    """The pictures by their names."""
    waiting = app.jobs.find(state="pending", queue="images", limit=1)[0]
    return {
        "overview": "/",
        "queue": "/queues/emails",
        "workers": "/workers",
        "worker": f"/workers/{app.workers()[0].id}",
        "job-running": f"/jobs/{app.jobs.find(state='running', limit=1)[0].id}",
        "job-why": f"/jobs/{waiting.id}",
        "flow": f"/flows/{app.flows.list(1)[0].id}",
        "dead": "/dead",
        "dead-letter": f"/dead/{app.dead.list(queue='billing', limit=1)[0].id}",
        "schedules": "/schedules",
        "schedule": "/schedules/month-end",
        "alerts": "/alerts",
        "rule": "/alerts/rules/mail-fails",
        "lifecycle": "/lifecycle",
        "system": "/system",
    }


def main() -> None:
    logging.disable(logging.CRITICAL)
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/jobs.db"
        live_an_hour(url)
        with living(url) as app, serve(app) as site, open_browser() as browser:
            page = browser.new_page(viewport=SIZE, locale="en-US")
            pictures: dict[str, dict[str, Any]] = {name: {"path": path} for name, path in addresses(app).items()}
            pictures["overview-dark"] = {"path": "/", "scheme": "dark"}
            pictures["overview-phone"] = {"path": "/", "size": PHONE}
            for name in sys.argv[1:] or pictures:
                how = pictures[name]
                shoot(page, site.url + how.pop("path"), name, **how)


if __name__ == "__main__":
    main()
