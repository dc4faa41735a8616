"""The state of an alert from one evaluation to the next, its notifications, and the default rules."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from msgspec import json

from headrace.core.alerts.alert import (
    AlertRow,
    AlertRuleRow,
    AlertTransition,
    SilenceRow,
    acknowledge,
    evaluate,
    format_summary,
    is_removable,
    key_of,
    resolve,
    step,
    trigger,
)
from headrace.core.alerts.conditions import Evaluation
from headrace.core.alerts.defaults import SHIPPED
from headrace.core.alerts.expressions import parsed
from headrace.core.alerts.rules import rule
from headrace.core.metrics import values
from headrace.core.metrics.catalog import METRICS
from headrace.core.metrics.cells import COUNTS
from tests.unit.alerts.test_expressions import Figures

MINUTE, HOUR = 60_000, 3_600_000
RULE = AlertRuleRow(name="depth", when="depth > 10", for_=MINUTE, cooldown=10 * MINUTE)


class Story:
    """One alert over time; what happened at each look."""

    def __init__(self, rule: AlertRuleRow = RULE) -> None:
        self.rule = rule
        self.alert: AlertRow | None = None
        self.looks = 0

    def look(self, minute: float, holds: bool | None, muted: bool = False) -> tuple[str | None, bool]:
        self.looks += 1
        answer = Evaluation(holds, {"depth": None if holds is None else 11.0 if holds else 1.0})
        return self.take(step(self.rule, {}, self.alert, answer, at(minute), f"id{self.looks}", muted))

    def take(self, done: AlertTransition) -> tuple[str | None, bool]:
        self.alert = done.alert
        return done.action, done.notify

    @property
    def state(self) -> str | None:
        return None if self.alert is None else self.alert.state


def at(minute: float) -> int:
    return 1_700_000_000_000 + round(minute * MINUTE)


def test_it_fires_when_it_has_held_for_so_long_and_is_resolved_when_it_does_not_hold() -> None:
    story = Story()
    assert story.look(0, True) == (None, False)
    assert story.state == "pending"
    assert story.look(0.9, True) == (None, False)
    assert story.look(1, True) == ("raised", True)
    assert story.alert is not None
    assert (story.state, story.alert.since, story.alert.fired_at) == ("firing", at(0), at(1))
    assert story.alert.summary == "depth is 11 (depth > 10)"
    assert story.look(2, True) == (None, False)
    assert story.look(3, False) == ("resolved", True)
    assert (story.state, story.alert.resolved_at, story.alert.id) == ("resolved", at(3), "id1")


def test_what_ends_before_it_fires_leaves_nothing() -> None:
    story = Story()
    story.look(0, True)
    assert story.look(0.5, False) == (None, False)
    assert story.alert is None
    story.look(0.6, True)
    assert story.look(1.5, True) == (None, False), "its time begins anew"


def test_without_a_time_to_hold_it_fires_at_once() -> None:
    assert Story(AlertRuleRow(name="x", when="depth > 10")).look(0, True) == ("raised", True)


def test_it_is_notified_again_after_its_cooldown_until_it_is_acknowledged() -> None:
    story = Story()
    notified = [minute for minute in range(60) if story.look(minute, True)[1]]
    assert notified == [1, 11, 21, 31, 41, 51]
    assert story.alert is not None
    assert story.alert.notified == 6
    story.take(acknowledge(story.alert, at(60), "kim", "on it"))
    assert [minute for minute in range(61, 120) if story.look(minute, True)[1]] == []
    assert (story.state, story.alert.acknowledged_by, story.alert.note) == ("acknowledged", "kim", "on it")
    assert story.look(121, False) == ("resolved", True)


def test_one_that_comes_and_goes_is_notified_once_in_its_cooldown() -> None:
    story = Story(AlertRuleRow(name="x", when="depth > 10", cooldown=10 * MINUTE))
    notified = [(minute, action[0]) for minute in range(24) if (action := story.look(minute, minute % 2 == 0))[1]]
    assert notified == [
        (0, "raised"),
        (1, "resolved"),
        (10, "raised"),
        (11, "resolved"),
        (20, "raised"),
        (21, "resolved"),
    ]
    assert story.look(26, True) == ("raised", False), "it is shown all the same"


def test_one_that_came_back_too_early_is_notified_after_its_cooldown() -> None:
    story = Story(AlertRuleRow(name="x", when="depth > 10", cooldown=10 * MINUTE))
    story.look(0, True)
    story.look(1, False)
    assert [story.look(minute, True)[1] for minute in (2, 9, 10)] == [False, False, True]


def test_no_figure_changes_nothing_and_is_no_secret() -> None:
    story = Story()
    assert story.look(0, None) == (None, False)
    assert story.alert is None
    story.look(1, True)
    story.look(2, True)
    assert story.look(3, None) == (None, False)
    assert story.alert is not None
    assert (story.state, story.alert.no_data_since) == ("firing", at(3))
    story.look(4, True)
    assert story.alert.no_data_since is None


def test_an_hour_without_data_ends_it_with_a_notification() -> None:
    story = Story()
    story.look(0, True)
    story.look(1, True)
    story.look(2, None)
    assert story.look(61, None) == (None, False)
    assert story.look(62, None) == ("resolved", True)
    assert story.alert is not None
    assert story.alert.resolved_by == "no data for an hour"


def test_while_silenced_it_does_not_notify_and_afterwards_at_once() -> None:
    story = Story()
    story.look(0, True, muted=True)
    assert story.look(1, True, muted=True) == ("raised", False)
    assert story.look(30, True, muted=True) == (None, False)
    assert story.look(31, True) == ("raised", True)
    silent = Story()
    silent.look(0, True, muted=True)
    silent.look(1, True, muted=True)
    assert silent.look(2, False) == ("resolved", False), (
        "without a notification of its beginning there is none of its end"
    )


def test_a_silence_mutes_what_matches_until_it_is_over() -> None:
    whom = ("depth", {"queue": "mail", "team": "ops"})
    silence = SilenceRow(id="s", at=0, until=100, rule="depth", labels={"queue": "mail", "team": "ops"})
    assert silence.mutes(*whom, 99)
    assert not silence.mutes(*whom, 100)
    assert not SilenceRow(id="s", at=0, until=100, rule="other").mutes(*whom, 1)
    assert not SilenceRow(id="s", at=0, until=100, labels={"queue": "other"}).mutes(*whom, 1)
    assert SilenceRow(id="s", at=0, until=100).mutes(*whom, 1)


def test_one_that_is_over_is_remembered_for_its_cooldown() -> None:
    story = Story()
    story.look(0, True)
    story.look(1, True)
    assert story.alert is not None
    over = resolve(story.alert, at(2), by="kim").alert
    assert over is not None
    assert over.resolved_by == "kim"
    assert [is_removable(over, 10 * MINUTE, at(minute)) for minute in (10, 11)] == [False, True]
    assert not is_removable(story.alert, 10 * MINUTE, at(99)), "it is open"


def test_a_wrong_clock_blocks_no_notification_and_no_end_of_an_alert() -> None:
    year = 365 * 24 * 60
    pending, firing, blind = Story(), Story(), Story()
    pending.look(year, True)
    assert [pending.look(minute, True) for minute in (0, 1)] == [(None, False), ("raised", True)]
    for minute in (year - 1, year):
        firing.look(minute, True)
        blind.look(minute, True)
    assert [firing.look(minute, True)[0] for minute in (0, 9, 10)] == [None, None, "repeated"]
    blind.look(year, None)
    assert [blind.look(minute, None)[0] for minute in (0, 60)] == [None, "resolved"]
    assert blind.alert is not None
    assert is_removable(blind.alert, 10 * MINUTE, at(60))


def test_one_that_is_raised_by_hand_is_notified_once_in_its_cooldown() -> None:
    rule = AlertRuleRow(name="deploy", when="", summary="the deploy failed", cooldown=MINUTE)
    first = trigger(rule, {"host": "a"}, None, at(0), "id1", False)
    assert first.alert is not None
    assert (first.action, first.notify, first.alert.summary, first.alert.by_hand) == (
        "raised",
        True,
        rule.summary,
        True,
    )
    second = trigger(rule, {"host": "a"}, first.alert, at(0.5), "id2", False)
    assert (second.action, second.notify, second.alert and second.alert.id) == (None, False, "id1")
    assert trigger(rule, {"host": "a"}, second.alert, at(1), "id3", False).action == "repeated"


def test_a_rule_per_queue_looks_at_each_queue_and_at_those_it_has_alerts_of() -> None:
    class Queues(Figures):
        def labels(self, per: tuple[str, ...], window: int | None) -> list[dict[str, str]]:
            return [{"queue": "mail"}, {"queue": "slow"}]

    rule = AlertRuleRow(name="depth", when="depth > 10", per=("queue",))
    found = evaluate(rule, Queues(depth=11.0), [{"queue": "gone"}, {"queue": "mail"}, {}])
    assert sorted(series["queue"] for series, _ in found) == ["gone", "mail", "slow"]
    assert all(answer.holds for _, answer in found)


def test_keys_distinguish_label_sets() -> None:
    assert key_of("r", {"a": "1", "b": "2"}) == key_of("r", {"b": "2", "a": "1"})
    assert key_of("r", {"a": "1"}) != key_of("r", {"a": "2"}) != key_of("r", {})


@pytest.mark.parametrize(
    ("threshold", "window", "when"),
    [
        (0.05, 300, "error_rate[300s] > 0.05"),
        (4e-7, timedelta(days=30), "error_rate[2592000s] > 0.0000004"),
        (0.123456789, 60.5, "error_rate[60.5s] > 0.123456789"),
        (2.0, None, "error_rate > 2"),
        ("5%", "5m", "error_rate[5m] > 5%"),
    ],
)
def test_a_condition_in_parts_is_as_exact_as_it_was_given(threshold: Any, window: Any, when: str) -> None:
    assert rule("x", {"metric": "error_rate", "threshold": threshold, "window": window}).when == when


def test_every_metric_has_a_source_that_can_be_computed() -> None:
    assert {one.name for one in METRICS.values() if one.source == "count"} == set(COUNTS)
    assert {one.of for one in METRICS.values() if one.source == "rate"} <= set(COUNTS)
    assert {one.name for one in METRICS.values() if one.source != "alert"} == set(values.NAMES)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_rule_can_be_read_and_kept(name: str) -> None:
    rule = SHIPPED[name]
    condition = parsed(rule.when)
    assert all(set(rule.per) & set(one.metric.labels) for one in condition.metrics()[:1] if rule.per)
    assert json.decode(json.encode(rule), type=AlertRuleRow) == rule
    assert rule.summary


@pytest.mark.parametrize(
    ("name", "calm", "bad"),
    [
        ("queue_depth", {"depth": 1000}, {"depth": 1001}),
        ("error_rate", {"error_rate": 1.0, "started": 19}, {"error_rate": 0.051, "started": 20}),
        ("no_worker", {"depth": 0, "workers": 0}, {"depth": 1, "workers": 0}),
        ("slow_queue", {"throughput": 1, "usual_throughput": 10, "depth": 5},
         {"throughput": 0.9, "usual_throughput": 10, "depth": 5}),
        ("slow_task", {"run_p99": 3, "usual_run_p99": 1.5, "completed": 99},
         {"run_p99": 3.1, "usual_run_p99": 1.5, "completed": 99}),
        ("schedule_misses", {"schedule_misses": 0.01}, {"schedule_misses": 0.011}),
        ("workers_unhealthy", {"workers_healthy": 0.8}, {"workers_healthy": 0.79}),
        ("store_space", {"store_share": 0.85}, {"store_share": 0.86}),
        ("dead_letters", {"dead": 100}, {"dead": 101}),
    ],
)  # fmt: skip
def test_shipped_rules_hold_where_they_should(name: str, calm: dict[str, Any], bad: dict[str, Any]) -> None:
    condition = parsed(SHIPPED[name].when)
    assert condition.evaluate(Figures(**calm), {}).holds is False
    assert condition.evaluate(Figures(**bad), {}).holds is True
    assert condition.evaluate(Figures(), {}).holds is None


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ("queue {queue} has {depth} pending jobs", "queue mail has 1,204 pending jobs"),
        ("{depth:job is|jobs are} pending", "queue mail: 1,204 jobs are pending"),
        ("busy", "queue mail: busy (depth is 1,204)"),
        ("queue {queue} is busy", "queue mail is busy (depth is 1,204)"),
        ("{color} {depth", "queue mail: {color} {depth (depth is 1,204)"),
        (None, "queue mail: depth is 1,204 (depth > 10)"),
    ],
)
def test_a_summary_is_a_sentence_with_labels_and_figures(summary: str | None, expected: str) -> None:
    rule = AlertRuleRow(name="deep", when="depth > 10", per=("queue",), summary=summary)
    assert format_summary(rule, {"queue": "mail"}, {"depth": 1204.0}) == expected


def test_shipped_summaries_name_the_task_the_number_and_the_reason() -> None:
    labels = {"task": "mail.receipt", "reason": "attempts_used_up"}
    told = [format_summary(SHIPPED["dead_letter"], labels, {"dead_entered[5m]": number}) for number in (1.0, 138.0)]
    assert told == [
        "mail.receipt: 1 job failed for good in 5 minutes (attempts used up)",
        "mail.receipt: 138 jobs failed for good in 5 minutes (attempts used up)",
    ]
    figures = {"run_p99[5m]": 3.0, "baseline(run_p99[5m])": 1.0, "completed[5m]": 30.0}
    slow = format_summary(SHIPPED["slow_task"], {"task": "resize"}, figures)
    assert slow.startswith("task resize takes 3")
    failing = format_summary(
        SHIPPED["error_rate"], {"queue": "payments"}, {"error_rate[5m]": 0.202, "started[5m]": 99.0}
    )
    assert failing == "queue payments: 20.2% of the attempts failed in 5 minutes"
    assert SHIPPED["dead_letter"].severity == "warning"
    assert SHIPPED["dead_letter_burst"].severity == "critical"


def test_every_shipped_summary_has_values_for_its_placeholders() -> None:
    for shipped in SHIPPED.values():
        names = re.findall(r"\{(\w+)", shipped.summary or "")
        assert [name for name in names if name not in shipped.per if name not in shipped.when] == [], shipped.name
