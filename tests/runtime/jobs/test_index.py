"""Jobs are found by an indexed argument, on every engine, wherever a job comes from and in the archive."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from headrace import Headrace, Task, Unique, current_job
from headrace.core.tasks.index import HIDDEN
from headrace.testing import VirtualClock, drain

pytestmark = pytest.mark.every_engine


def found(app: Headrace, **filters: Any) -> list[str]:
    return [job.id for job in app.jobs.find(**filters)]


def test_a_job_is_found_by_an_indexed_argument(app: Headrace) -> None:
    @app.task(index=("order_id", "day"), tags=("shop",))
    def pay(order_id: int, note: str = "", *, day: Any = None) -> None: ...

    @app.task(index=("order_id",))
    def ship(order_id: UUID | str) -> None: ...

    @app.task
    def other(order_id: int) -> None: ...

    first, second = pay.enqueue(7, "x"), pay.enqueue(order_id=8, day=datetime(2026, 3, 1, tzinfo=UTC))
    shipped = ship.enqueue("7")
    by_id = ship.enqueue(UUID(int=7))
    other.enqueue(7)
    long = ship.enqueue("ä" * 500 + "\x00")
    many = app.enqueue_many([pay.bind(9), pay.bind(9)])
    assert found(app, args={"order_id": 7}) == [shipped.id, first.id]
    assert found(app, args={"order_id": "7"}, task="pay") == [first.id]
    assert found(app, args={"order_id": UUID(int=7)}) == [by_id.id]
    assert found(app, args={"order_id": "ä" * 500 + "\x00"}) == [long.id]
    assert found(app, args={"day": "2026-03-01T00:00:00+00:00"}) == [second.id]
    assert found(app, args={"order_id": 10}) == []
    assert found(app, args={"order_id": 7}, state="completed") == []
    assert app.jobs.count(args={"order_id": 9}) == 2
    assert app.jobs.count_up_to(10, args={"order_id": 9}).jobs == 2
    assert (first.refresh().tags, shipped.refresh().tags) == (("shop",), ())
    assert found(app, tag="shop") == [many[1].id, many[0].id, second.id, first.id]
    assert app.jobs.cancel(args={"order_id": 9}) == 2
    assert app.jobs.delete(args={"order_id": 9}) == 2
    assert found(app, args={"order_id": 9}) == []


def test_children_flows_and_schedules_are_indexed(app: Headrace) -> None:
    @app.task(index=("order_id",))
    def pay(order_id: int, before: Any = None) -> int:
        if order_id == 1:
            current_job().spawn(pay.bind(2))
        return order_id

    parent = pay.enqueue(1)
    flow = app.flow("f")
    first = flow.add(pay.bind(3))
    flow.add(pay.bind(first))  # the value of order_id is not known yet
    run = flow.enqueue()
    app.schedules.create("s", pay, args=(5,), every=60)
    fired = app.schedules.run_now("s")
    drain(app)
    assert found(app, args={"order_id": 1}) == [parent.id]
    assert [job.parents() == [] for job in app.jobs.find(args={"order_id": 2})] == [True]
    assert found(app, args={"order_id": 3}) == [run.jobs[0].id]
    assert found(app, args={"order_id": 5}) == [fired.id]


def test_a_call_that_replaces_another_is_found_by_its_own_arguments(app: Headrace) -> None:
    @app.task(index=("order_id",), unique=Unique(key="k", on_conflict="replace"), tags=("t",))
    def pay(order_id: int) -> None: ...

    first = pay.enqueue(1)
    assert pay.enqueue(2).id == first.id
    assert found(app, args={"order_id": 1}) == []
    assert found(app, args={"order_id": 2}) == [first.id]
    assert found(app, tag="t") == [first.id]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_requeue_with_other_arguments_is_found_by_these(app: Headrace, is_deleted: bool) -> None:
    @app.task(index=("order_id",), retry=0, tags=("t",))
    def pay(order_id: int) -> None:
        if order_id == 1:
            raise ValueError("no")

    job = pay.enqueue(1)
    drain(app)
    dead_letter = app.dead.get(job.id)
    assert dead_letter.tags == ("t",)
    if is_deleted:
        job.delete()
    app.dead.requeue(dead_letter.id, args=(2,))
    assert found(app, args={"order_id": 1}) == []
    assert found(app, args={"order_id": 2}) == [job.id]
    assert found(app, tag="t") == [job.id]
    assert app.jobs.get(job.id).tags == ("t",)


def test_a_requeue_with_the_same_arguments_keeps_them(app: Headrace) -> None:
    @app.task(index=("order_id",), retry=0)
    def pay(order_id: int) -> None:
        raise ValueError("no")

    job = pay.enqueue(1)
    drain(app)
    app.dead.requeue(job.id)
    assert found(app, args={"order_id": 1}) == [job.id]


def test_an_archived_job_is_found_and_comes_back_with_its_index(url: str, folder: Path) -> None:
    clock, elsewhere = VirtualClock(), f"sqlite:///{folder}/archive.db" if url.startswith("redis") else None
    with Headrace(url, clock=clock, archive_url=elsewhere) as app:
        check_the_archive(app, clock)


def check_the_archive(app: Headrace, clock: VirtualClock) -> None:
    @app.task(index=("order_id",))
    def pay(order_id: int) -> None: ...

    job, other = pay.enqueue(7), pay.enqueue(8)
    drain(app)
    clock.advance(10 * 86_400)
    assert app.lifecycle.archive(dry_run=False).archived == 2
    assert found(app, args={"order_id": 7}) == []
    assert found(app, args={"order_id": 7}, archived=True) == [job.id]
    assert app.jobs.count(args={"order_id": 8}, archived=True) == 1
    assert app.jobs.get(job.id).tags == ()
    app.lifecycle.restore(other.id)
    assert found(app, args={"order_id": 8}) == [other.id]


def test_a_user_can_not_set_a_hidden_tag(app: Headrace) -> None:
    with pytest.raises(ValueError, match="control character"):
        app.task_by_name("t").using(tags=(f"{HIDDEN}order_id=7",))


@pytest.mark.engines("sqlite")
def test_a_task_may_be_a_class_with_an_attribute_of_that_name(app: Headrace) -> None:
    task: Task[..., Any, Any] = app.task(name="as_list")(list)
    job = task.enqueue([1, 2])
    drain(app)
    assert job.result(1) == [1, 2]
