"""Which chores a worker has, by its settings."""

from __future__ import annotations

from headrace.core.settings import Settings
from headrace.engines.protocol import Engine
from headrace.runtime.caring import Capping, Caring
from headrace.runtime.keeper import Chore
from headrace.runtime.requeuing import Requeuing
from headrace.runtime.staleness import Staleness


def chores_of(engine: Engine, settings: Settings) -> list[Chore]:
    """All of them, each as it is after a start."""
    chores: list[Chore] = []
    if settings.dead_requeue_after is not None:
        chores.append(Requeuing(engine, settings, settings.dead_requeue_after))
    if settings.stale_check:
        chores.append(Staleness(engine, settings, settings.stale_check))
    chores.append(Caring(engine, settings))
    if settings.history_limit is not None:
        chores.append(Capping(engine, "history", settings.history_limit))
    if settings.log_limit is not None:
        chores.append(Capping(engine, "logs", settings.log_limit))
    return chores
