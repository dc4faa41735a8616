"""What a flow costs beside the jobs it is made of, in commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace import Headrace, chain
from tests.runtime.kit import PATIENCE


@contextmanager
def counted(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The calls that changed the store; each of them is one commit."""
    commits: list[str] = []
    engine: Any = app.engine

    def count(name: str, changed: Callable[[Any, Any], bool]) -> None:
        call = getattr(engine, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            answer = call(*args, **kwargs)
            if changed(args, answer):
                commits.append(name)
            return answer

        patch.setattr(engine, name, counting)

    with monkeypatch.context() as patch:
        count("insert", lambda args, answer: True)
        count("plant", lambda args, answer: True)
        count("exchange", lambda args, answer: bool(args[0] or answer.claims))
        yield commits


def test_a_chain_of_four_takes_no_more_commits_than_four_jobs(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.task
    def one_more(n: int) -> int:
        return n + 1

    with counted(app, monkeypatch) as commits, app.worker(concurrency=1, prefetch=0):
        for job in app.enqueue_many([one_more.bind(n) for n in range(4)]):
            assert job.result(PATIENCE)
        apart = list(commits)
        commits.clear()
        assert chain(*(one_more.bind(*[0][: n == 0]) for n in range(4))).enqueue().result(PATIENCE) == 4
        assert len(commits) <= len(apart) + 2
