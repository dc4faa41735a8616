"""The tasks of `headrace demo --web`: a small shop with customers, in a module that its workers can import.

Its customers are a schedule, so the shop lives as long as a worker does. Which order fails is decided by its number.
The store is the one in HEADRACE_URL; the demo sets it to a temporary file before the import.
"""

from __future__ import annotations

import asyncio
import random
import time

from headrace.app.app import Headrace
from headrace.core.tasks.retry import Retry
from headrace.core.tasks.unique import Unique
from headrace.errors import PermanentError
from headrace.runtime.context.current_job import current_job

app = Headrace()
ITEMS = ("tea", "kettle", "cup", "sugar", "spoon")
CITIES = ("Graz", "Linz", "Wien", "Imst", "Lech")
_number = random.Random(4711)
_SOON = Retry(limit=3, backoff="exponential", base=1.0, cap=10.0)


@app.every(seconds=2, name="customers", overlap="skip")
@app.task(queue="shop")
def customers() -> int:
    """Enqueues the flows of a few new orders, and an upload now and then."""
    first = int(time.time() * 10) % 1_000_000
    count = _number.randint(1, 4)
    for order in range(first, first + count):
        enqueue_order(order)
    if _number.random() < 0.3:
        resize.enqueue(f"{_number.choice(ITEMS)}-{first}.jpg")
    return count


def enqueue_order(order: int) -> None:
    """An order is a flow: charge, then pack and mail side by side, then ship."""
    item, city = ITEMS[order % len(ITEMS)], CITIES[order % len(CITIES)]
    flow = app.flow(f"order {order}")
    receipt = flow.add(charge.bind(order, 4.5 + order % 40, card=f"4000-{order % 10_000:04}"))
    parcel = flow.add(pack.bind(order, item)).after(receipt)
    flow.add(send_mail.bind(receipt, to=f"customer{order % 50}@example.com"))
    flow.add(ship.bind(parcel, city))
    flow.enqueue()


@app.task(queue="payments", retry=_SOON, redact=("card",), timeout=30)
def charge(order: int, amount: float, card: str) -> str:
    """Some cards are declined for good; the bank is away for some first attempts."""
    time.sleep(_number.uniform(0.02, 0.2))
    if order % 19 == 5:
        raise PermanentError(f"card declined: order {order} can't be charged")
    if order % 6 == 1 and current_job().attempt == 1:
        raise ConnectionError("the bank does not answer")
    return f"receipt {order}: {amount:.2f}"


@app.task(queue="warehouse", retry=_SOON)
def pack(order: int, item: str) -> str:
    """Writes log lines and progress."""
    job = current_job()
    job.log(f"packing {item}", order=order)
    for part in range(4):
        time.sleep(_number.uniform(0.05, 0.3))
        job.progress((part + 1) / 4)
    return f"parcel {order} ({item})"


@app.task(queue="warehouse", retry=_SOON)
def ship(parcel: str, city: str) -> str:
    """The last job of an order."""
    time.sleep(_number.uniform(0.02, 0.1))
    return f"{parcel} to {city}"


@app.task(queue="mail", retry=Retry(limit=2, backoff="fixed", base=1.0))
async def send_mail(text: str, to: str) -> None:
    """A coroutine; the queue has a rate. One address is wrong every time."""
    await asyncio.sleep(0.05)
    if to.startswith("customer13@"):
        raise ConnectionRefusedError(f"the server of {to} refused the mail")


@app.task(queue="images")
def resize(name: str) -> str:
    """Waits: the queue of images is paused."""
    return f"small {name}"


@app.task(queue="models", needs=("gpu",))
def train(model: str) -> None:
    """Waits: no worker has a GPU, and `headrace why` says so."""


@app.task(queue="reports")
def import_catalog(pages: int) -> int:
    """A slow job in steps: a retry continues after the last one."""
    job = current_job()
    for page in range(pages):
        job.step(f"page {page}", time.sleep, 0.5)
        job.progress((page + 1) / pages)
    return pages


@app.every(seconds=20, name="stock")
@app.task(queue="reports", unique=Unique())
def stock() -> dict[str, int]:
    """Counts the stock."""
    return {item: _number.randint(0, 99) for item in ITEMS}


@app.cron("0 9 * * MON", tz="Europe/Vienna", name="weekly-report")
@app.task(queue="reports")
def weekly_report() -> str:
    """Runs on Mondays at nine."""
    return "all is well"


def fill() -> None:
    """What the shop has at its start: rules, a pause, and jobs of every kind."""
    app.queue("mail").configure(rate="5/s", burst=5)
    app.queue("payments").configure(concurrency=4)
    app.queue("images").pause()
    for order in range(95, 120):
        enqueue_order(order)
    app.enqueue_many([resize.bind(f"{item}.jpg") for item in ITEMS])
    train.enqueue("recommendations")
    import_catalog.enqueue(40)
    stock.using(delay=3600, unique=None).enqueue()
