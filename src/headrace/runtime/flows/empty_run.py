"""The run of a flow without jobs, such as that of an empty group: completed from the start, and nowhere stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from headrace.core.clock import SystemClock
from headrace.core.jobs import ids
from headrace.core.jobs.dependencies import Dependency, FlowRow, FlowSummary
from headrace.core.jobs.records import Filter, JobRow
from headrace.core.jobs.states import Trigger
from headrace.runtime.jobs.flow_run import FlowRun
from headrace.runtime.jobs.services import JobServices


class _NoJobs:
    """Answers a run of no jobs: it has the part of JobServices that a FlowRun without jobs uses."""

    def __init__(self, summary: FlowSummary) -> None:
        self._summary = summary

    def flow_summary(self, flow_id: str) -> FlowSummary:
        return self._summary

    def spending_of_flow(self, flow_id: str, ceiling: int | None = None) -> None:
        return None

    def newest(self, which: Filter) -> JobRow | None:
        return None

    def rows(self, ids: Sequence[str], *, light: bool = True) -> dict[str, JobRow]:
        return {}

    def rows_where(self, which: Filter, *, light: bool = True) -> Iterator[JobRow]:
        return iter(())

    def edges(self, ids: Sequence[str]) -> list[Dependency]:
        return []

    def move(self, which: Filter, event: Trigger, *, without_parents: bool = False) -> Sequence[str]:
        return []


def empty_run(name: str, results: list[Any]) -> FlowRun:
    """A completed run with these results: lists of lists, and nothing in them."""
    now = SystemClock().now()
    summary = FlowSummary(FlowRow(ids.new_id(now), name, now), {})
    return FlowRun(cast(JobServices, _NoJobs(summary)), summary, [], results)
