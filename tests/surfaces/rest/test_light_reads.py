"""Reads of jobs do not fetch arguments and results from the store until they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace import Headrace, Job, ResultUnavailable, Task
from headrace.engines.redis.connections import RedisConnections
from headrace.engines.shared.damaged_records import Rows
from headrace.testing import drain
from tests.surfaces.rest.kit import Api
from tests.surfaces.web.client import Client

MANY, FEW, LITTLE = 40, 3, 200_000
ARGUMENT, RESULT = "p" * 500_000, "r" * 900_000
pytestmark = pytest.mark.every_engine


class Scales:
    """Measures the size of an engine's answers before they are decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._weight = 0
        for kind, name in ((Rows, "decode"), (RedisConnections, "_send")):
            monkeypatch.setattr(kind, name, self._weighing(getattr(kind, name), kind is RedisConnections))

    def _weighing(self, function: Callable[..., Any], is_answer: bool) -> Callable[..., Any]:
        def weighed(*args: Any, **named: Any) -> Any:
            answer = function(*args, **named)
            self._weight += _weight(answer if is_answer else args[1])
            return answer

        return weighed

    def weigh(self, look: Callable[[], object]) -> int:
        before = self._weight
        look()
        assert self._weight > before, "nothing was read"
        return self._weight - before


def _weight(answer: Any) -> int:
    if isinstance(answer, list | tuple):
        return sum(map(_weight, answer))
    return len(answer) if isinstance(answer, str | bytes) else 8


@pytest.fixture
def big(app: Headrace) -> Task[..., Any, Any]:
    @app.task(name="big")
    def big(text: str, *, more: str = "") -> str:
        return RESULT

    return big


@pytest.fixture
def jobs(app: Headrace, big: Task[..., Any, Any]) -> list[Job[Any]]:
    return done(app, big, FEW)


def done(app: Headrace, big: Task[..., Any, Any], number: int) -> list[Job[Any]]:
    jobs = app.enqueue_many([big.bind(f"{place} {ARGUMENT}") for place in range(number)])
    drain(app)
    return jobs


@pytest.fixture
def scales(monkeypatch: pytest.MonkeyPatch) -> Scales:
    return Scales(monkeypatch)


@pytest.mark.slow_on("postgres", "redis")
def test_lists_and_single_reads_are_light(app: Headrace, api: Api, big: Task[..., Any, Any], scales: Scales) -> None:
    page, jobs = Client(app.asgi()), done(app, big, MANY)
    looks: dict[str, Callable[[], object]] = {
        "find": lambda: app.jobs.find(limit=MANY),
        "get": lambda: app.jobs.get(jobs[0].id),
        "refresh": jobs[0].refresh,
        "wait": lambda: jobs[0].wait(5),
        "why": jobs[0].why,
        "history": jobs[0].history,
        "cancel": lambda: app.jobs.cancel(task="big"),
        "REST": lambda: api.ask("GET", f"/jobs?limit={MANY}"),
        "REST why": lambda: api.ask("GET", f"/jobs/{jobs[0].id}/why"),
        "page": lambda: page.get("/jobs"),
    }
    weights = {name: scales.weigh(look) for name, look in looks.items()}
    assert {name: weight for name, weight in weights.items() if weight >= LITTLE} == {}


def test_a_peek_is_light(app: Headrace, big: Task[..., Any, Any], scales: Scales) -> None:
    app.enqueue_many([big.bind(ARGUMENT) for _ in range(10)])
    assert scales.weigh(lambda: app.queue("default").peek(10)) < LITTLE


def test_every_handle_has_its_arguments_and_its_result(app: Headrace, jobs: list[Job[Any]]) -> None:
    for found in (app.jobs.find()[0], app.jobs.get(jobs[-1].id), jobs[-1].refresh()):
        assert found == jobs[-1]
        assert found.args == (f"{FEW - 1} {ARGUMENT}",)
        assert found.outcome() == RESULT
        assert found.result(5) == RESULT


def test_arguments_are_read_once(app: Headrace, jobs: list[Job[Any]], scales: Scales) -> None:
    job = app.jobs.get(jobs[0].id)
    assert scales.weigh(lambda: job.args) > len(ARGUMENT)
    job.refresh()
    job.delete()
    assert (job.args, job.kwargs) == ((f"0 {ARGUMENT}",), {})  # as they were read before


def test_a_whole_page_is_read_at_once(app: Headrace, jobs: list[Job[Any]]) -> None:
    found = app.jobs.find(whole=True)
    app.jobs.delete(task="big")
    assert [job.args[0].split()[0] for job in found] == ["2", "1", "0"]
    assert found[0].outcome() == RESULT


def test_a_deleted_result_is_an_error(app: Headrace, jobs: list[Job[Any]]) -> None:
    job = app.jobs.get(jobs[0].id)
    app.jobs.get(jobs[0].id).retry()
    with pytest.raises(ResultUnavailable, match="started again"):
        job.outcome()
    assert job.state == "completed"  # as of the last refresh


def test_long_arguments_are_searched_and_shown_redacted(app: Headrace, big: Task[..., Any, Any], api: Api) -> None:
    job = big.using(redact=("more",)).enqueue("x" * 5000 + "needle", more="secret")
    for text, found in (("needle", [job.id]), ("secret", []), ('"more":"***"', [job.id])):
        assert [one["id"] for one in api.ask("GET", "/jobs", params={"text": text})["jobs"]] == found
    shown = api.ask("GET", f"/jobs/{job.id}")
    assert (shown["args"], shown["kwargs"]) == (["x" * 5000 + "needle"], {"more": "***"})
