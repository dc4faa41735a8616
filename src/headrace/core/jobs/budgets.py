"""Budgets: how many units a job and the jobs of a flow may report in all.

The reports of a job are steps of the kind "cost": the number is the version of the run's lease, the value what the run
had used by then. Those of a flow are summed in a document, which has the last report of each run.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from headrace.core.damaged_records import read_or
from headrace.core.jobs.steps import Step, StepKind
from headrace.core.text import counted

KIND: StepKind = "cost"
REASON = "budget_exceeded"
_encode = msgspec.json.Encoder().encode


class Budgets(Struct, frozen=True):
    """The ceiling of a job, and the flow whose ceiling counts for it, in its stored options."""

    budget: int | UnsetType = UNSET
    flow_budget: str | UnsetType = UNSET


class Spending(Struct, frozen=True):
    """The units that were reported, and how many may be; None: any."""

    used: int
    ceiling: int | None = None

    @property
    def is_exceeded(self) -> bool:
        return self.ceiling is not None and self.used > self.ceiling

    @property
    def text(self) -> str:
        return (
            counted(self.used, "unit") if self.ceiling is None else f"{self.used:,} of {counted(self.ceiling, 'unit')}"
        )

    def describe(self, whose: str) -> str:
        return f"{whose} has used {self.text}"


class FlowSpending(Struct, frozen=True):
    """The document of a flow: its ceiling, the last report of each run, and the sum of runs that are not listed."""

    ceiling: int
    earlier: int = 0
    runs: dict[str, int] = {}

    @property
    def spending(self) -> Spending:
        return Spending(self.earlier + sum(self.runs.values()), self.ceiling)

    def reported(self, job_id: str, runs: Mapping[int, int]) -> FlowSpending:
        """With these reports of a job's runs, by the version of the run. It counts a run once."""
        own = {f"{version} {job_id}": units for version, units in runs.items()}
        return replace(self, runs=self.runs | {run: max(units, self.runs.get(run, 0)) for run, units in own.items()})

    @property
    def jobs(self) -> set[str]:
        return {_job_of(run) for run in self.runs}

    def without(self, ended: Container[str]) -> FlowSpending:
        """The same sum, without listing the runs of these jobs, which report no more."""
        left = {run: units for run, units in self.runs.items() if _job_of(run) not in ended}
        return replace(self, runs=left, earlier=self.earlier + sum(self.runs.values()) - sum(left.values()))

    def encoded(self) -> str:
        return _encode(self).decode()


def _job_of(run: str) -> str:
    return run.partition(" ")[2]


decode_flow = msgspec.json.Decoder(FlowSpending).decode
_decode = msgspec.json.Decoder(Budgets).decode
_options = msgspec.json.Decoder(dict[str, msgspec.Raw])


def budgets_of(options: str | None) -> Budgets | None:
    """The budgets in the stored options of a job; None if it has none, as most."""
    if options is None or 'budget"' not in options:
        return None
    found = read_or(_decode, options, Budgets())
    return None if found == Budgets() else found


def with_flow_budget(options: str | None, flow: str | None) -> str | None:
    """The stored options of a job, with the flow whose budget counts for it, or without any."""
    if flow is None and budgets_of(options) is None:
        return options
    given: dict[str, object] = dict(_options.decode(options)) if options else {}
    given |= {"flow_budget": flow or UNSET}
    return _encode({name: value for name, value in given.items() if value is not UNSET}).decode()


def cost_step(units: int, version: int, now: int) -> Step:
    """The report of a run that has used so many units in all."""
    return Step(KIND, counted(units, "unit"), version, now, str(units))


def costs_of(steps: Iterable[Step], since: int = 0) -> dict[int, int]:
    """What each run of a job has reported, by its version, of the runs from this version on."""
    costs: dict[int, int] = {}
    for step in steps:
        if step.kind == KIND and step.number >= since:
            costs[step.number] = max(costs.get(step.number, 0), int(step.value or 0))
    return costs
