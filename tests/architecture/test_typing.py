"""A user's type checker knows what a job gives back, and finds the mistakes that can be found without running."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.slow

SRC = Path(__file__).parents[2] / "src"

RIGHT = """
from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack, assert_type

from headrace import (
    INJECTED, AttemptError, Call, Headrace, HistoryEntry, Job, JobContext, JobPage, LogEntry, Queue, QueueStats, Retry,
    State, TaskOptions, Worker, WorkerInfo, current_job, current_jobs,
)
from headrace.testing import VirtualClock, adrain, assert_enqueued, drain, enqueued, inline, isolated

app = Headrace("memory://", concurrency="auto", queues={"emails": 3}, keep_failed=None, clock=VirtualClock())


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task
async def fetch(url: str) -> bytes:
    return url.encode()


@app.task(name="emails.send", queue="emails", priority=5, timeout=30, tags=("mail",), redact=("subject",),
          retry=Retry(limit=5, backoff=[1, 5], on=(OSError,), never=(ValueError,)))
def send(to: str, subject: str = "") -> None: ...


@app.task(timeout=timedelta(minutes=1), retry=3)
async def crawl(depth: int) -> list[str]:
    return [str(depth)]


@app.task(batch=10, within=0.5, queue="models")
def embed(texts: list[str]) -> list[float | Exception]:
    return [1.0 for _ in texts]


@app.task(batch=10)
async def aembed(texts: list[str], pool: int = INJECTED) -> list[float]:
    return [1.0 for _ in texts]


@app.task(batch=10)
def store(rows: list[int]) -> None: ...


assert_type(embed.enqueue("x").result(), float)
assert_type(aembed.enqueue("x").result(), float)
assert_type(store.enqueue(5).result(), None)
store([1, 2])
assert_type([job.id for job in current_jobs()], list[str])


@app.cron("0 9 * * MON", tz="Europe/Vienna", catch_up="latest", queue="reports")
def report() -> str:
    return ""


@app.every(minutes=5, args=(1,), overlap="skip")
def poll(depth: int) -> int:
    return depth


assert_type(report.enqueue().result(), str)
assert_type(poll.enqueue(1).result(), int)


# Wrappers pass options on.
def billing_task(**options: Unpack[TaskOptions]) -> Any:
    return app.task(name="billing", **options)


# Hooks and providers keep their types.
@app.on_worker_start
def connect() -> None: ...


@app.on_worker_stop
async def disconnect(worker: Worker) -> None: ...


@app.around_attempt
def timed(job: JobContext) -> Iterator[None]:
    yield


@app.around_attempt
async def traced(job: JobContext) -> AsyncIterator[None]:
    yield


@app.around_attempt
@contextmanager
def managed(job: JobContext) -> Iterator[None]:
    yield


@app.around_enqueue
def tagged(call: Call[Any]) -> Generator[Call[Any], Job[Any], None]:
    assert_type((yield call.using(tags=["eu"])), Job[Any])


class Pool: ...


@app.provide(per="worker")
async def pool() -> AsyncIterator[Pool]:
    yield Pool()


@app.task
def charge(order: int, pool: Pool = INJECTED) -> int:
    return order


assert_type(charge.enqueue(7), Job[int])
assert_type(charge(7, Pool()), int)

# A plain call is a plain call.
assert_type(add(1, 2), int)
waiting = fetch("x")
assert_type(waiting, Coroutine[Any, Any, bytes]).close()

# A job knows what it will give back; that of an `async def` its value, not a coroutine.
assert_type(add.enqueue(1, 2), Job[int])
assert_type(add.enqueue(1, 2).result(), int)
assert_type(add.enqueue(1, 2).result(timeout=5), int)
assert_type(fetch.enqueue("x").result(), bytes)
assert_type(crawl.enqueue(3).result(), list[str])

