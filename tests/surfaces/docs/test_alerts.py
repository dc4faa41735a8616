"""The pages on alerts list every metric and every shipped rule, as they are."""

from __future__ import annotations

import inspect
import re

import pytest

import headrace
from docs.tools.page import pages, table_rows
from headrace.app.alerts.alerts import Alerts
from headrace.app.alerts.channels import AlertChannels
from headrace.app.alerts.rules import AlertRules
from headrace.core.alerts.defaults import SHIPPED
from headrace.core.metrics.catalog import METRICS
from headrace.runtime.jobs.async_twin import twin

PAGES = {page.name: page for page in pages()}
ALERTS, API = PAGES["docs/reference/alerts.md"], PAGES["docs/reference/api.md"]
FACADES = {"Alerts": Alerts, "AlertRules": AlertRules, "AlertChannels": AlertChannels}
RECORDS = ("Alert", "AlertChange", "AlertChannel", "AlertReading", "AlertRule", "AlertSilence")


def test_every_metric_is_listed_as_it_is() -> None:
    rows = table_rows(ALERTS.section("Metrics"))
    assert [(row[0].strip("`"), row[1], row[2], row[3] == "a window", row[4]) for row in rows] == [
        (one.name, one.meaning, one.unit or "number", one.timed, ", ".join(one.labels) or "-")
        for one in METRICS.values()
    ]


def test_every_shipped_rule_is_listed_as_it_is() -> None:
    rows = table_rows(ALERTS.section("Shipped rules"))
    assert [(row[0].strip("`"), row[1].strip("`"), row[4], row[5].replace("\\|", "|")) for row in rows] == [
        (rule.name, rule.when, rule.severity, rule.summary) for rule in SHIPPED.values()
    ]
    assert {rule.cooldown for rule in SHIPPED.values()} == {3_600_000}


@pytest.mark.parametrize("name", FACADES)
def test_every_call_is_listed_with_its_signature_and_every_twin_by_its_name(name: str) -> None:
    told = set(re.findall(r"`([^`\n]+)`", API.section(name)))
    for member, value in vars(FACADES[name]).items():
        if inspect.isfunction(value) and not member.startswith("_"):
            parameters = list(inspect.signature(value).parameters.values())[1:]
            bare = inspect.Signature([one.replace(annotation=inspect.Parameter.empty) for one in parameters])
            assert f"{member}{bare}" in told
        elif isinstance(value, twin):
            assert member in told


@pytest.mark.parametrize("name", RECORDS)
def test_every_field_of_a_record_is_listed(name: str) -> None:
    section = API.section(name)
    assert [field for field in getattr(headrace, name).__struct_fields__ if f"`{field}`" not in section] == []
