"""A queue's rules are changed one by one, hold for every caller, and say what to do when they refuse."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace import Headrace, InvalidJob, QueueFull, QueueRules, Task
from headrace.testing import drain


@pytest.fixture
def task(app: Headrace) -> Task[..., Any, Any]:
    return app.task(name="x", queue="mail")(lambda: None)


def test_a_queue_takes_so_many_jobs_and_no_more(app: Headrace, task: Task[..., Any, Any]) -> None:
    queue = app.queue("mail")
    assert queue.configure(max_length=2) == QueueRules(max_length=2)
    app.enqueue_many([task.bind(), task.using(delay=60).bind()])
    for enqueue in (task.enqueue, lambda: asyncio.run(task.aenqueue()), lambda: app.enqueue_many([task.bind()])):
        with pytest.raises(QueueFull, match=r"'mail'.*\b2\b.*max_length"):
            enqueue()
    assert app.jobs.count() == 2
    assert task.using(queue="other").enqueue().queue == "other"
    assert drain(app) == 2
    assert task.enqueue().queue == "mail"
    with pytest.raises(QueueFull):
        app.enqueue_many([task.bind()] * 2)


def test_the_rules_are_shown_and_lifted(app: Headrace, task: Task[..., Any, Any]) -> None:
    queue = app.queue("mail")
    assert queue.rules == QueueRules()
    assert queue.stats().rules == QueueRules()
    queue.configure(max_length=1)
    queue.pause()
    assert (queue.rules.max_length, queue.stats().rules.max_length, queue.paused) == (1, 1, True)
    assert [stats.rules.max_length for stats in app.queues()] == [1]

    async def lift() -> QueueRules:
        return await queue.aconfigure(max_length=None)

    assert asyncio.run(lift()) == QueueRules()
    assert queue.paused
    app.enqueue_many([task.bind()] * 3)
    assert queue.length() == 3


def test_the_starts_left_of_a_rate_are_shown(app: Headrace, task: Task[..., Any, Any]) -> None:
    queue = app.queue("mail")
    assert queue.stats().starts_left is None
    queue.configure(rate="1/h", burst=3)
    app.queue("other").configure(key_rate="1/h")
    assert queue.stats().starts_left == 3
    app.enqueue_many([task.bind()] * 2)
    assert drain(app) == 2
    assert {stats.queue: stats.starts_left for stats in app.queues()} == {"mail": 1, "other": None}
    queue.configure(rate="2/h", burst=3)
    assert queue.stats().starts_left == 3, "another rate has rested"


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({}, r"configure\(\) needs at least one rule; rules are max_length"),
        ({"max_lenght": 5}, r"unknown rule 'max_lenght' \(did you mean 'max_length'\?\); rules are max_length"),
        ({"max_length": 0}, "max_length: expected a whole number from 1 to .* got 0"),
        ({"max_length": "5"}, "max_length: expected a whole number .* or None for no limit, got '5'"),
        ({"max_length": 5.0}, "max_length: .* got 5.0"),
        ({"max_length": True}, "max_length: .* got True"),
        ({"max_length": 10**12}, "max_length: .* got 1000000000000"),
    ],
)
def test_a_wrong_rule_is_refused_by_name_and_changes_nothing(
    app: Headrace, rules: dict[str, Any], message: str
) -> None:
    app.queue("mail").configure(max_length=7)
    with pytest.raises(InvalidJob, match=message):
        app.queue("mail").configure(**rules)
    assert app.queue("mail").rules == QueueRules(max_length=7)
