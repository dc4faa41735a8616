"""The maintenance tasks of a worker, by its settings."""

from __future__ import annotations

from collections.abc import Callable, Collection

from headrace.core.settings.settings import Settings
from headrace.engines.protocol.archive import Archive
from headrace.engines.protocol.engine import Engine
from headrace.runtime.alerts.evaluate import AlertCheck
from headrace.runtime.dead_letters.auto_requeue import AutoRequeue
from headrace.runtime.events.trim import EventTrim
from headrace.runtime.maintenance.housekeeping import HistoryTrim, Housekeeping
from headrace.runtime.maintenance.loop import MaintenanceTask
from headrace.runtime.maintenance.process_stats import ProcessStatsReport
from headrace.runtime.metrics.collector import MetricsCollector
from headrace.runtime.payloads.payloads import Payloads
from headrace.runtime.retention.staleness import StaleCheck
from headrace.runtime.retention.sweep_task import RetentionTask


def maintenance_tasks_of(
    engine: Engine,
    settings: Settings,
    archive: Callable[[], Archive | None] | None = None,
    removing: Collection[str] = (),
    payloads: Payloads | None = None,
) -> list[MaintenanceTask]:
    """All maintenance tasks, each as it is after a start.

    `archive` receives finished jobs; default is the store's own. `removing` are queues with calls to remove on finish.
    """
    maintenance_tasks: list[MaintenanceTask] = []
    if settings.dead_requeue_after is not None:
        maintenance_tasks.append(AutoRequeue(engine, settings, settings.dead_requeue_after))
    if settings.archive_check:
        maintenance_tasks.append(
            RetentionTask(engine, settings, settings.archive_check, archive or (lambda: engine.archive), removing)
        )
    if payloads is not None and payloads.files is not None:
        from headrace.runtime.retention.payload_sweep import PayloadSweep  # deferred: many apps have no payload store

        stored_in = archive or (lambda: engine.archive)
        maintenance_tasks.append(PayloadSweep(engine, payloads, settings.payload_grace, stored_in))
    if settings.alert_check:
        maintenance_tasks.append(AlertCheck(engine, settings, settings.alert_check))
    if settings.stale_check:
        maintenance_tasks.append(StaleCheck(engine, settings, settings.stale_check))
    if settings.metrics:
        maintenance_tasks.append(MetricsCollector(engine, settings))
    if settings.trace_memory:
        from headrace.runtime.maintenance.memory_tracing import TracingMemory  # deferred: rarely used

        tracing = TracingMemory(settings.trace_memory)
        maintenance_tasks += [tracing, ProcessStatsReport(engine, lambda: tracing.last)]
    else:
        maintenance_tasks.append(ProcessStatsReport(engine))
    maintenance_tasks.append(Housekeeping(engine, settings))
    maintenance_tasks.append(EventTrim(engine, settings))
    if settings.history_limit is not None:
        maintenance_tasks.append(HistoryTrim(engine, "history", settings.history_limit))
    if settings.log_limit is not None:
        maintenance_tasks.append(HistoryTrim(engine, "logs", settings.log_limit))
    return maintenance_tasks