# Options keep the types.
assert_type(add.using(priority=9, delay=60, tags={"env": "prod"}).enqueue(1, 2).result(), int)
assert_type(crawl.using(queue="slow").enqueue(1).result(), list[str])
assert_type(crawl.using(after=add.enqueue(1, 2), run_at=datetime.now(UTC)).enqueue(1).result(), list[str])
assert_type(send("a", subject="b"), None)
assert_type(app.enqueue_many([add.bind(n, n) for n in range(3)]), list[Job[int]])

job: Job[int] = add.enqueue(1, 2)
assert_type(job.state, State)
assert_type(job.id, str)
assert_type(job.args, tuple[Any, ...])
assert_type(job.kwargs, dict[str, Any])
assert_type(job.created_at, datetime)
assert_type(job.finished_at, datetime | None)
assert_type(job.worker, str | None)
assert_type(job.tags, tuple[str, ...])
assert_type(job.errors, list[AttemptError])
assert_type(job.history(), list[HistoryEntry])
assert_type(job.logs(), list[LogEntry])
assert_type(job.refresh(), Job[int])
assert_type(job.cancel(), bool)
assert_type(job.update(priority=3, run_at=datetime.now(UTC)), bool)
assert_type(job.why(), str)
assert_type(app.enqueue("emails.send", to="a"), Job[Any])
assert_type(app.jobs.get("x"), Job[Any])
assert_type(app.jobs.find(state="failed"), JobPage)
assert_type(app.jobs.find()[0], Job[Any])
assert_type([found.id for found in app.jobs.find()], list[str])
assert_type(app.jobs.count(), int)
assert_type(app.queue("emails"), Queue)
assert_type(app.queue("emails").stats(), QueueStats)
assert_type(app.queue("emails").peek(), list[Job[Any]])
assert_type(app.workers(), list[WorkerInfo])


async def main() -> None:
    assert_type(await add.aenqueue(1, 2), Job[int])
    assert_type(await job, int)
    assert_type(await job.aresult(5), int)
    assert_type(await (await fetch.aenqueue("x")), bytes)
    assert_type(await job.acancel(), bool)
    assert_type(await job.arefresh(), Job[int])
    assert_type(await app.jobs.acount(), int)
    assert_type(await app.aenqueue_many([crawl.bind(1)]), list[Job[list[str]]])
    assert_type(await adrain(app), int)
    assert_type(await current_job().astep("get", fetch.function, "x"), bytes)
    assert_type(await current_job().astep("sum", add, 1, b=2), int)
    assert_type(await app.asignal("id", "paid"), bool)
    async with app as same:
        assert_type(same, Headrace)


def inside() -> None:
    ctx = current_job()
    assert_type(ctx, JobContext)
    assert_type(ctx.step("sum", add, 1, b=2), int)
    assert_type(ctx.sleep(timedelta(days=1)), None)
    assert_type(ctx.attempt, int)
    assert_type(ctx.deadline, datetime | None)
    assert_type(ctx.cancel_requested, bool)
    ctx.progress(0.5)
    ctx.progress({"done": 3})
    ctx.log("text", level="info", rows=3)


with app as opened, opened.worker(concurrency=4) as worker:
    assert_type(worker, Worker)
with inline(app), isolated(app) as clock:
    assert_type(clock, VirtualClock)
    clock.advance(60)
    assert_type(drain(app), int)
    assert_type(enqueued(app, add), list[Job[Any]])
    assert_enqueued(app, add, args=(1, 2), queue="default", count=1)
assert_type(isolated(app, VirtualClock()), AbstractContextManager[VirtualClock])
"""

WRONG = """
from __future__ import annotations

from headrace import Headrace, Retry, current_job

app = Headrace("memory://")
Headrace("memory://", concurency=4)  # wrong: call-arg
Headrace("memory://", durability="some")  # wrong: arg-type
app.worker(qeues=["emails"])  # wrong: call-arg
app.worker(lease="long")  # wrong: arg-type
app.worker(url="memory://")  # wrong: call-arg
app.asgi(aut=["ann:secret"])  # wrong: call-arg
app.cron("* * * * *", timezone="UTC")  # wrong: call-arg
app.every(minute=5)  # wrong: call-arg
app.task(qeue="emails")  # wrong: call-overload
app.task(run_at=None)  # wrong: call-overload
app.task(priority="high")  # wrong: call-overload
app.task(within=1)  # wrong: call-overload
app.task(batch="10")  # wrong: call-overload


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task(priority=5)
async def fetch(url: str) -> bytes:
    return url.encode()


