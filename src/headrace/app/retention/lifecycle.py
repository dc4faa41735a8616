"""`app.lifecycle`: lifecycle policies, retention, the archive and stale jobs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

from headrace.app.retention.archive import JobArchive
from headrace.app.retention.archive_records import (
    ArchiveMonth,
    ArchivePartition,
    ArchiveRun,
    ArchiveStats,
    TaskDurations,
)
from headrace.app.retention.lifecycle_records import (
    LifecyclePolicy,
    PolicyLayers,
    StaleJob,
    StateAges,
    policy_layers,
    policy_of,
    stale_job,
    state_ages,
)
from headrace.app.services.services import Services, declared_by
from headrace.core.retention.lifecycle import Kind, Policies, PolicyRow, StoredPolicy, changed_policy
from headrace.core.retention.staleness import AgeStats, StaleFinding, everything
from headrace.core.settings.settings import Settings
from headrace.core.tasks.options import check_limit, check_queue, check_task_name
from headrace.errors import InvalidJob
from headrace.runtime.jobs.async_twin import twin
from headrace.runtime.jobs.job import Job
from headrace.runtime.jobs.task import Task
from headrace.runtime.retention.policies import declare_policies, override_policy
from headrace.runtime.retention.policies import policies as stored_policies
from headrace.runtime.retention.staleness import StaleScan, apply, emit_scan, record_scan

_PAGE = 5000


class Lifecycles:
    """`app.lifecycle`."""

    def __init__(self, services: Services, settings: Settings, tasks: Mapping[str, Task[..., Any, Any]]) -> None:
        self._services = services
        self._settings = settings
        self._archive = JobArchive(services, settings)
        self._tasks = tasks

    # -- policies

    def policy(self, *, task: str | None = None, queue: str | None = None) -> LifecyclePolicy:
        """The policy of jobs of this task in this queue, and where each field is set; without either, of any job."""
        if task is not None:
            check_task_name(task)
        if queue is not None:
            check_queue("queue", queue)
        return policy_of(self._policies(), task, queue)

    def policies(self) -> list[PolicyLayers]:
        """All tasks and queues with a policy, set in code or by an operator."""
        return [policy_layers(row) for row in self._services.policies()]

    def policies_by_name(self) -> dict[tuple[str, str], LifecyclePolicy]:
        """The policy of any job, under ("any", "job"), and of each of those: ("queue", "mail"), ("task", "send")."""
        rows = self._services.policies()
        policies = Policies(rows, self._settings)
        found = {("any", "job"): policy_of(policies, None, None)}
        for row in rows:
            is_task = row.kind == "task"
            found[row.kind, row.name] = policy_of(
                policies, row.name if is_task else None, None if is_task else row.name
            )
        return found

    def configure(self, /, *, task: str | None = None, queue: str | None = None, **fields: Any) -> LifecyclePolicy:
        """Set the policy of a task or a queue, which overrides code and settings; returns the whole policy.

        Fields are those of Lifecycle, and remove_on_complete and remove_on_fail. None means no limit,
        "default" removes a field set before, and omitted fields stay. Workers apply it at their next check.
        """
        kind, name = _named(task, queue)
        store = self._services.engine.document_store
        override_policy(store, kind, name, lambda before: changed_policy(before, fields))
        return self.policy(task=task, queue=queue)

    def reset(self, *, task: str | None = None, queue: str | None = None) -> LifecyclePolicy:
        """Remove all fields that operators set for a task or a queue; returns the remaining policy."""
        kind, name = _named(task, queue)
        override_policy(self._services.engine.document_store, kind, name, lambda _: StoredPolicy())
        return self.policy(task=task, queue=queue)

    def sync(self) -> list[str]:
        """Store the policies declared with @app.task(lifecycle=...); returns the names of new and changed tasks.

        Every worker does this at its start, so that others apply them too. Unknown tasks do not change.
        """
        store = self._services.engine.document_store
        stored = {row.name: row.declared for row in stored_policies(store) if row.kind == "task"}
        declared = declared_by(self._tasks)
        changed = [name for name, policy in declared.items() if policy != stored.get(name, StoredPolicy())]
        declare_policies(store, [PolicyRow("task", name, declared[name]) for name in changed])
        return changed

    # -- retention

    def archive(self, *, dry_run: bool = True) -> ArchiveRun:
        """Archive finished jobs past their retention now; without an archive, delete them.

        Workers do this by themselves. With `dry_run`, the default, nothing changes and the result shows what would.
        """
        return self._archive.run(dry_run)

    @property
    def has_archive(self) -> bool:
        """Whether there is an archive: Redis has none unless `archive_url` names one."""
        return self._services.archive is not None

    def partitions(self) -> list[ArchivePartition]:
        """The partitions of the archive, oldest first."""
        return self._archive.partitions()

    def stats(self) -> ArchiveStats:
        """The size of the archive, and the last retention run of a worker."""
        return self._archive.stats()

    def months(self) -> list[ArchiveMonth]:
        """The number and size of archived jobs by the month they finished in, oldest first."""
        return self._archive.months()

    def durations(self, /, **filters: Any) -> list[TaskDurations]:
        """Run times of archived jobs by task; the filters are those of `app.jobs.find(archived=True)`."""
        return self._archive.durations(filters)

    def export(self, path: str | os.PathLike[str], /, **filters: Any) -> int:
        """Write the matching archived jobs to a file, newest finish first; returns their number.

        `.jsonl` is one job a line with its history and logs, `.parquet` a table, which needs headrace[parquet]. The
        filters are those of `app.jobs.find(archived=True)`. Arguments are written as they are stored.
        """
        return self._archive.export(path, filters)

    def restore(self, job_id: str) -> Job[Any]:
        """Return an archived job with its history to the store, to run again, without its flow and dependencies.

        Raises JobNotFound if it is not in the archive, InvalidJob if a job with its id is in the store.
        """
        return self._archive.restore(job_id)

    def _policies(self) -> Policies:
        return Policies(self._services.policies(), self._settings)

    # -- stale jobs

    def detect_stale(
        self,
        *,
        dry_run: bool = True,
        task: str | None = None,
        queue: str | None = None,
        warnings: bool = False,
        batch_size: int | None = None,
        limit: int | None = None,
    ) -> list[StaleJob]:
        """The stale jobs, most overdue first.

        Nothing changes unless `dry_run` is False; then it applies the on_stale action of each job, `batch_size` jobs
        per commit (default: the setting `stale_batch`), as workers do every `stale_check` seconds. `warnings` adds jobs
        past 75 % of their limit, which do not change. `limit` returns only the stalest; it does not shorten
        the scan.
        """
        size = self._settings.stale_batch if batch_size is None else check_limit("batch_size", batch_size)
        most = None if limit is None else check_limit("limit", limit)
        all_found = self._findings(task, queue)
        if not dry_run and task is queue is None:
            stale = sum(finding.is_stale for finding in all_found)
            record_scan(self._services.engine, stale, len(all_found) - stale)
        wanted = [finding for finding in all_found if warnings or finding.is_stale]
        found = sorted(wanted, key=_staleness, reverse=True)[:most]
        applied: dict[str, bool] = {}
        to_do = [finding for finding in found if finding.is_stale] if not dry_run else []
        for start in range(0, len(to_do), size):
            some = to_do[start : start + size]
            done = apply(self._services.engine, some)
            applied |= {one.job.id: is_done for one, is_done in zip(some, done, strict=True)}
        ended = [one for one in to_do if applied[one.job.id] and not one.job.reviewed]
        actions, lasted = Counter[str](one.action for one in ended), [one.lasted for one in ended]
        emit_scan(self._services.engine, self._settings, actions, lasted)
        return [stale_job(finding, applied.get(finding.job.id, False)) for finding in found]

    def _findings(self, task: str | None, queue: str | None) -> list[StaleFinding]:
        scan = StaleScan(self._services.engine, self._settings, self._services.policies())
        found: dict[str, StaleFinding] = {}  # a job that changes meanwhile may be found twice
        while not scan.is_over:
            found |= {finding.job.id: finding for finding in scan.next_findings()}
        return [
            finding
            for finding in found.values()
            if (task is None or finding.job.task == task) and (queue is None or finding.job.queue == queue)
        ]

    def ages(self) -> list[StateAges]:
        """How long jobs have been in their state, for each open state and queue with jobs."""
        engine, now = self._services.engine, self._services.clock.now()
        query, cursor, ages = everything(now), None, dict[tuple[str, str], AgeStats]()
        while True:
            page = engine.staleness_store.by_age(query, _PAGE, cursor)
            for job in page.jobs:
                key = (job.state, job.queue)
                if key not in ages:
                    ages[key] = AgeStats(job.state, job.queue)
                ages[key].add(job, now)
            cursor = page.cursor
            if cursor is None:
                return [state_ages(ages[key]) for key in sorted(ages)]

    apolicy = twin(policy)
    apolicies = twin(policies)
    apolicies_by_name = twin(policies_by_name)
    aconfigure = twin(configure)
    areset = twin(reset)
    aarchive = twin(archive)
    apartitions = twin(partitions)
    astats = twin(stats)
    amonths = twin(months)
    adurations = twin(durations)
    aexport = twin(export)
    arestore = twin(restore)
    adetect_stale = twin(detect_stale)
    aages = twin(ages)


def _staleness(finding: StaleFinding) -> float:
    return finding.lasted / finding.threshold


def _named(task: str | None, queue: str | None) -> tuple[Kind, str]:
    if (task is None) == (queue is None):
        raise InvalidJob("lifecycle: name either a task or a queue: task='emails.send' or queue='emails'")
    return ("task", check_task_name(task)) if task is not None else ("queue", check_queue("queue", queue))
