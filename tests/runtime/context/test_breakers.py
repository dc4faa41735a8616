"""`app.breakers`: what operators see of circuit breakers, and how they close one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import Breaker, BreakerNotFound, BreakerStatus, Headrace, InvalidJob
from headrace.app.doctor import diagnose
from headrace.core.documents import Document
from headrace.core.tasks.breaker import KIND
from headrace.testing import VirtualClock, drain

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOON)


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Iterator[Headrace]:
    with Headrace(url, clock=clock) as app:
        yield app


def fail(breaker: Breaker, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(ConnectionError), breaker:
            raise ConnectionError("the password is sesame")


def test_breakers_with_failures_are_listed_and_open_ones_first(app: Headrace, clock: VirtualClock) -> None:
    assert app.breakers.list() == []
    fail(app.breaker("bank", failures=3), 2)
    fail(app.breaker("sms", failures=1, open_for=10))
    clock.advance(10)
    fail(app.breaker("stripe", failures=5), 5)
    with app.breaker("paypal"):
        pass
    error, later = "ConnectionError", NOON + timedelta(seconds=10)
    assert app.breakers.list() == [
        BreakerStatus(name="stripe", state="open", failures=5, error=error, open_until=later + timedelta(seconds=30)),
        BreakerStatus(name="bank", state="failing", failures=2, error=error, open_until=None),
        BreakerStatus(name="sms", state="trying", failures=1, error=error, open_until=later),
    ]
    assert [one.summary for one in app.breakers.list()] == [
        "open after 5 failures (ConnectionError)",
        "2 failures in a row (ConnectionError)",
        "trying again after 1 failure (ConnectionError)",
    ]
    with app.breaker("sms"):  # the call that tries
        assert app.breakers.list()[-1].state == "trying"
    assert [one.name for one in app.breakers.list()] == ["stripe", "bank"]


def test_a_reset_breaker_is_closed_for_all_processes(app: Headrace) -> None:
    there = app.breaker("stripe/eu west", failures=1, open_for=3600)
    fail(there)
    app.breakers.reset("stripe/eu west")
    assert app.breakers.list() == []
    assert not there.is_open
    with there:
        pass
    with pytest.raises(BreakerNotFound, match="nothing has failed at breaker 'stripe/eu west'"):
        app.breakers.reset("stripe/eu west")
    assert app.audit.list() == []


def test_who_resets_a_breaker_is_recorded(app: Headrace) -> None:
    fail(app.breaker("stripe"))
    app.breakers.reset("stripe", by="ann")
    with pytest.raises(BreakerNotFound):
        app.breakers.reset("stripe", by="bob")
    [entry] = app.audit.list()
    assert (entry.who, entry.what, entry.target, entry.outcome) == ("ann", "breakers.reset", "stripe", "done")


def test_a_reset_wins_over_a_call_that_fails_meanwhile(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    stripe = app.breaker("stripe", failures=2)
    fail(stripe)
    store: Any = type(app.engine.document_store)
    put = store.put
    refused: list[bool] = []

    def put_late(self: Any, documents: Any, delete: Any = ()) -> bool:
        if delete and not refused:
            refused.append(True)
            fail(stripe)
        done: bool = put(self, documents, delete)
        return done

    monkeypatch.setattr(store, "put", put_late)
    app.breakers.reset("stripe")
    assert refused
    assert app.breakers.list() == []
    assert not stripe.is_open


def test_the_twins_do_the_same(app: Headrace) -> None:
    fail(app.breaker("stripe"))

    async def main() -> None:
        assert [one.failures for one in await app.breakers.alist()] == [1]
        await app.breakers.areset("stripe", by="ann")
        with pytest.raises(BreakerNotFound):
            await app.breakers.areset("stripe")

    asyncio.run(main())
    assert [entry.who for entry in app.audit.list()] == ["ann"]


def test_jobs_that_an_open_breaker_put_back_say_so_and_run_when_they_are_due(
    app: Headrace, clock: VirtualClock
) -> None:
    stripe = app.breaker("stripe", failures=1, open_for=3600)

    @app.task
    def charge() -> str:
        with stripe:
            return "charged"

    fail(stripe)
    job = charge.enqueue()
    drain(app)
    assert "breaker 'stripe' is open after 1 failure, the last one ConnectionError" in str(job.why())
    app.breakers.reset("stripe")
    assert job.refresh().state == "scheduled"
    job.promote()
    drain(app)
    assert job.result(0) == "charged"


@pytest.mark.engines("sqlite")
def test_the_doctor_notes_an_open_breaker(app: Headrace, clock: VirtualClock) -> None:
    fail(app.breaker("bank"))
    fail(app.breaker("my bank", failures=1, open_for=30))
    clock.advance(18)
    [found] = [finding for finding in diagnose(app) if finding.code.startswith("breaker")]
    assert found.note
    assert str(found) == (
        "breaker 'my bank' is open after 1 failure (ConnectionError); "
        "its next try is in 12.0 s; close it with `headrace breakers reset 'my bank'`"
    )
    clock.advance(12)
    assert [finding for finding in diagnose(app) if finding.code.startswith("breaker")] == []


@pytest.mark.engines("sqlite")
def test_a_damaged_record_counts_as_closed_and_can_be_reset(app: Headrace) -> None:
    assert app.engine.document_store.put([Document(KIND, "stripe", 0, "nonsense")])
    assert app.breakers.list() == []
    app.breakers.reset("stripe")
    assert app.engine.document_store.get(KIND) == []


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("name", ["", "a\nb", 7])
def test_a_wrong_name_is_refused(app: Headrace, name: Any) -> None:
    with pytest.raises(InvalidJob, match="breaker: expected a name"):
        app.breakers.reset(name)
