"""One damaged record costs one job, and never a list, a page or a queue: whatever is damaged, and however."""

from __future__ import annotations

import itertools
import random
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from headrace import Headrace, HeadraceError, Retry, chain, current_job
from headrace.app.transfer.dependencies import flow_pages
from headrace.testing import drain
from headrace.web.api.router import ENDPOINTS, PREFIX
from tests.support.builders import worker_row
from tests.support.damage import spoil, values_of
from tests.support.engines import KINDS
from tests.support.waiting import eventually
from tests.surfaces.web.client import Client

QUEUES = ("plain", "ruled")
PAGES = (
    *("/", "/jobs", "/jobs?state=pending", "/jobs?text=a", "/queues", "/queues/plain", "/workers", "/workers/w1"),
    *("/dead", "/schedules", "/schedules/tick", "/flows", "/alerts", "/alerts/rules", "/lifecycle", "/system"),
    "/webhooks",
)


@contextmanager
def store(engine_name: str, folder: Path) -> Iterator[tuple[Headrace, str]]:
    kind = KINDS[engine_name]
    address = kind.create(folder)
    url = kind.url(address)
    with Headrace(url, heartbeat=1.0, shutdown_timeout=5.0) as app:
        register(app)
        yield app, url
    kind.discard(address)


def register(app: Headrace) -> None:
    @app.task(name="add")
    def add(a: int, b: int = 1) -> int:
        current_job().progress(0.5)
        current_job().log("adds", a=a)
        return current_job().step("sum", lambda: a + b)

    @app.task(name="refuse", retry=0)
    def refuse(order: int) -> None:
        raise OSError(f"order {order} has no address")

    @app.task(name="stumble", retry=Retry(limit=3, backoff="fixed", base=3600))
    def stumble() -> None:
        raise ConnectionError("the line was busy")


def furnish(app: Headrace) -> None:
    """Some records of every kind a store has, several of each of jobs."""
    add, refuse, stumble = (app.task_by_name(name) for name in ("add", "refuse", "stumble"))
    queue = app.queue("ruled")
    queue.configure(concurrency=100, weight=2, key_concurrency=50)
    app.configure_task("add", concurrency=100)
    app.lifecycle.configure(queue="plain", max_waiting=7200)
    app.engine.register_worker(worker_row("w1", started_at=app.clock.now(), seen_at=app.clock.now())).close()
    for name in QUEUES:
        add.using(queue=name, tags=["red", "blue"], metadata={"user": "ann"}).enqueue(1)
        refuse.using(queue=name, tags=["red"], timeout=30).enqueue(7)
    stumble.using(queue="plain").enqueue()
    chain(add.using(queue="plain").bind(1), add.using(queue="plain").bind(b=2)).enqueue()
    drain(app)
    [letter, *_] = app.dead.list()
    app.dead.note(letter.id, "looked at it", by="ann")
    app.schedules.create("tick", "add", args=[5], every=3600)
    app.schedules.run_now("tick")
    app.alerts.rules.create("long", when="depth > 1000", severity="info")
    app.webhooks.create("https://example.com/hook")
    parent = add.using(queue="plain", delay=3600).enqueue(1)
    add.using(queue="plain", after=[parent]).enqueue(2)
    for name in QUEUES:
        for n in range(3):
            add.using(queue=name, tags=["green"], metadata={"n": n}, timeout=60, expires=7200).enqueue(n)
        add.using(queue=name, concurrency_key="ann").enqueue(4)
        add.using(queue=name, unique=True).enqueue(40)
        add.using(queue=name, delay=3600).enqueue(5)
    add.using(queue="plain").enqueue(1).cancel()


