"""A worker never claims a job of a task that it does not know, and says so once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import Headrace, Job
from headrace.core.jobs.known_tasks import KnownTasks
from headrace.runtime.worker import task_lookup
from headrace.runtime.worker.task_lookup import TaskLookup
from tests.support.waiting import PATIENCE


def marks(app: Headrace, *jobs: Job[Any]) -> list[tuple[str, int, int, str | None, int | None]]:
    """The traces of a claim in the store."""
    rows = app.engine.queries.get([job.id for job in jobs])
    return [(row.state, row.version, row.attempt, row.worker, row.started_at) for row in rows]


@pytest.mark.every_engine
def test_a_job_of_an_unknown_task_has_no_event_but_enqueued(app: Headrace, caplog: pytest.LogCaptureFixture) -> None:
    known = app.task(name="known")(lambda: 1)
    strange: list[Job[Any]] = app.enqueue_many([{"task": f"reports.build{number % 3}"} for number in range(9)])
    before = marks(app, *strange)
    with app.worker(concurrency=2):
        assert [known.enqueue().result(PATIENCE) for _ in range(5)] == [1] * 5
    assert marks(app, *strange) == before
    assert {entry.event for job in strange for entry in job.history()} == {"submit"}
    messages = [record.message for record in caplog.records if "is not known to this worker" in record.message]
    assert len(messages) == len(set(messages)) == 3, "each task is logged once"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with one function, `there`."""
    (tmp_path / "headrace_some_release.py").write_text("def there():\n    return 'ran'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "headrace_some_release"


@pytest.mark.parametrize("missing", ["of_the_next_one", "_private", "part.of_the_next_one"])
def test_a_function_that_an_importable_module_lacks_is_never_claimed(module: str, missing: str) -> None:
    with Headrace("memory://", importable=(module,)) as app:
        lacking = app.enqueue(f"{module}.{missing}")
        before = marks(app, lacking)
        with app.worker():
            jobs = [app.enqueue(f"{module}.there") for _ in range(3)]
            assert [job.result(PATIENCE) for job in jobs] == ["ran"] * 3
        assert marks(app, lacking) == before
        assert [entry.event for entry in lacking.history()] == ["submit"]


def test_a_draining_worker_runs_tasks_that_had_to_be_imported_first(module: str) -> None:
    with Headrace("memory://", importable=(module,)) as app:
        jobs = [app.enqueue(f"{module}.there") for _ in range(3)]
        app.run_worker(drain=True)
        assert [(job.refresh().state, job.attempt) for job in jobs] == [("completed", 1)] * 3


# -- how it finds out


def test_a_task_is_looked_up_by_name_and_imported_only_between_claims() -> None:
    imported: list[str] = []
    names = ["add", "jobs.*"]

    def can_run(task: str) -> bool:
        imported.append(task)
        return task != "jobs.missing"

    task_lookup = TaskLookup(lambda: names, can_run)
    tasks: KnownTasks = task_lookup.tasks
    requested = ["add", "sub", "jobs.run", "jobs.missing", "headrace.webhook", "jobs"]
    assert [task in tasks for task in requested] == [True, False, False, False, False, False]
    assert [tasks.excludes(task) for task in requested] == [False, True, False, False, False, True]
    assert (imported, tasks.undecided) == ([], {"jobs.run", "jobs.missing", "headrace.webhook"})
    task_lookup.settle()
    assert (sorted(imported), tasks.undecided) == (["headrace.webhook", "jobs.missing", "jobs.run"], set())
    assert [task in tasks for task in requested] == [True, False, True, False, True, False]
    assert (len(imported), tasks.undecided) == (3, set())


def test_what_was_not_known_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(task_lookup, "time", SimpleNamespace(monotonic=lambda: now))
    names = ["add"]
    tasks = TaskLookup(lambda: names, lambda task: False).tasks
    assert "sub" not in tasks
    names.append("sub")
    assert "sub" not in tasks
    assert tasks.unknown == {"sub"}
    now += 5.0
    assert "sub" in tasks
    assert (tasks.unknown, tasks.known_names) == (set(), "\nsub\n")
    tasks.forget("sub")
    assert tasks.known_names == "\n"


def test_a_task_that_is_forgotten_is_asked_for_again() -> None:
    names = {"add", "sub"}
    lookup = TaskLookup(lambda: names, lambda task: False)
    assert "add" in lookup.tasks
    names.discard("add")
    lookup.forget("add")
    assert "add" not in lookup.tasks
    assert "sub" in lookup.tasks


def test_all_names_are_read_once_for_a_thousand_tasks() -> None:
    names = [f"task-{number}" for number in range(1000)]
    reads = 0

    def all_names() -> list[str]:
        nonlocal reads
        reads += 1
        return names

    lookup = TaskLookup(all_names, lambda task: False)
    assert all(name in lookup.tasks for name in names)
    assert reads == 1
    assert sorted(lookup.tasks.known_names.split()) == sorted(names)
    names.append("new")
    assert "new" in lookup.tasks, "registered since"
