"""Findings about a store and its jobs, for `headrace doctor` and the dashboard.

Each finding has an advice. The checks change nothing.
"""

from __future__ import annotations

from headrace.app.app import Headrace
from headrace.app.doctor import alerts, keys, payloads, schedules, spool, stale, store, work
from headrace.core.health.findings import Finding

__all__ = ["diagnose"]


def diagnose(app: Headrace) -> list[Finding]:
    """All findings of this app, faults and notes; raises EngineUnavailable without the store."""
    alive = [worker for worker in app.workers() if not worker.silent]
    return [
        *app.admin.check(),
        *store.findings(app),
        *work.findings(app, alive),
        *schedules.findings(app, alive),
        *stale.findings(app),
        *alerts.findings(app),
        *keys.findings(app),
        *payloads.findings(app),
        *spool.findings(app.spool),
    ]
