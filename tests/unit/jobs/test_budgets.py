"""Budgets: stored options, sums of reports, and the document of a flow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.jobs.budgets import (
    Budgets,
    FlowSpending,
    Spending,
    budgets_of,
    cost_step,
    costs_of,
    decode_flow,
    with_flow_budget,
)
from headrace.core.jobs.steps import Step


@pytest.mark.parametrize(
    ("options", "budgets"),
    [
        (None, None),
        ("{}", None),
        ('{"timeout":5}', None),
        ('{"redact":["budget"]}', None),
        ('{"budget":5,"timeout":7}', Budgets(5)),
        ('{"flow_budget":"f"}', Budgets(flow_budget="f")),
        ('{"budget":"damaged"}', None),
    ],
)
def test_budgets_are_read_from_stored_options(options: str | None, budgets: Budgets | None) -> None:
    assert budgets_of(options) == budgets


def test_a_flow_is_added_to_options_and_taken_out() -> None:
    assert with_flow_budget(None, "f") == '{"flow_budget":"f"}'
    both = with_flow_budget('{"budget":5,"timeout":null}', "f")
    assert both == '{"budget":5,"timeout":null,"flow_budget":"f"}'
    assert with_flow_budget(both, None) == '{"budget":5,"timeout":null}'
    assert with_flow_budget('{"timeout":5}', None) == '{"timeout":5}'
    assert with_flow_budget(None, None) is None


def test_a_run_counts_with_its_highest_report() -> None:
    steps = [cost_step(5, 3, 0), cost_step(9, 3, 0), cost_step(2, 7, 0), Step("step", "a", 7, 0, "1")]
    assert costs_of(steps) == {3: 9, 7: 2}
    assert costs_of(steps, since=4) == {7: 2}
    assert cost_step(1, 3, 0).name == "1 unit"


@pytest.mark.parametrize(
    ("spending", "exceeded", "text"),
    [
        (Spending(5, 5), False, "5 of 5 units"),
        (Spending(6, 5), True, "6 of 5 units"),
        (Spending(1500), False, "1,500 units"),
        (Spending(0, 1), False, "0 of 1 unit"),
    ],
)
def test_what_is_used_of_a_budget(spending: Spending, exceeded: bool, text: str) -> None:
    assert (spending.is_exceeded, spending.text) == (exceeded, text)


REPORTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.integers(0, 50)), max_size=20)


@given(REPORTS)
def test_a_flow_counts_each_run_once_however_often_it_reports(reports: list[tuple[str, int, int]]) -> None:
    flow, highest = FlowSpending(100), dict[tuple[str, int], int]()
    for job, version, units in reports:
        flow = flow.reported(job, {version: units}).reported(job, {version: units})
        highest[job, version] = max(units, highest.get((job, version), 0))
    assert flow.spending == Spending(sum(highest.values()), 100)
    assert flow.without({"a"}).spending == flow.spending
    assert flow.without({"a"}).jobs == flow.jobs - {"a"}
    assert decode_flow(flow.encoded()) == flow
