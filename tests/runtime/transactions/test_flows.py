"""In a caller's transaction a flow exists if, and only if, the caller commits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headrace import FlowNotFound, Headrace, InvalidJob, JobNotFound, Task, chain
from headrace.testing import drain
from tests.runtime.transactions.lenders import ASYNC_LENDERS, Lender, each_async_lender, each_lender


@pytest.fixture
def give(app: Headrace) -> Task[..., Any, Any]:
    @app.task
    def give(value: Any = None) -> Any:
        return value

    assert app.queues() == []  # the store has its tables
    return give


@each_lender
def test_a_flow_appears_with_the_commit(app: Headrace, give: Any, lender: Lender) -> None:
    lender.begin()
    inside = give.using(connection=lender.connection)
    run = chain(inside.bind(1), inside.bind()).enqueue()
    with pytest.raises(FlowNotFound):
        app.flows.get(run.id)
    lender.commit()
    assert run.refresh().counts == {"pending": 1, "waiting": 1}
    drain(app)
    assert run.result() == 1


@each_lender
def test_what_is_rolled_back_was_never_there(app: Headrace, give: Any, lender: Lender) -> None:
    parent = give.using(delay=60).enqueue(1)
    lender.begin()
    inside = give.using(connection=lender.connection)
    child = inside.enqueue(parent)
    run = chain(inside.bind(1), inside.bind()).enqueue()
    lender.rollback()
    with pytest.raises(JobNotFound):
        child.refresh()
    with pytest.raises(FlowNotFound):
        run.refresh()
    assert parent.children() == []
    assert app.jobs.count() == 1


@each_lender
def test_a_hook_may_choose_the_transaction(app: Headrace, give: Any, lender: Lender) -> None:
    app.around_enqueue(lambda call: call.using(connection=lender.connection))
    lender.begin()
    run = chain(give.bind(1), give.bind()).enqueue()
    give.enqueue(2)
    lender.rollback()
    with pytest.raises(FlowNotFound):
        run.refresh()
    assert app.jobs.count() == 0


@each_lender
def test_a_job_of_the_transaction_can_be_waited_for_in_it(app: Headrace, give: Any, lender: Lender) -> None:
    lender.begin()
    inside = give.using(connection=lender.connection)
    first = inside.enqueue("first")
    second = inside.enqueue(first)
    with pytest.raises(InvalidJob, match="job-nowhere"):
        inside.using(after="job-nowhere").enqueue()
    lender.commit()
    drain(app)
    assert second.result() == "first"
    assert app.jobs.count() == 2


@each_async_lender
def test_coroutines_do_the_same(app: Headrace, give: Any, database: str, lender_name: str, url: str) -> None:
    async def main() -> Any:
        async with ASYNC_LENDERS[database][lender_name](url) as lender:
            inside = give.using(connection=lender.connection)
            run = await chain(inside.bind(1), inside.bind()).aenqueue()
            child = await inside.aenqueue(run.jobs[1])
            await app.aenqueue_many([inside.using(after=[child]).bind(2)])
            await lender.commit()
            return run, child

    run, child = asyncio.run(main())
    assert drain(app) == 4
    assert (run.result(), child.result()) == (1, 1)


@pytest.mark.engines("sqlite")
def test_all_of_a_flow_is_in_one_transaction(folder: Path) -> None:
    import sqlite3

    with Headrace(f"sqlite:///{folder / 'q.db'}") as app:
        task = app.task(name="t")(lambda value=None: value)
        assert app.queues() == []
        connection = sqlite3.connect(folder / "q.db")
        with pytest.raises(InvalidJob, match="same connection"):
            chain(task.using(connection=connection).bind(), task.bind()).enqueue()
        connection.close()
