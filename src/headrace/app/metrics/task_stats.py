"""Each task with its metrics, open jobs, newest failure and rules. It does not know how they are shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from msgspec import Struct, structs

from headrace.app.metrics.records import MetricFigures
from headrace.core.clock import to_datetime
from headrace.core.dead_letters.records import DeadLetterFilter, snapshot_of
from headrace.core.jobs.known_tasks import is_reserved
from headrace.core.jobs.queue_rules import TaskRules
from headrace.core.jobs.records import DeadLetterRow, Filter
from headrace.core.jobs.states import State
from headrace.core.tasks.batches import BatchLimits
from headrace.core.tasks.options import check_task_name
from headrace.engines.protocol.engine import Engine

_REACH = 200_000  # jobs that counting the pending jobs of all tasks may read


class TaskStats(Struct, frozen=True, kw_only=True):
    """A task: its open jobs, its metrics of the last hour, its newest pending dead letter, and its rules.

    `known` says whether this process or a live worker has its code. `pending` is a lower bound if `is_exact` is false,
    in a large store. `figures` is None without a job in the last hour. `batch` and `within` are the options of a batch
    task whose code this process has.
    """

    task: str
    known: bool
    paused: bool = False
    pending: int = 0
    is_exact: bool = True
    running: int = 0
    figures: MetricFigures | None = None
    last_failure: datetime | None = None
    last_error: str | None = None
    rules: TaskRules = TaskRules()
    batch: int | None = None
    within: float | None = None


def task_stats(
    engine: Engine,
    now: int,
    known: Collection[str],
    figures: Mapping[str, MetricFigures],
    batches: Mapping[str, BatchLimits],
    only: str | None = None,
) -> list[TaskStats]:
    """Every task that is known, has rules, runs, or had a job in the last hour, by name; with `only`, that one."""
    rules = {row.name: row.rules for row in engine.queries.rules().tasks}
    running: dict[str, int] = {}
    for _, task, _, jobs in engine.rule_store.limit_state(now=now).running:
        running[task] = running.get(task, 0) + jobs
    found = {*known, *rules, *running, *figures} if only is None else {check_task_name(only)}
    names = sorted(name for name in found if not name.endswith(".*") and not is_reserved(name))
    reach = max(_REACH // max(len(names), 1), 1000)
    found_stats = [
        _stats(engine, name, reach, rules.get(name, TaskRules()), running.get(name, 0), name in known, figures)
        for name in names
    ]
    return [_with_batch(stats, batches.get(stats.task)) for stats in found_stats]


def _with_batch(stats: TaskStats, limits: BatchLimits | None) -> TaskStats:
    return stats if limits is None else structs.replace(stats, batch=limits.jobs, within=limits.within)


def _stats(
    engine: Engine,
    name: str,
    reach: int,
    rules: TaskRules,
    running: int,
    known: bool,
    figures: Mapping[str, MetricFigures],
) -> TaskStats:
    pending = engine.queries.count(Filter(task=name, states=(State.PENDING,)), reach)
    newest = engine.dead_letters.find(DeadLetterFilter(statuses=("pending",), task=name), 1)
    return TaskStats(
        task=name,
        known=known,
        paused=rules.paused,
        pending=pending.jobs,
        is_exact=pending.is_exact,
        running=running,
        figures=figures.get(name),
        last_failure=to_datetime(newest[0].entered_at) if newest else None,
        last_error=_error_of(newest[0]) if newest else None,
        rules=rules,
    )


def _error_of(dead_letter: DeadLetterRow) -> str:
    snapshot = snapshot_of(dead_letter)
    message = (snapshot.error_message or "").strip().partition("\n")[0][:200]
    return f"{snapshot.error_type}: {message}" if snapshot.error_type else dead_letter.reason
