"""Which chores a worker has, by its settings."""

from __future__ import annotations

from collections.abc import Callable, Collection

from headrace.core.settings.settings import Settings
from headrace.engines.protocol.archive import Archive
from headrace.engines.protocol.engine import Engine
from headrace.runtime.alerts.evaluate import Alerting
from headrace.runtime.dead_letters.auto_requeue import Requeuing
from headrace.runtime.events.trim import Forgetting
from headrace.runtime.maintenance.housekeeping import Capping, Caring
from headrace.runtime.maintenance.loop import Chore
from headrace.runtime.maintenance.process_stats import TellingVitals
from headrace.runtime.metrics.collector import Gathering
from headrace.runtime.retention.staleness import Staleness
from headrace.runtime.retention.sweep_task import Sweeping


def chores_of(
    engine: Engine,
    settings: Settings,
    archive: Callable[[], Archive | None] | None = None,
    removing: Collection[str] = (),
) -> list[Chore]:
    """All of them, each as it is after a start.

    `archive` is where finished jobs go, the store's own if it is not said; `removing` are queues where calls asked for
    their removal.
    """
    chores: list[Chore] = []
    if settings.dead_requeue_after is not None:
        chores.append(Requeuing(engine, settings, settings.dead_requeue_after))
    if settings.archive_check:
        chores.append(Sweeping(engine, settings, settings.archive_check, archive or (lambda: engine.archive), removing))
    if settings.alert_check:
        chores.append(Alerting(engine, settings, settings.alert_check))
    if settings.stale_check:
        chores.append(Staleness(engine, settings, settings.stale_check))
    if settings.metrics:
        chores.append(Gathering(engine, settings))
    if settings.trace_memory:
        from headrace.runtime.maintenance.memory_tracing import TracingMemory  # deferred: hardly anybody wishes for it

        tracing = TracingMemory(settings.trace_memory)
        chores += [tracing, TellingVitals(engine, lambda: tracing.last)]
    else:
        chores.append(TellingVitals(engine))
    chores.append(Caring(engine, settings))
    chores.append(Forgetting(engine, settings))
    if settings.history_limit is not None:
        chores.append(Capping(engine, "history", settings.history_limit))
    if settings.log_limit is not None:
        chores.append(Capping(engine, "logs", settings.log_limit))
    return chores
