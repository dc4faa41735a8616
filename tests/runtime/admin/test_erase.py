"""Erasing a person: a marked text is stored in every place, and then it is nowhere; what others stored stays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from headrace import Headrace, PermanentError, Retry, Unique, chain, current_job
from headrace.app.admin import erasure
from headrace.app.admin.erasure import KIND, Erasure
from headrace.core.clock import to_datetime
from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.documents import Document
from headrace.core.events.event import Event
from headrace.core.events.webhooks import WebhookRow
from headrace.core.jobs.budgets import FlowSpending, decode_flow
from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import Trigger
from headrace.core.jobs.transfer import JobExport
from headrace.core.retention.archive import row_of
from headrace.errors import InvalidJob
from tests.conformance.events.reading import read_events
from tests.support.builders import new_job, want
from tests.support.raw_contents import places_of
from tests.support.waiting import eventually

ANN, BOB = "ann@example.com", "bob@example.com"
TAGS = {ANN: "user:42", BOB: "user:7"}
SECONDS = 20


@pytest.fixture
def store(url: str, folder: Path) -> str:
    return f"sqlite:///{folder / 'q.db'}" if url == "memory://" else url


@pytest.fixture
def app(store: str, folder: Path) -> Iterator[Headrace]:
    elsewhere = f"sqlite:///{folder / 'archive.db'}" if store.startswith("redis") else None
    with Headrace(store, heartbeat=0.2, lease=2.0, shutdown_timeout=5.0, archive_url=elsewhere) as app:
        yield app


def leave_traces(app: Headrace, who: str) -> None:
    """Store the address of this person wherever a text of a job may be."""
    tag = TAGS[who]

    @app.task(name="tell")
    def tell(*names: str) -> str:
        job, who = current_job(), names[-1]
        job.log(f"mail to {who}", to=who)
        job.progress({"to": who})
        job.stream(f"hello {who}")
        job.step(who, lambda: who)
        return who

    @app.task(name="ask")
    def ask(who: str) -> None:
        current_job().wait_event("approval", ask=f"Mail {who}?", to=who, answer=str)

    @app.task(name="give_up", retry=0)
    def give_up(who: str) -> None:
        current_job().log(who)
        raise PermanentError(f"no mail to {who}")

    @app.task(name="retry", retry=Retry(limit=5, base=1000))
    def retry(who: str) -> None:
        raise ConnectionError(f"not yet {who}")

    options: dict[str, Any] = {"tags": (tag,), "metadata": {"to": who}, "concurrency_key": who}
    with app.worker(concurrency=4):
        done = tell.using(job_id=f"done:{who}", unique=Unique(key=who), **options).enqueue(who)
        failed = [give_up.using(**options).enqueue(who) for _ in range(2)]
        asked, answered, put_off = (task.using(**options).enqueue(who) for task in (ask, ask, retry))
        chain(tell.using(**options).bind(who), tell.using(delay=3600, **options).bind(who)).enqueue()
        assert done.wait(SECONDS)
        assert all(job.wait(SECONDS) for job in failed)
        eventually(lambda: {asked.id, answered.id} <= {one.job for one in app.questions.list()}, "they ask")
        app.questions.answer(answered, who, by="eve")
        assert answered.wait(SECONDS)
        eventually(lambda: put_off.refresh().state == "retrying", "it is put off")
    assert app.services.signal(asked.id, "other", who)
    tell.using(delay=3600, **options).enqueue(who)
    tell.using(**options).enqueue(who)
    app.schedules.create(f"every-day-{tag.partition(':')[2]}", tell.using(**options).bind(who), every=86_400)
    [letter] = app.engine.dead_letters.find(DeadLetterFilter(latest_of=(failed[0].id,)), 1)
    app.engine.dead_letters.update([letter.id], None, by="eve", note=f"ask {who}")
    failed[0].delete()  # its dead letter stays
    app.audit.record("eve", "jobs.bulk", f"tag {tag}", "done", {"message": who, "tag": tag})
    app.audit.record("eve", "jobs.update", done.id, "done", {"note": who})
    row = replace(app.engine.queries.get([done.id])[0], id=f"archived:{who}")
    assert app.services.archive is not None
    app.services.archive.add([row_of(JobExport(row, [], []))], "weekly")
    moment = to_datetime(app.clock.now())
    assert moment is not None
    hook = WebhookRow("h1", "http://localhost", ("job.failed",), "", 0, "0")
    app.webhooks._enqueue(hook, Event(f"1.{TAGS[who][5:]}", "job.failed", moment, done.id, data={"message": who}))


def test_nothing_of_a_person_is_left(app: Headrace, store: str, folder: Path) -> None:
    leave_traces(app, ANN)
    leave_traces(app, BOB)
    before = places_of(BOB, store)
    events = app.engine.events.read(None, 10_000)
    assert len(places_of(ANN, store)) > 5
    plan = app.admin.erase(tag=TAGS[ANN], dry_run=True)
    assert app.jobs.count(tag=TAGS[ANN]) == plan.jobs > 5
    erased = app.admin.erase(tag=TAGS[ANN], by="dan")
    assert places_of(ANN, store) == []
    assert (erased.jobs, erased.archived, erased.dead_letters, erased.schedules) == (plan.jobs, 1, 3, 1)
    assert (plan.archived, plan.dead_letters, plan.schedules) == (1, 2, 1)
    assert (erased.running, erased.deliveries, erased.questions) == (0, 1, 1)
    assert erased.events > 10
    assert erased.audit_entries >= 3
    assert app.jobs.count(archived=True, tag=TAGS[ANN]) == 0
    entries = [(entry.who, entry.what, entry.target, entry.outcome) for entry in app.audit.list(2)]
    assert entries == [("dan", "admin.erase", "tag user:42", "done"), ("dan", "admin.erase", "tag user:42", "begun")]
    assert app.engine.document_store.get(KIND) == []
    # What others stored is as it was.
    assert places_of(BOB, store) == before
    assert app.jobs.count(tag=TAGS[BOB]) == plan.jobs
    assert [cursor for cursor, _ in app.engine.events.read(None, len(events))] == [cursor for cursor, _ in events]
    # A second call finds nothing.
    again = app.admin.erase(tag=TAGS[ANN], by="dan")
    assert again.format_counts() == "0 jobs"
    app.admin.optimize(full=True)
    app.close()
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert [path.name for path in files if ANN.encode() in path.read_bytes()] == []


def test_a_running_job_is_cancelled_and_erased_once_it_has_ended(app: Headrace, store: str, folder: Path) -> None:
    began, go_on = folder / "began", folder / "go"

    @app.task
    def hold(who: str) -> None:
        began.touch()
        while not go_on.exists():
            time.sleep(0.01)

    with app.worker(concurrency=1):
        job = hold.using(tags=("user:42",)).enqueue(ANN)
        eventually(began.exists, "it runs")
        assert app.admin.erase(tag="user:42", dry_run=True).running == 1
        first = app.admin.erase(tag="user:42", by="dan")
        assert (first.jobs, first.running, job.refresh().state) == (0, 1, "cancelled")
        go_on.touch()
        eventually(lambda: app.admin.erase(tag="user:42", by="dan").jobs == 1, "it has ended")
    assert places_of(ANN, store) == []


def test_a_job_whose_worker_is_gone_is_erased_at_once(app: Headrace) -> None:
    app.engine.insert([new_job("job", tags=("user:42",), created_at=app.clock.now(), run_at=app.clock.now())])
    assert app.engine.exchange([], want(worker="dead")).claims
    erased = app.admin.erase(tag="user:42", by="dan")
    assert (erased.jobs, erased.running) == (1, 0)


def test_a_later_erasure_finishes_one_that_was_cut_off(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = insert(app, 450)
    with monkeypatch.context() as cut_off:
        cut_off.setattr(app.engine.events, "erase", lambda ids: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            app.admin.erase(tag="user:42", by="dan")
    assert app.jobs.count() == 0
    assert len(app.engine.document_store.get(KIND)) == 3
    assert jobs <= ids_in_events(app)
    app.admin.erase(tag="another", by="dan")
    assert not jobs & ids_in_events(app)
    assert app.engine.document_store.get(KIND) == []


def test_an_erasure_beside_another_leaves_its_ids_to_it(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, move, others = insert(app, 3), app.engine.queries.move, list[Erasure]()

    def meanwhile(which: Filter, event: Trigger, limit: int) -> list[str]:
        if event is Trigger.DELETE and not others:  # the ids are stored, and their jobs still there
            others.append(app.admin.erase(tag="another", by="eve"))
        return move(which, event, limit)

    monkeypatch.setattr(app.engine.queries, "move", meanwhile)
    assert app.admin.erase(tag="user:42", by="dan").jobs == 3
    assert others
    assert not jobs & ids_in_events(app)
    assert app.engine.document_store.get(KIND) == []


def test_the_budget_of_a_flow_keeps_its_sum_and_not_the_ids(app: Headrace) -> None:
    charged = {f"1 job:{ANN}": 3, f"1 job:{BOB}": 4}
    app.engine.document_store.put([Document("budget", "flow", 0, FlowSpending(10, 0, charged).encoded())])
    app.admin.erase(ids=[f"job:{ANN}"], by="dan")
    [document] = app.engine.document_store.get("budget")
    assert decode_flow(document.value) == FlowSpending(10, 3, {f"1 job:{BOB}": 4})


def test_many_ids_are_erased_part_by_part(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "_IDS_PER_PASS", 300)
    jobs, sizes = insert(app, 1000), list[int]()
    erase = app.engine.events.erase

    def counting(ids: Collection[str]) -> int:
        sizes.append(len(ids))
        return erase(ids)

    monkeypatch.setattr(app.engine.events, "erase", counting)
    assert app.admin.erase(tag="user:42", by="dan").jobs == 1000
    assert sizes == [400, 400, 200]
    assert not jobs & ids_in_events(app)


def test_jobs_that_are_gone_are_erased_from_events_by_their_ids(app: Headrace) -> None:
    jobs = insert(app, 3)
    app.jobs.delete(tag="user:42")
    assert jobs <= ids_in_events(app)
    assert app.admin.erase(ids=sorted(jobs), by="dan").events == 6  # enqueued, removed
    assert not jobs & ids_in_events(app)


def test_dead_letters_and_archived_jobs_match_as_jobs_do(app: Headrace) -> None:
    leave_traces(app, ANN)
    for filters in ({"worker": "nobody"}, {"flow": "none"}, {"text": "charlie"}, {"queue": "other"}):
        plan = app.admin.erase(dry_run=True, **filters)
        assert plan.format_counts() == "0 jobs"
    assert app.admin.erase(dry_run=True, key="acme").format_counts() == "0 jobs"
    plan = app.admin.erase(dry_run=True, key=ANN)
    assert (plan.jobs, plan.archived, plan.dead_letters, plan.schedules) == (app.jobs.count(tag=TAGS[ANN]), 1, 2, 1)
    plan = app.admin.erase(dry_run=True, text=ANN)
    assert (plan.archived, plan.dead_letters) == (1, 2)
    worker = app.jobs.find(state="completed", task="tell")[0].worker
    plan = app.admin.erase(dry_run=True, worker=worker)
    assert (plan.archived, plan.dead_letters) == (1, 2)


@pytest.mark.engines("sqlite")
def test_it_needs_a_filter_and_a_name(app: Headrace) -> None:
    with pytest.raises(InvalidJob, match="at least one filter"):
        app.admin.erase(by="dan", tag=None)
    for dry_run in (True, False):
        with pytest.raises(InvalidJob, match="at least one filter"):
            app.admin.erase(by="dan", text="", dry_run=dry_run)
    with pytest.raises(InvalidJob, match="by: give the name"):
        app.admin.erase(tag="user:42")
    with pytest.raises(InvalidJob, match="unknown filter 'user'"):
        app.admin.erase(user=42, by="dan")
    assert app.audit.list() == []


@pytest.mark.engines("sqlite")
def test_the_async_twin_erases_as_well(app: Headrace) -> None:
    async def erase() -> Erasure:
        return await app.admin.aerase(tag="user:42", by="dan")

    insert(app, 3)
    assert asyncio.run(erase()).jobs == 3


def insert(app: Headrace, count: int) -> set[str]:
    now = app.clock.now()
    jobs = [new_job(f"j{number}", tags=("user:42",), created_at=now, run_at=now) for number in range(count)]
    app.engine.insert(jobs)
    return {job.id for job in jobs}


def ids_in_events(app: Headrace) -> set[str | None]:
    return {event.job_id for event in read_events(app.engine)}
