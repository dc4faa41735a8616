"""The app that the fault tests' worker processes run; its store is named by HEADRACE_URL."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any

from headrace import Headrace, PermanentError, Retry, current_job, current_jobs
from tests.support.plain_databases import connect, transaction

app = Headrace()


@app.task
def touch(n: int) -> int:
    """A short job with a trace of each run outside of the store."""
    time.sleep(0.001)
    return n * 2


@app.task(retry=5)
def hold(folder: str) -> str:
    """Tells that it began, then works until it is allowed to go on."""
    ctx = current_job()
    Path(folder, f"began-{ctx.attempt}").write_text(str(os.getpid()))
    while not Path(folder, f"go-{ctx.attempt}").exists():
        time.sleep(0.01)
    return f"attempt {ctx.attempt}"


@app.task(retry=20)
def poison() -> None:
    """Kills its worker."""
    os.kill(os.getpid(), 9)


@app.task(retry=0)
def once(folder: str, number: int, deadly: int) -> None:
    """Leaves a trace, and kills its worker when so many have."""
    with Path(folder, "traces").open("a") as file:
        file.write(f"{number}\n")
    if len(Path(folder, "traces").read_text().split()) >= deadly:
        with contextlib.suppress(FileExistsError):  # the first to see so many; two at once may both see one more
            Path(folder, "killed").touch(exist_ok=False)
            os.kill(os.getpid(), 9)


@app.task(batch=50, within=0.5, retry=100)
def gather(items: list[str]) -> list[str]:
    """Leaves a trace of each run of a batch in the folder of its first item."""
    folder = items[0].partition(" ")[0]
    with Path(folder, "traces").open("a") as file:
        file.write(f"{len(items)}\n")
    time.sleep(0.02)
    while Path(folder, "hold").exists():
        time.sleep(0.01)
    return [f"{item} {job.id}" for item, job in zip(items, current_jobs(), strict=True)]


@app.task(isolation="process", timeout=60)
def boxed(folder: str) -> str:
    Path(folder, "child").write_text(str(os.getpid()))
    while not Path(folder, "go").exists():
        time.sleep(0.01)
    return "done"


@app.task(retry=5)
def talk(folder: str) -> int:
    """Streams without a pause until it is allowed to end."""
    ctx = current_job()
    number = 0
    while number < 50 or not Path(folder, f"go-{ctx.attempt}").exists():
        number += 1
        ctx.stream(f"attempt {ctx.attempt} chunk {number}")
        time.sleep(0.002)
    return number


def _leave_trace(folder: str, name: str) -> str:
    """What a step does out in the world, where no store takes it back."""
    with Path(folder, "traces").open("a") as file:
        file.write(f"{name}\n")
    return f"{name} done"


def _leave_trace_and_hang(folder: str, name: str) -> str:
    told = _leave_trace(folder, name)
    while not Path(folder, "go").exists():
        time.sleep(0.01)
    return told


@app.task(retry=10)
def journey(folder: str) -> list[str]:
    """Three steps, with a stop behind each of them."""
    told = []
    for name in ("one", "two", "three"):
        told.append(current_job().step(name, _leave_trace, folder, name))
        Path(folder, f"behind-{name}").touch()
        while not Path(folder, f"on-from-{name}").exists():
            time.sleep(0.01)
    return told


@app.task(retry=10)
def cut_short(folder: str) -> list[str]:
    """Two steps, of which the second one hangs in its middle."""
    job = current_job()
    return [job.step("one", _leave_trace, folder, "one"), job.step("two", _leave_trace_and_hang, folder, "two")]


@app.task(retry=100)
def long_journey(folder: str, name: str) -> int:
    """Many short steps, and a nap and an event among them."""
    job = current_job()
    for n in range(20):
        job.step(f"{n}", _leave_trace, folder, f"{name}-{n}")
        time.sleep(0.02)
        if n == 10:
            job.sleep(0.01)
    return int(job.wait_event("arrive"))


@app.task(retry=100)
def cancel_stop(folder: str, name: str) -> None:
    _leave_trace(folder, name)
    time.sleep(0.02)


@app.task(retry=100)
def tour(folder: str, name: str) -> None:
    """Six steps, each of which can be undone, and then a failure for good."""
    job = current_job()
    for n in range(6):
        job.step(f"{n}", _leave_trace, folder, f"{name}-{n}")
        job.compensate(f"{n}", cancel_stop.bind(folder, f"no-{name}-{n}"))
        time.sleep(0.02)
    raise PermanentError("the coach broke down")


@app.task(retry=100)
def book(number: int) -> int:
    """Writes a row of its own, once, in the database of the jobs."""
    with contextlib.closing(connect(app.settings.url)) as db, transaction(db):
        booked = current_job().step_in(db, "book", _book, db, number)
        time.sleep(0.01)
    time.sleep(0.01)
    return booked


def _book(db: Any, number: int) -> int:
    db.execute(f"INSERT INTO bookings (number) VALUES ({number:d})")
    return number


@app.task(retry=100)
def interview(name: str) -> list[int]:
    """Asks five questions, one after the other."""
    job = current_job()
    return [job.wait_event("number", ask=f"{name} {n}", answer=int) for n in range(5)]


@app.task(retry=Retry(limit=50, backoff="fixed", base=0.01, never=(PermanentError,)))
def fated(fate: str) -> str:
    """Ends as it was told: done, flaky (done at the second attempt) or lost."""
    time.sleep(0.003)
    if fate == "lost":
        raise PermanentError("as it was told")
    if fate == "flaky" and current_job().attempt < 2:
        raise OSError("not yet")
    return fate


@app.task(retry=5)
def spend(folder: str, units: int) -> str:
    """Reports what it used, tells that it has, and works until it is allowed to go on."""
    ctx = current_job()
    ctx.report_cost(units)
    Path(folder, f"spent-{ctx.attempt}").touch()
    while not Path(folder, f"go-{ctx.attempt}").exists():
        time.sleep(0.01)
    return f"attempt {ctx.attempt}"


if __name__ == "__main__":
    sys.exit(app.run_worker())
