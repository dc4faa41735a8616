"""The commits of a flow beyond those of its jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace import Headrace, chain
from tests.support.waiting import PATIENCE


def turns_of(app: Headrace, monkeypatch: pytest.MonkeyPatch, run: Callable[[], object]) -> int:
    """How many turns of a worker changed the store; each of them is one commit."""
    turns: list[bool] = []
    exchange = app.engine.exchange

    def counting(outcomes: Any, *args: Any, **kwargs: Any) -> Any:
        answer = exchange(outcomes, *args, **kwargs)
        turns.append(bool(outcomes or answer.claims))
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(app.engine, "exchange", counting)
        with app.worker(concurrency=1, prefetch=0):
            run()
    return sum(turns)


def test_a_chain_of_four_takes_no_more_commits_than_four_jobs(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are stored in one commit, so only what the worker does can make a difference."""

    @app.task
    def one_more(n: int) -> int:
        return n + 1

    def apart() -> None:
        for job in app.enqueue_many([one_more.bind(n) for n in range(4)]):
            job.result(PATIENCE)

    def in_a_chain() -> None:
        links = [one_more.bind(0), *(one_more.bind() for _ in range(3))]
        assert chain(*links).enqueue().result(PATIENCE) == 4

    allowed = turns_of(app, monkeypatch, apart) + 2
    assert turns_of(app, monkeypatch, in_a_chain) <= allowed
