"""find, count and count_up_to mean what a plain look at every job means: any filter, any page, any reach."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from headrace.core.jobs.records import Filter, JobRow
from headrace.core.jobs.states import FINAL, State
from headrace.core.jobs.transfer import JobExport
from headrace.engines.protocol.engine import Engine
from headrace.engines.sql import search
from tests.support.builders import EVERYTHING, NOW

JOBS, QUESTIONS = 100, 50
QUEUES, TASKS, TAGS, WORKERS = ("mail", "web", "idle"), ("send", "sort", "send.all"), ("red", "\x1fx=é"), ("w1", "w2")


def population(chance: Random) -> list[JobRow]:
    """Jobs that differ in every field that a filter knows, in no order but that of their submission."""
    return [_job(number, chance) for number in range(JOBS)]


def _job(number: int, chance: Random) -> JobRow:
    state, at = chance.choice(list(State)), NOW + chance.randrange(100)
    ran = state in FINAL or state is State.RUNNING
    tags = [tag for tag in TAGS if chance.random() < 0.3]
    unset: dict[str, Any] = dict.fromkeys(
        ("expires_at", "result", "result_checksum", "progress", "options", "metadata")
    )
    return JobRow(
        seq=number,
        id=f"job-{chance.randrange(10**9):09}-{number}",
        task=chance.choice(TASKS),
        queue=chance.choice(QUEUES[:2]),
        state=state,
        priority=chance.randrange(3),
        rank=at,
        version=1,
        attempt=int(ran),
        max_attempts=3,
        crashes=0,
        releases=0,
        payload=json.dumps([chance.choice(("needle", "hay"))]),
        checksum=7,
        created_at=at,
        run_at=at,
        started_at=at if ran else None,
        finished_at=at if state in FINAL else None,
        worker=chance.choice(WORKERS) if ran else None,
        lease_until=NOW if state is State.RUNNING else None,
        reason="needle" if state is State.FAILED else None,
        tags=json.dumps(tags) if tags else None,
        flow="flow" if chance.random() < 0.2 else None,
        **unset,
    )


def matches(job: JobRow, which: Filter) -> bool:
    """What a filter means, in a few words."""
    texts = (job.id, job.task, job.payload, job.reason or "", job.metadata or "")
    return all(
        (
            not which.ids or job.id in which.ids,
            not which.states or job.state in which.states,
            which.queue in (None, job.queue),
            which.task in (None, job.task),
            which.tag is None or which.tag in json.loads(job.tags or "[]"),
            which.worker in (None, job.worker),
            which.text is None or any(which.text in text for text in texts),
            which.since is None or job.created_at >= which.since,
            which.until is None or job.created_at < which.until,
            which.flow in (None, job.flow),
        )
    )


def questions(jobs: list[JobRow], chance: Random) -> Iterator[Filter]:
    """Filters of one or some fields; most of them match something."""
    for _ in range(QUESTIONS):
        given: dict[str, Any] = {
            "ids": tuple(job.id for job in chance.sample(jobs, 20)),
            "states": tuple(chance.sample(list(State), chance.choice((1, 1, 2, 3, 8)))),
            "queue": chance.choice(QUEUES),
            "task": chance.choice(TASKS),
            "tag": chance.choice((*TAGS, "none")),
            "worker": chance.choice((*WORKERS, "nobody")),
            "text": chance.choice(("needle", "job-1", "nowhere")),
            "since": NOW + chance.randrange(100),
            "until": NOW + chance.randrange(100),
            "flow": chance.choice(("flow", "flow", "none")),
        }
        names = chance.sample(list(given), chance.choice((1, 1, 2, 2, 3)))
        yield Filter(**{name: given[name] for name in names})


def found(engine: Engine, which: Filter, limit: int, reach: int | None) -> list[str]:
    """All pages together. One that is short has a cursor only where the search may end early."""
    names: list[str] = []
    cursor = None
    for _ in range(2 * JOBS):
        page = engine.queries.find(which, limit, cursor, reach)
        assert len(page.jobs) <= limit
        assert reach is not None or page.cursor is None or len(page.jobs) == limit
        names += [job.id for job in page.jobs]
        if page.cursor is None:
            return names
        cursor = page.cursor
    raise AssertionError(f"the pages of {which} never end")


@pytest.mark.needs("transfer")
@pytest.mark.slow_on("postgres")
@pytest.mark.parametrize("few", [0, 10, 2000])
def test_every_question_has_the_answer_of_a_look_at_every_job(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(search, "FEW", few)
    chance = Random(few)
    jobs = population(chance)
    assert engine.transfer.import_records([JobExport(job, [], []) for job in jobs]) == JOBS
    for which in (EVERYTHING, *questions(jobs, chance)):
        expected = [job.id for job in reversed(jobs) if matches(job, which)]
        for reach in (None, chance.choice((20, 60, 400))):
            assert found(engine, which, chance.choice((7, 20, 200)), reach) == expected, which
        assert engine.queries.count(which).jobs == len(expected), which
        for reach in (chance.randrange(1, JOBS), 100 * JOBS):
            counted = engine.queries.count(which, reach)
            assert counted.jobs == len(expected) if counted.is_exact else counted.jobs <= len(expected), (which, reach)
        assert counted.is_exact, "it had reach enough"


@pytest.mark.needs("transfer")
def test_a_search_that_looks_at_one_job_at_a_time_comes_to_its_end(engine: Engine) -> None:
    jobs = population(Random(1))[:20]
    engine.transfer.import_records([JobExport(job, [], []) for job in jobs])
    for which in (Filter(text="needle"), Filter(tag="red", worker="nobody"), EVERYTHING):
        assert found(engine, which, 5, reach=1) == [job.id for job in reversed(jobs) if matches(job, which)]
