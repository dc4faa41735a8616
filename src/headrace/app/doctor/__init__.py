"""What is wrong with a store and with what goes on in it, put together in one place for everybody who tells it.

`headrace doctor` and the dashboard show the same findings, each with what to do about it. Looking changes nothing.
"""

from __future__ import annotations

from headrace.app.app import Headrace
from headrace.app.doctor import alerts, keys, schedules, spool, stale, store, work
from headrace.core.health.findings import Finding

__all__ = ["diagnose"]


def diagnose(app: Headrace) -> list[Finding]:
    """Everything that an operator of this app should know, faults and notes; EngineUnavailable if the store is away."""
    alive = [worker for worker in app.workers() if not worker.silent]
    return [
        *app.admin.check(),
        *store.findings(app),
        *work.findings(app, alive),
        *schedules.findings(app, alive),
        *stale.findings(app),
        *alerts.findings(app),
        *keys.findings(app),
        *spool.findings(app.spool),
    ]
