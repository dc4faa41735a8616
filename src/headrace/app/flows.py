"""`app.flows`: list flows, and get the handle of one."""

from __future__ import annotations

import builtins

from headrace.app.services.services import Services
from headrace.core.tasks.options import check_limit, check_text
from headrace.runtime.jobs.async_twin import twin
from headrace.runtime.jobs.flow_run import FlowRun


class Flows:
    """`app.flows`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def get(self, flow_id: str) -> FlowRun:
        """The flow with this id, or FlowNotFound."""
        return FlowRun(self._services, self._services.flow_summary(check_text("flow id", flow_id)))

    def list(self, limit: int = 50, before: str | None = None) -> builtins.list[FlowRun]:
        """Flows, newest first; with `before`, those older than the flow of this id, or FlowNotFound."""
        last = None if before is None else self._services.flow_summary(check_text("before", before)).flow.id
        summaries = self._services.engine.flow_store.flows(check_limit("limit", limit), last)
        return [FlowRun(self._services, summary) for summary in summaries]

    aget = twin(get)
    alist = twin(list)
