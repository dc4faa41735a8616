"""A turn that the store has done and whose answer never came: nothing is lost by it, spent by it, or late for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headrace import EngineUnavailable, Headrace, current_job
from headrace.core.jobs.records import ClaimRequest, ExchangeResult, Lease, Outcome
from headrace.core.jobs.states import Trigger
from tests.support.gates import Gate, history_rows, through
from tests.support.waiting import PATIENCE, eventually

LEASE = 10 * PATIENCE  # whatever comes back within our patience did not wait for it
Loses = Callable[[Sequence[Outcome], ExchangeResult], Any]


class LossyLine:
    """The engine's exchange, whose answer is lost once: the first that `loses` says so of."""

    def __init__(self, app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
        self._exchange, self._release_unknown_claims = app.engine.exchange, app.engine.release_unknown_claims
        self._loses: Loses | None = None
        self.lost = threading.Event()
        self.away = 0  # how many more releases of claims fail
        self.disowned: list[list[str]] = []
        monkeypatch.setattr(app.engine, "exchange", self._lossy_exchange)
        monkeypatch.setattr(app.engine, "release_unknown_claims", self._counted_disown)

    def lose(self, loses: Loses) -> None:
        self._loses = loses

    def _lossy_exchange(
        self, outcomes: Sequence[Outcome], want: ClaimRequest | None, *rest: Any, **named: Any
    ) -> ExchangeResult:
        answer = self._exchange(outcomes, want, *rest, **named)
        if self._loses is not None and self._loses(outcomes, answer):
            self._loses = None
            self.lost.set()
            raise EngineUnavailable("the line broke off after the commit")
        return answer

    def _counted_disown(self, worker: str, held: Sequence[Lease], **named: Any) -> list[str]:
        if self.away:
            self.away -= 1
            raise EngineUnavailable("away")
        given_back = self._release_unknown_claims(worker, held, **named)
        self.disowned.append(given_back)
        return given_back


def with_claims(_: Sequence[Outcome], answer: ExchangeResult) -> bool:
    return bool(answer.claims)


@pytest.mark.slow
@pytest.mark.parametrize("ends_meanwhile", [True, False])
def test_what_was_begun_before_an_outage_longer_than_the_lease_is_not_taken_for_a_lost_claim(
    url: str, monkeypatch: pytest.MonkeyPatch, ends_meanwhile: bool
) -> None:
    gate, is_away = Gate(), threading.Event()
    with Headrace(url, lease=1.0, heartbeat=0.3, shutdown_timeout=5.0) as app:
        for name in ("exchange", "renew", "reap", "release_unknown_claims"):
            monkeypatch.setattr(app.engine, name, _unless(is_away, getattr(app.engine, name)))
        runs: list[int] = []

        @app.task(retry=0)
        def work() -> None:
            runs.append(1)
            gate.pass_through()

        job = work.enqueue()
        with app.worker(concurrency=2) as worker:
            gate.wait_until_reached()
            is_away.set()
            if ends_meanwhile:
                gate.open()
            eventually(lambda: not worker._worker_state.held(), "that the worker has given its leases up")
            is_away.clear()
            eventually(lambda: not worker._exchange._in_doubt, "that lost claims are given back")
            gate.open()
            job.wait(PATIENCE)
            assert (len(runs), job.attempt) == (1, 1)
            assert "release" not in [entry.event for entry in history_rows(app, job.id)]


def _unless(is_away: threading.Event, act: Callable[..., Any]) -> Callable[..., Any]:
    def ask(*args: Any, **named: Any) -> Any:
        if is_away.is_set():
            raise EngineUnavailable("away")
        return act(*args, **named)

    return ask


@pytest.fixture
def app(url: str) -> Any:
    with Headrace(url, lease=LEASE, heartbeat=2.0, shutdown_timeout=5.0) as app:
        yield app


@pytest.fixture
def line(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> LossyLine:
    return LossyLine(app, monkeypatch)


def test_claims_that_were_lost_on_the_way_run_soon_and_spend_no_attempt(app: Headrace, line: LossyLine) -> None:
    task = app.task(name="run", retry=0)(lambda: current_job().attempt)
    jobs = [task.enqueue() for _ in range(3)]
    line.lose(with_claims)
    with app.worker(concurrency=4):
        assert [job.result(PATIENCE) for job in jobs] == [1, 1, 1]
    assert sorted(line.disowned[0]) == sorted(job.id for job in jobs)
    rows = app.engine.queries.get([job.id for job in jobs])
    assert {(row.attempt, row.releases, row.crashes) for row in rows} == {(1, 1, 0)}
    assert [entry.event for job in jobs for entry in history_rows(app, job.id)] == [Trigger.RELEASE] * 3


def test_each_of_them_runs_once(app: Headrace, line: LossyLine) -> None:
    ran: list[int] = []
    task = app.task(name="run")(ran.append)
    jobs = [task.enqueue(number) for number in range(50)]
    line.lose(with_claims)
    with app.worker(concurrency=4):
        assert {job.wait(PATIENCE) for job in jobs} == {"completed"}
    assert sorted(ran) == list(range(50))


def test_the_log_names_the_released_jobs(app: Headrace, line: LossyLine, caplog: pytest.LogCaptureFixture) -> None:
    job = app.task(name="run")(lambda: None).enqueue()
    line.lose(with_claims)
    with caplog.at_level(logging.WARNING, "headrace.worker"), app.worker():
        assert job.wait(PATIENCE) == "completed"
    assert f"job {job.id}: released, the answer with its claim was lost" in caplog.messages


def test_what_runs_meanwhile_goes_on(app: Headrace, line: LossyLine) -> None:
    gate = Gate()
    held = app.task(name="held")(through("thread", gate, lambda: current_job().attempt)).enqueue()
    with app.worker(concurrency=2):
        gate.wait_until_reached()
        line.lose(with_claims)
        lost = app.task(name="run")(lambda: "ran").enqueue()
        assert lost.result(PATIENCE) == "ran"
        gate.open()
        assert held.result(PATIENCE) == 1
    assert line.disowned == [[lost.id]]
    assert history_rows(app, held.id) == []


def test_outcomes_whose_receipt_was_lost_count_once(app: Headrace, line: LossyLine) -> None:
    ran: list[str] = []
    task = app.task(name="run")(ran.append)
    line.lose(lambda outcomes, _: outcomes)
    with app.worker(concurrency=1):
        job = task.enqueue("first")
        assert line.lost.wait(PATIENCE)
        assert task.enqueue("second").wait(PATIENCE) == "completed"
    assert (job.refresh().state, job.attempt, ran) == ("completed", 1, ["first", "second"])
    assert history_rows(app, job.id) == []  # it was not handed in again as if it were late


def test_a_store_that_is_unavailable_for_longer_is_tried_again(app: Headrace, line: LossyLine) -> None:
    job = app.task(name="run", retry=0)(lambda: current_job().attempt).enqueue()
    line.away = 2
    line.lose(with_claims)
    with app.worker():
        assert job.result(PATIENCE) == 1
    assert (line.away, line.disowned) == (0, [[job.id]])


def test_a_turn_without_a_claim_leaves_nothing_in_doubt(app: Headrace, line: LossyLine) -> None:
    gate = Gate()
    job = app.task(name="held")(through("thread", gate, lambda: "ran")).enqueue()
    with app.worker(concurrency=1) as worker:
        gate.wait_until_reached()
        worker.pause()
        line.lose(lambda outcomes, _: outcomes)
        gate.open()
        assert job.wait(PATIENCE) == "completed"
        assert line.lost.wait(PATIENCE)
    assert line.disowned == []


def test_a_worker_that_stops_just_then_leaves_the_jobs_to_others(app: Headrace, line: LossyLine) -> None:
    job = app.task(name="run", retry=0)(lambda: current_job().attempt).enqueue()
    line.lose(with_claims)
    worker = app.worker().start()
    assert line.lost.wait(PATIENCE)
    worker.request_stop()
    assert worker.join(PATIENCE)
    eventually(lambda: job.refresh().state in ("pending", "completed"), "the giving back")
    with app.worker():
        assert job.result(PATIENCE) == 1
