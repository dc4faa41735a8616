"""A worker that is to drain ends when the store has nothing left, and not a moment sooner."""

from __future__ import annotations

import pytest

from headrace import Headrace
from headrace.core.jobs.records import ClaimRequest
from headrace.runtime.worker.exchange import WorkerExchange
from tests.support.waiting import eventually


@pytest.mark.slow
def test_a_turn_without_a_claim_does_not_end_it(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when runners finish all they hold between the look at their queue and the turn that settles it."""

    @app.task
    def double(n: int) -> int:
        return 2 * n

    monkeypatch.setattr("headrace.runtime.worker.worker._MAINTAIN_EVERY", 0.05)
    job = double.enqueue(4)
    answers, capacity = [0, 0], WorkerExchange.capacity
    monkeypatch.setattr(
        WorkerExchange, "capacity", lambda worker_exchange: answers.pop() if answers else capacity(worker_exchange)
    )
    app.run_worker(drain=True)
    assert job.result(timeout=0) == 8


def test_what_it_takes_over_itself_is_left(app: Headrace) -> None:
    @app.task
    def double(n: int) -> int:
        return 2 * n

    job = double.enqueue(4)
    [claim] = app.engine.exchange([], ClaimRequest("gone", 1, 1)).claims
    eventually(lambda: app.engine.clock.now() > (job.refresh().row.lease_until or 0), "the end of the lease")
    app.run_worker(drain=True)
    assert (job.refresh().state, job.attempt, claim.attempt) == ("completed", 2, 1)