class Trial:
    """What goes wrong with one damaged record."""

    def __init__(self, app: Headrace, folder: Path, kind: str, owner: str | None = None) -> None:
        self._app = app
        self._folder = folder
        self._kind = kind
        self._owner = owner
        self.found: list[str] = []

    def all(self, ids: list[str]) -> list[str]:
        app = self._app
        ids = sorted(ids, key=lambda job_id: job_id != self._owner)
        for name, look in looks(app).items():
            self._try(name, look)
        for job_id in ids:
            self._try("job", partial(look_at, app, job_id))
        self._surfaces(ids[:2])
        self._try("work", self._work)
        self._try("check", lambda: app.admin.check(deep=True))
        self._try("repair", app.admin.repair)
        self._try("check again", lambda: app.admin.check(deep=True))
        for name, look in looks(app).items():
            self._try(f"{name} afterwards", look)
        self._surfaces(ids[:2])
        self._try("backup", lambda: app.admin.backup(self._folder / "copy.db"))
        self._try("resolve", lambda: [app.dead.resolve(letter.id, "manually_resolved") for letter in app.dead.list()])
        self._try("delete", self._delete)
        self._try("delete schedules", self._delete_schedules)
        return self.found

    def _try(self, what: str, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            places = [f for f in traceback.extract_tb(error.__traceback__) if "headrace/" in f.filename]
            place = places[-1] if places else last
            where = f"{place.filename.rpartition('headrace/')[2]}:{place.lineno} {place.name}"
            self.found.append(f"{what}: {type(error).__name__} at {where}: {str(error)[:160]}")

    def _surfaces(self, ids: list[str]) -> None:
        there = Client(self._app.asgi(rate=None))
        ids = [quote(job_id, safe="") for job_id in ids]
        dead_letters = [quote(letter.id, safe="") for letter in self._safe(self._app.dead.list)]
        paths = [endpoint.path for endpoint in ENDPOINTS if endpoint.method == "GET" and "events" not in endpoint.path]
        paths = [PREFIX + path for path in paths if "{" not in path and "preview" not in path]
        paths += [f"{PREFIX}/jobs/{job_id}" for job_id in ids]
        paths += [f"{PREFIX}/dead/{letter}" for letter in dead_letters]
        paths += [f"{PREFIX}/queues/{queue}{more}" for queue in QUEUES for more in ("", "/peek")]
        paths += [f"{PREFIX}/schedules/tick", f"{PREFIX}/schedules/tick/history", f"{PREFIX}/workers/w1"]
        paths += [*PAGES, *(f"/jobs/{job_id}" for job_id in ids), *(f"/dead/{letter}" for letter in dead_letters)]
        for path, answer in zip(paths, there.get_each(paths), strict=True):
            self._try(path_kind(path), partial(check_answer, answer))

    def _safe(self, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except Exception:
            return []

    def _work(self) -> None:
        """A worker runs what was enqueued behind the damaged one."""
        add = self._app.task_by_name("add")
        # Rules that are still whole, but other ones, may hold back a queue or a task.
        of_queue, of_task = "queues" in self._kind or "rule" in self._kind, "tasks" in self._kind
        queues: Sequence[str] = () if of_task else ("other",) if of_queue else QUEUES
        behind = [add.using(queue=queue).enqueue(n) for queue in queues for n in (1, 2)]
        with self._app.worker(concurrency=2):
            eventually(lambda: all(job.refresh().state == "completed" for job in behind))

    def _delete(self) -> None:
        app = self._app
        app.jobs.delete(ids=[job.id for job in app.jobs.find(limit=1000)])
        left = [job for job in app.jobs.find(limit=1000) if job.state != "running"]
        assert not left, f"{len(left)} jobs can't be deleted: {left}"

    def _delete_schedules(self) -> None:
        app = self._app
        assert all(app.schedules.delete(one.id) for one in app.schedules.list())


def check_answer(answer: httpx.Response | Exception) -> None:
    if isinstance(answer, Exception):
        raise answer
    assert answer.status_code < 500, f"{answer.status_code} {answer.text[:300]}"


def path_kind(path: str) -> str:
    return "/".join(part if len(part) < 20 else "…" for part in path.split("/"))


def looks(app: Headrace) -> dict[str, Callable[[], object]]:
    return {
        "find": lambda: [tell(job) for job in app.jobs.find(limit=1000)],
        "find by tag": lambda: app.jobs.find(tag="green"),
        "find by text": lambda: app.jobs.find(text="ann"),
        "count": lambda: (app.jobs.count(), app.jobs.count(state="pending"), app.jobs.count(text="a")),
        "peek": lambda: [app.queue(name).peek(100) for name in QUEUES],
        "queues": lambda: (app.queues(), [app.queue(name).rules for name in QUEUES]),
        "tasks": app.task_rules,
        "workers": app.workers,
        "dead": lambda: [(letter, app.dead.get(letter.id), app.dead.history(letter.id)) for letter in app.dead.list()],
        "dead counts": lambda: (app.dead.groups(), app.dead.stats(), app.dead.count()),
        "schedules": lambda: [histories_of(app, one.id) for one in app.schedules.list()],
        "flows": lambda: [(run.state, run.jobs) for run in app.flows.list()],
        "alerts": lambda: (app.alerts.rules.list(), app.alerts.evaluate(), app.alerts.active()),
        "webhooks": app.webhooks.list,
        "metrics": app.metrics.snapshot,
        "lifecycle": lambda: (app.lifecycle.policies(), app.lifecycle.detect_stale(), app.lifecycle.archive()),
        "ages": lambda: (app.lifecycle.ages(), app.lifecycle.stats()),
        "events": lambda: list(app.events(follow=False)),
        "check": lambda: app.admin.check(deep=True),
    }


def histories_of(app: Headrace, schedule_id: str) -> object:
    # A name of SQLite that is no text can be read, but not asked for until it is repaired.
    return [] if "\ufffd" in schedule_id else app.schedules.history(schedule_id)


def tell(job: Any) -> object:
    return (job, job.state, job.created_at, job.run_at, job.finished_at, job.started_at, job.expires_at, job.tags)


def look_at(app: Headrace, job_id: str) -> None:
    try:
        job = app.jobs.get(job_id)
    except HeadraceError:
        return  # it has another id now
    tell(job)
    if job.id != job_id:
        return  # its record names another one
    job.refresh().why()
    _ = job.history(), job.logs(), job.errors, job.metadata, job.correlation_id, job.parents(), job.children()


def attempt(engine_name: str, folder: Path, chance: random.Random, kinds: Sequence[str] = ()) -> tuple[str, list[str]]:
    """Damage one value of a new store, of one of these kinds or of any; what it was, and what goes wrong."""
    with store(engine_name, folder) as (app, url):
        furnish(app)
        ids = [job.id for job in app.jobs.find(limit=1000)]
        values = values_of(url)
        kind = chance.choice(kinds or sorted({value.kind for value in values}))
        value = chance.choice([value for value in values if value.kind == kind])
        new = spoil(value.held, chance)
        try:
            value.put(new)
        except Exception as error:  # a constraint of the database
            return f"{value.kind}: refused, {error}", []
        return f"{value.kind}: {value.held!r} -> {new!r}", Trial(app, folder, value.kind, value.job).all(ids)


# What most of a store is, and what a worker reads in every turn.
_USUAL = {
    "sqlite": [f"headrace_jobs.{name}" for name in ("payload", "options", "tags", "metadata", "lane", "created_at")],
    "postgres": [f"headrace_jobs.{name}" for name in ("payload", "options", "tags", "metadata", "lane", "created_at")],
    "redis": ["jobs", "payloads"],
}


def test_a_damaged_job_costs_no_other_job_and_no_page(engine_name: str, folder: Path, chance: random.Random) -> None:
    what, found = attempt(engine_name, folder, chance, _USUAL[engine_name])
    assert not found, "\n".join([what, *found])


@pytest.mark.slow
@pytest.mark.every_engine
def test_whatever_is_damaged_costs_one_job_at_most(engine_name: str, folder: Path, chance: random.Random) -> None:
    for number in range(8):
        place = folder / str(number)
        place.mkdir()
        what, found = attempt(engine_name, place, chance)
        assert not found, "\n".join([what, *found])


def _swapped(record: bytes) -> bytes:
    return record[len(record) // 2 :] + record[: len(record) // 2]


def _with_another_id(record: bytes) -> bytes:
    dash = record.index(b"-")
    return record[: dash - 1] + b"\xba" + record[dash:]


def _with_other_names(record: bytes) -> bytes:
    return _with_another_id(record).replace(b"\xa5plain", b"\xa5plamn").replace(b"\xa3add", b"\xa3\xe1dd")


@pytest.mark.slow
@pytest.mark.engines("redis")
@pytest.mark.parametrize(
    ("state", "task", "damaged"),
    [
        (b"completed", b"add", _swapped),
        (b"failed", b"refuse", _with_another_id),
        (b"pending", b"add", _with_other_names),
        (b"pending", b"add", lambda record: record.replace(b"plain", b"plamn").replace(b"\xa3add", b"\xa3aed")),
    ],
)
def test_a_job_that_tells_something_else_costs_no_other_job(
    engine_name: str, folder: Path, state: bytes, task: bytes, damaged: Callable[[bytes], bytes]
) -> None:
    with store(engine_name, folder) as (app, url):
        furnish(app)
        ids = [job.id for job in app.jobs.find(limit=1000)]
        [flow] = app.flows.list()
        of_flow = {job.id for job in app.jobs.find(flow=flow.id)}
        jobs = [value for value in values_of(url) if value.kind == "jobs" and value.held[1:].startswith(state)]
        jobs = [value for value in jobs if b"\xa5plain" in value.held and task in value.held]
        value = next(value for value in jobs if (value.job in of_flow) == (state == b"completed"))
        value.put(damaged(value.held))
        assert not Trial(app, folder, "jobs", value.job).all(ids)


@pytest.mark.engines("sqlite")
def test_a_flow_whose_id_is_no_text_is_not_told_without_end(engine_name: str, folder: Path) -> None:
    with store(engine_name, folder) as (app, url):
        furnish(app)
        [value] = [value for value in values_of(url) if value.kind == "headrace_flows.id"]
        value.put(value.held[:-1] + "\xba")
        assert len(list(itertools.islice(flow_pages(app.engine.flow_store), 5))) < 5
