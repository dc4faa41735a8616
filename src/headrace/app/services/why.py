"""Why a job is not running now, in one sentence an operator can act on, and the remedy as data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from headrace.app.services.why_waiting import explain_behind, explain_end, explain_waiting
from headrace.core.clock import to_datetime
from headrace.core.damaged_records import items_of
from headrace.core.durations import span_text
from headrace.core.events.history import AttemptError
from headrace.core.jobs.explanation import Explanation, Remedy
from headrace.core.jobs.history_texts import is_cancel_request
from headrace.core.jobs.known_tasks import knows
from headrace.core.jobs.queue_rules import (
    QueueRow,
    QueueRules,
    Rate,
    RateOwner,
    Strategy,
    TaskRules,
    queue_rules,
)
from headrace.core.jobs.records import Filter, JobRow, WorkerRow
from headrace.core.jobs.states import FINAL, State
from headrace.core.jobs.steps import AWAITING, NO_DEADLINE, is_asleep, is_awaiting
from headrace.core.jobs.transfer import StoreStatus
from headrace.core.queues.limits import (
    Limit,
    group_concurrency,
    is_equipped,
    key_concurrency,
    lane_limits_of,
    needs_of,
    unique_limit,
)
from headrace.core.queues.rates import format_rate, has_room, opens_at, units_of
from headrace.core.retention.staleness import StaleFinding
from headrace.core.text import counted
from headrace.engines.protocol.maintenance import StoreView

_MAX_MESSAGE = 200  # characters
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|" + r'"(?:[^"\\]|\\.)*"')
_OWNER_NAMES = {"queue": "queue", "task": "task", "key": "rate key"}


def explain(row: JobRow, store: StoreView, now: int, store_status: StoreStatus | None = None) -> Explanation:
    """The cause, and what can be done. `store_status` is set while the store is closed by a copy."""
    if row.state in FINAL:
        return Explanation(_finished(row), None, explain_end(row, store))
    if row.state is State.RUNNING:
        return Explanation(_running(row, now))
    if store_status is not None:
        return Explanation(_closed(store_status))
    if row.state is State.WAITING:
        return explain_waiting(row, store)
    if row.state is State.PENDING or row.run_at <= now:
        alive = [worker for worker in store.queries.workers() if not worker.is_silent(now)]
        return _pending(row, store, alive, now)
    return _not_due(row, now)


def explain_spooled(where: str, in_front: int, error: str | None) -> str:
    """The sentence for a job in the spool."""
    before = f"{counted(in_front, 'job is', 'jobs are')} in front of it"
    if error is None:
        return f"It waits in the spool of {where}, which is being forwarded now: {before}."
    return (
        f"It waits in the spool of {where}: the server is unavailable ({error}), {before}; "
        "it is forwarded when the server returns."
    )


def explain_stale(found: StaleFinding) -> str:
    """The addition for a stale or nearly stale job."""
    if not found.is_stale:
        return f" It is nearly stale: {found.describe()}."
    if found.action == "review":
        return f" It is stale: {found.describe()}; its policy leaves it for review."
    becomes = "a dead letter" if found.action == "dead" else "failed"
    return f" It is stale: {found.describe()}; the next check makes it {becomes}."


def explain_error(errors: Sequence[AttemptError]) -> str:
    """The addition for a failed job: its last error, stored without secrets."""
    if not errors:
        return ""
    last = errors[-1]
    message = last.message.strip().partition("\n")[0][:_MAX_MESSAGE]
    return f" Its last error was {last.type}: {message}." if message else f" Its last error was {last.type}."


def _finished(row: JobRow) -> str:
    when = to_datetime(row.finished_at)
    reason = f" ({row.reason})" if row.reason else ""
    return f"It is over: {row.state}{reason} at {when:%Y-%m-%d %H:%M:%S} UTC."


def _running(row: JobRow, now: int) -> str:
    if row.lease_until is not None and row.lease_until <= now:
        return f"Worker {row.worker} did not renew its lease; the next worker to check takes it over."
    since = span_text(now - (row.started_at or now))
    how = f"was asked to stop ({row.reason}), and has not ended yet" if is_cancel_request(row.reason) else "is running"
    return f"It {how}: attempt {row.attempt} of {row.max_attempts} on worker {row.worker} for {since}."


def _closed(store_status: StoreStatus) -> str:
    if store_status.kind == "moved":
        return f"The jobs of this store were copied to {store_status.other}; look there, no job starts here."
    return f"This store is being filled from {store_status.other}; its workers start when `headrace copy` ends."


def _not_due(row: JobRow, now: int) -> Explanation:
    left = span_text(row.run_at - now)
    if row.state is State.SCHEDULED and (is_awaiting(row.reason) or is_asleep(row.reason)):
        return _suspended(row, left, now)
    if row.state is State.RETRYING:
        return Explanation(f"It will be retried in {left}: {row.reason}.")
    reason = f" ({row.reason})" if row.reason else ""
    return Explanation(f"It is scheduled to run in {left}{reason}.")


def _suspended(row: JobRow, left: str, now: int) -> Explanation:
    """The sentence for a suspended job."""
    reason = row.reason or ""
    if is_asleep(reason):
        name = reason.partition(": ")[2]
        until = to_datetime(row.run_at)
        label = f" ({name})" if name else ""
        return Explanation(f"It sleeps{label} until {until:%Y-%m-%d %H:%M:%S} UTC, for another {left}.")
    deadline = "" if row.run_at - now > NO_DEADLINE // 2 else f", for at most another {left}"
    event = _QUOTED.match(reason.removeprefix(AWAITING))
    command = f"headrace signal {row.id} {event[0] if event else 'NAME'}"
    remedy = Remedy(verb="send_signal", target=row.id, words="send it with", command=command)
    return Explanation(f"It {reason}{deadline}.", remedy)


def _pending(row: JobRow, store: StoreView, alive: list[WorkerRow], now: int) -> Explanation:
    queues, tasks = store.queries.rules()
    queue = next((queue for queue in queues if queue.name == row.queue), None)
    if queue is not None and queue.paused:
        return Explanation(f"Queue {row.queue!r} is paused.", _resume("queue", row.queue))
    lane_limits = lane_limits_of(row.lane)
    rules_by_task = {task.name: task.rules for task in tasks}
    # A worker that did not know the task has put the job into the lane of the task, which has no rules.
    was_unknown = row.task not in rules_by_task and Limit("task", row.task) in lane_limits
    working = _able_workers(row, alive, was_unknown)
    if isinstance(working, Explanation):
        return working
    of_queue = _rules(queue)
    of_task = rules_by_task.get(row.task, TaskRules())
    if (blocked := _blocked(row, lane_limits, of_queue, of_task, store, now)) is not None:
        return blocked
    busy, slots = sum(worker.running for worker in working), sum(worker.concurrency for worker in working)
    waiting = store.queries.count(Filter(states=(State.PENDING,), queue=row.queue)).jobs
    pending = counted(waiting, "job is pending", "jobs are pending")
    behind = _behind_fresh(row, of_task.strategy or of_queue.strategy)
    if busy >= slots:
        return Explanation(f"All {slots} slots of queue {row.queue!r} are busy; {pending} there.{behind}")
    if rates := _rates(row, lane_limits, of_queue, of_task):
        return _rated(row, rates, pending, store, now)
    return Explanation(f"It is next in line: {pending} in queue {row.queue!r}, {slots - busy} slots are free.{behind}")


def _resume(kind: Literal["queue", "task"], name: str) -> Remedy:
    command = f"headrace {kind}s resume {name}"
    return Remedy(
        verb="resume_queue" if kind == "queue" else "resume_task", target=name, words="resume it with", command=command
    )


def _raise(kind: Literal["queue", "task"], name: str, limit: str) -> Remedy:
    """The remedy for a limit; the operator has to choose the value, so it is not in the sentence."""
    return Remedy(
        verb="raise_queue_limit" if kind == "queue" else "raise_task_limit",
        target=name,
        command=f"headrace {kind}s configure {name} --{limit} {'N/s' if limit.endswith('rate') else 'N'}",
    )


def _behind_fresh(row: JobRow, strategy: Strategy | None) -> str:
    """The addition for a retried job under the strategy fresh_first."""
    if strategy != "fresh_first" or row.attempt == 0:
        return ""
    return " It was tried before, so untried jobs go first (strategy fresh_first)."


def _able_workers(row: JobRow, alive: list[WorkerRow], was_unknown: bool) -> list[WorkerRow] | Explanation:
    """The workers that could run it, or why there is none."""
    if not alive:
        return Explanation("No worker is alive.", _start(row, any_queue=True))
    serving = [worker for worker in alive if worker.serves(row.queue)]
    if not serving:
        return Explanation(f"No live worker serves queue {row.queue!r}.", _start(row))
    knowing = [worker for worker in serving if _knows(worker, row.task, was_unknown)]
    if not knowing:
        return Explanation(
            f"No live worker of queue {row.queue!r} knows task {row.task!r}; deploy one that registers it."
        )
    needs = needs_of(row.lane)
    able = [worker for worker in knowing if is_equipped(_capabilities(worker), needs)]
    if not able:
        return _not_equipped(row, knowing, needs)
    working = [worker for worker in able if worker.state == "running"]
    if not working:
        which = f"queue {row.queue!r}" + (" that has what it needs" if needs else "")
        paused = next((worker.id for worker in able if worker.state == "paused"), None)
        return Explanation(
            f"Every worker of {which} is paused or stopping.", _resume_worker(paused) if paused else None
        )
    return working


def _resume_worker(worker: str) -> Remedy:
    command = f"headrace workers resume {worker}"
    return Remedy(verb="resume_worker", target=worker, words="resume one with", command=command)


def _rules(queue: QueueRow | None) -> QueueRules:
    return queue_rules(None if queue is None else queue.rules)


def _not_equipped(row: JobRow, workers: list[WorkerRow], needs: frozenset[str]) -> Explanation:
    """The explanation for a job if no worker has all its needs."""
    found = {name for worker in workers for name in _capabilities(worker)}
    all_needs, missing = ", ".join(sorted(needs)), ", ".join(sorted(needs - found))
    lack = f"has {missing}, which it needs" if missing else f"has all that it needs together ({all_needs})"
    return Explanation(f"No live worker of queue {row.queue!r} {lack}.", _start(row))


def _start(row: JobRow, *, any_queue: bool = False) -> Remedy:
    """Starting a suitable worker."""
    needs = ",".join(sorted(needs_of(row.lane)))
    command = "headrace worker" + ("" if any_queue else f" -q {row.queue}") + (f" --needs {needs}" if needs else "")
    return Remedy(verb="start_worker", target=row.queue, words="start one with", command=command)


def _blocked(
    row: JobRow, lane_limits: list[Limit], of_queue: QueueRules, of_task: TaskRules, store: StoreView, now: int
) -> Explanation | None:
    """The explanation for a job that a pause or a concurrency limit blocks, None if none does now."""
    if of_task.paused:
        return Explanation(f"Task {row.task!r} is paused.", _resume("task", row.task))
    running = store.rule_store.limit_state(now=now).running
    held = sum(jobs for queue, _, _, jobs in running if queue == row.queue)
    if of_queue.concurrency is not None and held >= of_queue.concurrency:
        remedy = _raise("queue", row.queue, "concurrency")
        return Explanation(_full(f"Queue {row.queue!r}", of_queue.concurrency, held), remedy)
    held = sum(jobs for _, task, _, jobs in running if task == row.task)
    if of_task.concurrency is not None and held >= of_task.concurrency:
        remedy = _raise("task", row.task, "concurrency")
        return Explanation(_full(f"Task {row.task!r}", of_task.concurrency, held), remedy)
    for lane_limit in lane_limits:
        most = key_concurrency(lane_limit, of_queue)
        held = sum(jobs for _, _, lane, jobs in running if lane_limit in lane_limits_of(lane))
        if lane_limit.kind != "key" or held < most:
            continue
        if lane_limit == unique_limit(row.unique_key):
            return explain_behind(row, store)
        if group_concurrency(lane_limit):
            return Explanation(_full("Its group", most, held))
        remedy = _raise("queue", row.queue, "key-concurrency")
        return Explanation(_full(f"Concurrency key {lane_limit.name!r}", most, held), remedy)
    return None


def _full(name: str, most: int, held: int) -> str:
    jobs = counted(most, "job")
    return f"{name} may run {jobs} at the same time, and {held} {'runs' if held == 1 else 'run'} now."


def _rates(row: JobRow, lane_limits: list[Limit], of_queue: QueueRules, of_task: TaskRules) -> dict[RateOwner, Rate]:
    """The rates that apply to it."""
    rates: dict[RateOwner, Rate | None] = {("queue", row.queue): of_queue.rate, ("task", row.task): of_task.rate}
    keys = [lane_limit.name for lane_limit in lane_limits if lane_limit.kind == "rate"]
    rates |= {("key", row.queue, key): of_queue.rate_of_key(key) for key in keys}
    return {owner: rate for owner, rate in rates.items() if rate is not None}


def _rated(row: JobRow, rates: dict[RateOwner, Rate], pending: str, store: StoreView, now: int) -> Explanation:
    """The explanation for a job under rates: when the last of them allows a start, and how to raise that one."""
    full_at = store.rule_store.limit_state(rates, now).full_at
    units = units_of(row.options)
    opens = {
        (owner, window): opens_at(window, moment, needed) // 1000
        for owner, rate in rates.items()
        for window, moment in zip(rate.windows, full_at.get(owner, ()), strict=False)
        if not has_room(window, moment, 1000 * now, needed := units if window.units else 1)
    }
    owner, slowest = max(opens, key=opens.__getitem__, default=next(iter(rates.items())))
    kind, name, *of_key = owner
    remedy = _raise("task" if kind == "task" else "queue", name, "key-rate" if of_key else "rate")
    free_in = span_text(opens[owner, slowest] - now) if opens else ""
    if opens and slowest.units:
        which = f"{counted(units, 'unit')} of {format_rate(slowest)} of {_OWNER_NAMES[kind]} {owner[-1]!r}"
        return Explanation(f"It waits for {which}, free in {free_in}; {pending} in queue {row.queue!r}.", remedy)
    next_start = f", the next one in {free_in}" if opens else ""
    owners = [f"{_OWNER_NAMES[owner[0]]} {owner[-1]!r} starts {format_rate(rate)}" for owner, rate in rates.items()]
    return Explanation(
        f"It waits its turn: {' and '.join(owners)}{next_start}; {pending} in queue {row.queue!r}.", remedy
    )


def _capabilities(worker: WorkerRow) -> list[str]:
    found: list[str] = items_of(worker.capabilities, list)
    return found


def _knows(worker: WorkerRow, task: str, was_unknown: bool) -> bool:
    """Whether it knows the task. An importable task counts until an import has failed."""
    names: list[str] = items_of(worker.tasks, list)
    return task in names if was_unknown else knows(names, task)
