"""The facade of one queue, and the rules of tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from headrace.app.services.services import Services
from headrace.core.clock import to_datetime
from headrace.core.jobs.queue_rules import KeyRules, QueueRow, QueueRules, TaskRules, queue_rules
from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import FINAL, NOT_STARTED, OPEN, State, Trigger
from headrace.core.queues.rates import starts_left
from headrace.core.queues.rules_text import changed, with_key
from headrace.core.retention.lifecycle import StoredPolicy
from headrace.core.tasks.labels import check_label
from headrace.core.tasks.options import check_limit, check_queue, check_task_name
from headrace.engines.protocol.engine import Engine
from headrace.errors import QueueNotEmpty
from headrace.runtime.jobs.async_twin import twin
from headrace.runtime.jobs.job import Job
from headrace.runtime.retention.deleted_queues import deleted_queues, mark_deleted
from headrace.runtime.retention.policies import override_policy


class QueueStats(Struct, frozen=True, kw_only=True):
    """Counts of a queue by state, since when its oldest pending job has been due, and its rules.

    `workers` is the number of live workers that serve it. `starts_left` is the number of jobs its rate allows to start
    now, None without a rate.
    """

    queue: str
    paused: bool
    scheduled: int = 0
    waiting: int = 0
    pending: int = 0
    running: int = 0
    retrying: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    oldest_pending: datetime | None = None
    workers: int = 0
    rules: QueueRules = QueueRules()
    starts_left: int | None = None

    @property
    def condition(self) -> str:
        """Its state in one word, or its problem."""
        return "paused" if self.paused else "open" if self.workers or not self.pending else "unserved"


def all_stats(services: Services) -> list[QueueStats]:
    """The statistics of every queue, by name."""
    known = services.engine.queries.rules().queues
    counts: dict[str, dict[str, Any]] = {row.name: {"paused": row.paused, "rules": _rules_of(row)} for row in known}
    for depth in services.engine.queries.queue_counts():
        found = counts.setdefault(depth.queue, {"paused": False})
        found[depth.state.value] = depth.jobs
        if depth.state is State.PENDING:
            found["oldest_pending"] = to_datetime(depth.oldest)
    unused = {"paused": False, "rules": QueueRules()}
    for name in deleted_queues(services.engine):
        if counts.get(name) == unused:
            del counts[name]
    now = services.clock.now()
    alive = [worker for worker in services.engine.queries.workers() if not worker.is_silent(now)]
    for name, found in counts.items():
        found["workers"] = sum(worker.serves(name) for worker in alive)
    for name, left in _starts_left(
        services, {name: found["rules"] for name, found in counts.items() if "rules" in found}
    ):
        counts[name]["starts_left"] = left
    return [QueueStats(queue=name, **counts[name]) for name in sorted(counts)]


def _starts_left(services: Services, rules: Mapping[str, QueueRules]) -> Iterator[tuple[str, int]]:
    """For each queue with a rate, the number of jobs it allows to start now."""
    rates = {name: known.rate for name, known in rules.items() if known.rate is not None}
    if not rates:
        return
    state = services.engine.rule_store.limit_state({("queue", name): rate for name, rate in rates.items()})
    for name, rate in rates.items():
        yield name, starts_left(rate, state.full_at.get(("queue", name), []), 1000 * services.clock.now())


def _rules_of(row: QueueRow) -> QueueRules:
    return queue_rules(row.rules)


class Queue:
    """A named queue."""

    def __init__(self, name: str, services: Services) -> None:
        self.name = check_queue("queue", name)
        self._services = services

    def stats(self) -> QueueStats:
        """Counts for each state, zero included."""
        found = (stats for stats in all_stats(self._services) if stats.queue == self.name)
        return next(found, QueueStats(queue=self.name, paused=False))

    def length(self) -> int:
        """The number of pending jobs: due and not yet claimed."""
        return self._services.engine.queries.count(Filter(queue=self.name, states=(State.PENDING,))).jobs

    def peek(self, n: int = 10) -> list[Job[Any]]:
        """The next jobs in claim order."""
        return [
            Job(self._services, row)
            for row in self._services.engine.queries.peek(self.name, check_limit("n", n), light=True)
        ]

    def clear(self) -> int:
        """Delete all unfinished jobs that do not run, also scheduled and retrying ones; returns their number."""
        states = tuple(sorted(NOT_STARTED))
        return len(self._services.move(Filter(queue=self.name, states=states), Trigger.DELETE))

    def delete(self) -> int:
        """Delete the queue with its rules and finished jobs; returns the number of these jobs.

        Raises QueueNotEmpty, and changes nothing, if it has unfinished jobs. A new job creates it again.
        """
        queries, row = self._services.engine.queries, self._row()
        if jobs := queries.count(Filter(queue=self.name, states=tuple(sorted(OPEN)))).jobs:
            raise QueueNotEmpty(self.name, jobs)
        deleted = len(self._services.move(Filter(queue=self.name, states=tuple(sorted(FINAL))), Trigger.DELETE))
        if row is None:
            return deleted
        mark_deleted(self._services.engine, self.name)
        if row.paused:
            queries.pause_queue(self.name, False)
        if row.rules:
            self._services.engine.rule_store.set_rules(self.name, QueueRules())
        override_policy(self._services.engine.document_store, "queue", self.name, lambda _: StoredPolicy())
        return deleted

    def pause(self) -> None:
        """Pause the queue: workers claim none of its jobs. Running and prefetched jobs continue."""
        self._services.engine.queries.pause_queue(self.name, True)

    def resume(self) -> None:
        """Resume the queue."""
        self._services.engine.queries.pause_queue(self.name, False)

    @property
    def paused(self) -> bool:
        row = self._row()
        return row is not None and row.paused

    @property
    def rules(self) -> QueueRules:
        """The rules of this queue, read from the store; None means no rule."""
        row = self._row()
        return QueueRules() if row is None else _rules_of(row)

    def configure(self, /, **rules: Any) -> QueueRules:
        """Change rules of this queue; returns all its rules. All workers and callers apply them within a second.

        `weight` is its share of claims relative to other queues. `strategy` is the order of its jobs: priority (the
        default), fifo, lifo, weighted_random or fresh_first; with `ageing`, so many seconds of waiting count as one
        point of priority. `max_length` limits the waiting jobs (scheduled, waiting, pending or retrying); beyond it
        enqueue() raises QueueFull. `rate` limits starts ("10/s"), `burst` the starts at once after a pause,
        `concurrency` the running jobs over all workers. `key_rate`, `key_burst` and `key_concurrency` limit each
        `rate_key` and each `concurrency_key` separately. None removes a rule; omitted rules stay.
        """
        after = changed(self.rules, rules)
        self._services.engine.rule_store.set_rules(self.name, after)
        return after

    def configure_key(self, key: str, /, **rules: Any) -> KeyRules:
        """Change rules of one key of this queue, such as a tenant's; returns all its own rules.

        `rate` and `burst` replace the `key_rate` of the queue for this `rate_key`, `concurrency` its `key_concurrency`
        for this `concurrency_key`; `weight` is how many of its jobs start in each of its turns.
        None removes a rule, so that the one of the queue holds again; omitted rules stay.
        """
        after = with_key(self.rules, check_label("key", key), rules)
        self._services.engine.rule_store.set_rules(self.name, after)
        return after.keys.get(key, KeyRules())

    def _row(self) -> QueueRow | None:
        return next((row for row in self._services.engine.queries.rules().queues if row.name == self.name), None)

    astats = twin(stats)
    alength = twin(length)
    apeek = twin(peek)
    aclear = twin(clear)
    adelete = twin(delete)
    apause = twin(pause)
    aresume = twin(resume)
    aconfigure = twin(configure)
    aconfigure_key = twin(configure_key)

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"


# -- rules of tasks


def rules_of_tasks(engine: Engine) -> dict[str, TaskRules]:
    """The rules of all tasks that have any, by name."""
    return {row.name: row.rules for row in engine.queries.rules().tasks}


def change_task_rules(engine: Engine, name: str, change: Callable[[TaskRules], TaskRules]) -> TaskRules:
    """Change the rules of a task; returns all its rules."""
    after = change(rules_of_tasks(engine).get(check_task_name(name), TaskRules()))
    engine.rule_store.set_rules(name, after)
    return after
