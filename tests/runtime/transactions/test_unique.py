"""In a caller's transaction a unique job is one job too: with those that are stored, and with those beside it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace import DuplicateJob, Headrace, State, Task, Unique
from tests.runtime.transactions.lenders import ASYNC_LENDERS, Lender, each_async_lender, each_lender


@pytest.fixture
def mail(app: Headrace) -> Task[..., Any, Any]:
    @app.task
    def mail(to: str, text: str = "hello") -> str:
        return f"{to}: {text}"

    assert app.queues() == []  # the store has its tables
    return mail


def inside(task: Any, lender: Any, **how: Any) -> Any:
    return task.using(connection=lender.connection, unique=Unique(**how))


@each_lender
def test_duplicates_are_found_outside_and_inside_the_transaction(app: Headrace, mail: Any, lender: Lender) -> None:
    known = mail.using(unique=True, priority=4).enqueue("ann")
    lender.begin()
    found = inside(mail, lender).enqueue("ann")
    assert (found.id, found.priority, found.state) == (known.id, 4, State.PENDING)
    new = inside(mail, lender).enqueue("bob")
    assert inside(mail, lender).enqueue(to="bob").id == new.id
    jobs = app.enqueue_many([inside(mail, lender).bind(to) for to in ("ann", "bob", "eve", "eve")])
    assert [job.id for job in jobs] == [known.id, new.id, jobs[2].id, jobs[2].id]
    lender.commit()
    assert {job.id for job in app.jobs.find()} == {known.id, new.id, jobs[2].id}


@each_lender
def test_what_is_rolled_back_is_free_again(app: Headrace, mail: Any, lender: Lender) -> None:
    lender.begin()
    lost = inside(mail, lender).enqueue("ann")
    lender.rollback()
    assert mail.using(unique=True).enqueue("ann").id != lost.id


@each_lender
def test_a_refused_call_leaves_the_transaction_as_it_was(app: Headrace, mail: Any, lender: Lender) -> None:
    known = mail.using(unique=True).enqueue("ann")
    lender.begin()
    kept = inside(mail, lender).enqueue("bob")
    with pytest.raises(DuplicateJob, match="counts as the same exists already") as caught:
        inside(mail, lender, on_conflict="raise").enqueue("ann")
    assert caught.value.job_id == known.id
    with pytest.raises(DuplicateJob, match="counts as the same exists already"):
        app.enqueue_many([inside(mail, lender, on_conflict="raise").bind(to) for to in ("eve", "ann")])
    lender.commit()
    assert {job.id for job in app.jobs.find()} == {known.id, kept.id}


@each_lender
def test_a_job_is_replaced_when_the_transaction_commits(app: Headrace, mail: Any, lender: Lender) -> None:
    known = mail.using(unique=Unique(by=("to",))).enqueue("ann", "one")
    lender.begin()
    replaced = inside(mail, lender, by=("to",), on_conflict="replace").enqueue("ann", "two")
    assert (replaced.id, replaced.args) == (known.id, ("ann", "two"))
    assert known.refresh().args == ("ann", "one")
    lender.commit()
    assert known.refresh().args == ("ann", "two")


@each_async_lender
def test_coroutines_do_the_same(app: Headrace, mail: Any, database: str, lender_name: str, url: str) -> None:
    known = mail.using(unique=True).enqueue("ann")

    async def main() -> list[str]:
        async with ASYNC_LENDERS[database][lender_name](url) as lender:
            found = await inside(mail, lender).aenqueue("ann")
            new = await inside(mail, lender).aenqueue("bob")
            many = await app.aenqueue_many([inside(mail, lender).bind(to) for to in ("bob", "eve")])
            with pytest.raises(DuplicateJob, match="counts as the same exists already"):
                await inside(mail, lender, on_conflict="raise").aenqueue("ann")
            with pytest.raises(DuplicateJob, match="two of these calls count as the same"):
                await app.aenqueue_many([inside(mail, lender, on_conflict="raise").bind("x")] * 2)
            await lender.commit()
            return [found.id, new.id, *(job.id for job in many)]

    found, new, again, other = asyncio.run(main())
    assert (found, again) == (known.id, new)
    assert {job.id for job in app.jobs.find()} == {known.id, new, other}
