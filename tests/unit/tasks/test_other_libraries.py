"""The words of other libraries are answered with those of headrace, and stay errors."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

from headrace import ConfigError, Headrace, InvalidJob, InvalidSchedule, Job, JobContext, Task
from headrace.core.tasks.options import OPTION_NAMES
from headrace.core.tasks.other_libraries import (
    APP_ATTRIBUTES,
    CONTEXT_ATTRIBUTES,
    JOB_ATTRIBUTES,
    OPTIONS,
    TASK_ATTRIBUTES,
    option_hint,
)
from headrace.testing import enqueued

app = Headrace("memory://")
TABLES: dict[str, tuple[type, dict[str, Any]]] = {
    "a task": (Task, TASK_ATTRIBUTES),
    "an app": (Headrace, APP_ATTRIBUTES),
    "a job": (Job, JOB_ATTRIBUTES),
    "current_job()": (JobContext, CONTEXT_ATTRIBUTES),
}


@app.task
def work(a: int = 1) -> int:
    return a


def test_no_word_of_headrace_is_in_the_tables() -> None:
    assert not set(OPTIONS) & set(OPTION_NAMES)
    for kind, words in TABLES.values():
        assert not set(words) & set(dir(kind))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("countdown", "(Celery's `countdown` is `delay` here)"),
        ("max_retries", "(Celery's `max_retries` is `retry=5`, or Retry(limit=5, ...) here)"),
        ("acks_late", "(Celery's `acks_late` is always on here: a job is done when its result is stored"),
        ("serializer", "(Celery's `serializer` is not needed: arguments are stored as JSON)"),
        ("actor_name", "(Dramatiq's `actor_name` is `name` here)"),
        ("queueing_lock", "(Procrastinate's `queueing_lock` is `unique=Unique(...)` here)"),
    ],
)
def test_an_option_of_another_library_is_refused_with_ours(name: str, told: str) -> None:
    given: Any = {name: 1}
    with pytest.raises(InvalidJob) as call:
        work.using(**given)
    with pytest.raises(ConfigError) as definition:
        app.task(name="x", **given)
    assert f"unknown option {name!r} {told}" in str(call.value)
    assert f"unknown option {name!r} {told}" in str(definition.value)


def test_a_misspelled_option_is_still_corrected() -> None:
    with pytest.raises(InvalidJob, match="did you mean 'priority'"):
        work.using(priorty=1)  # type: ignore[call-arg]


def test_a_schedule_knows_the_words_too() -> None:
    with pytest.raises(InvalidSchedule, match="Celery's `countdown` is `delay` here"):
        app.cron("* * * * *", countdown=1)  # type: ignore[call-arg]
    with pytest.raises(InvalidSchedule, match="did you mean 'cron'"):
        app.cron("* * * * *", croon=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", [*TASK_ATTRIBUTES, "nonsense"])
def test_an_attribute_of_another_library_is_no_attribute_and_says_so(name: str) -> None:
    assert not hasattr(work, name)
    with pytest.raises(AttributeError) as error:
        getattr(work, name)
    assert str(error.value).startswith(f"a task has no {name!r}")


@pytest.mark.parametrize(
    ("owner", "name", "told"),
    [
        ("a task", "send", "Dramatiq's `send` is task.enqueue(...) here"),
        ("an app", "send_task", 'Celery\'s `send_task` is app.enqueue("name", ...) here'),
        ("a job", "return_value", "RQ's `return_value` is job.result() here"),
        ("current_job()", "job_try", "arq's `job_try` is current_job().attempt here"),
    ],
)
def test_each_part_answers_with_its_own_words(owner: str, name: str, told: str) -> None:
    with pytest.raises(AttributeError) as error:
        getattr(object.__new__(TABLES[owner][0]), name)
    assert str(error.value) == f"{owner} has no {name!r}: {told}"


def test_an_error_inside_a_property_is_not_hidden() -> None:
    with pytest.raises(AttributeError, match="_record"):
        _ = object.__new__(Job).id


def test_the_attributes_that_other_code_looks_for_work_as_before() -> None:
    assert copy.copy(work)(2) == 2
    assert inspect.unwrap(work) is work.function
    assert str(inspect.signature(work)) == "(a: 'int' = 1) -> 'int'"
    assert inspect.getdoc(work) is None
    assert work.using(priority=3).name == "work"
    assert not hasattr(work, "__len__")
    bare = object.__new__(Task)
    assert not hasattr(bare, "name")
    with pytest.raises((pickle.PicklingError, TypeError, AttributeError)):
        pickle.dumps(work)
    assert enqueued(app) == []


def test_a_word_that_no_library_has_gives_no_hint() -> None:
    assert (option_hint("nonsense"), option_hint(None)) == ("", "")