@app.task(batch=10)
def embed(texts: list[str]) -> list[float]:
    return [1.0 for _ in texts]


embed.enqueue(5)  # wrong: arg-type
embed.enqueue()  # wrong: call-arg


@app.around_attempt  # wrong: type-var
def measured() -> None: ...


@app.around_enqueue  # wrong: type-var
def tagged(call: int) -> None: ...


@app.on_worker_start  # wrong: type-var
def connect(host: str) -> None: ...


app.provide(per="day")  # wrong: call-overload
add("1", 2)  # wrong: arg-type
add(1)  # wrong: call-arg
add.enqueue("1", 2)  # wrong: arg-type
add.using(priority=9).enqueue(1)  # wrong: call-arg
add.using(qeue="emails")  # wrong: call-arg
add.using(countdown=5)  # wrong: call-arg
add.using(delay="5 minutes")  # wrong: arg-type
add.using(rate="10/s")  # wrong: call-arg
add.bind(1, 2).using(priorty=3)  # wrong: call-arg
fetch.aenqueue(5)  # wrong: arg-type
text: str = add.enqueue(1, 2).result()  # wrong: assignment
fetch.enqueue("x").result().decode().upper().nothing  # wrong: attr-defined
add.enqueue(1, 2).status  # wrong: attr-defined
Retry(limits=3)  # wrong: call-arg
Retry(backoff="quadratic")  # wrong: arg-type
current_job().progress("half")  # wrong: arg-type
current_job().step("sum", add, "1", 2)  # wrong: arg-type
app.enqueue_many(5)  # wrong: arg-type
app.jobs.find(5)  # wrong: call-arg


async def main() -> None:
    number: str = await add.enqueue(1, 2)  # wrong: assignment
"""


def mypy(folder: Path, text: str) -> list[str]:
    """What mypy --strict finds in a user's file, a line for each error."""
    (folder / "user.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary", "--hide-error-context"]
    ran = subprocess.run(
        [*command, f"--cache-dir={folder}/cache", "user.py"],
        cwd=folder, env={**os.environ, "MYPYPATH": str(SRC)}, capture_output=True, text=True,
        timeout=4 * PATIENCE, check=False,
    )  # fmt: skip
    assert not ran.stderr, ran.stderr
    return [line for line in ran.stdout.splitlines() if ": note:" not in line]


def pyright(folder: Path, text: str) -> dict[int, str]:
    """What pyright finds in a user's file, by line. basedpyright is pyright in a package that needs no npm."""
    (folder / "user.py").write_text(text)
    settings = {"typeCheckingMode": "standard", "include": ["user.py"], "extraPaths": [str(SRC)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=4 * PATIENCE, check=False)
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    return {
        problem["range"]["start"]["line"] + 1: problem["message"]
        for problem in json.loads(ran.stdout)["generalDiagnostics"]
        if problem["severity"] == "error"
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder, so that the second run finds the first one's cache."""
    return tmp_path_factory.mktemp("user")


EXPECTED = {
    number: match[1]
    for number, line in enumerate(WRONG.splitlines(), 1)
    if (match := re.search(r"# wrong: (.+)$", line))
}


def test_right_code_is_right_and_every_type_is_the_expected_one(folder: Path) -> None:
    assert mypy(folder, RIGHT) == []


def test_mistakes_are_found_where_they_are_made(folder: Path) -> None:
    found = {}
    for line in mypy(folder, WRONG):
        match = re.fullmatch(r"user\.py:(\d+): error: .*\[([\w-]+)\]", line)
        assert match, line
        found[int(match[1])] = match[2]
    assert found == EXPECTED


def test_pyright_finds_the_same(folder: Path) -> None:
    assert pyright(folder, RIGHT) == {}
    found = pyright(folder, WRONG)
    assert found.keys() == EXPECTED.keys(), found
