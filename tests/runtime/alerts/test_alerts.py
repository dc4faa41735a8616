"""Alerts over a store: raised, notified once, acknowledged, silenced, resolved; broken rules; races."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from headrace import AlertNotFound, Headrace, InvalidAlert
from headrace.core.alerts import alert as core
from headrace.core.alerts.defaults import SHIPPED
from headrace.core.documents import Document
from headrace.core.events.event import TYPES
from headrace.core.events.log import EventGroup
from headrace.core.jobs.states import State
from headrace.core.metrics import values
from headrace.runtime.alerts.evaluate import AlertCheck, AlertEvaluation
from headrace.runtime.alerts.inputs import AlertInputs
from headrace.runtime.alerts.store import POST, RULE, AlertStore
from headrace.runtime.maintenance.tasks import maintenance_tasks_of
from headrace.runtime.metrics.reader import MetricsReader
from headrace.runtime.retention.staleness import StaleCheck, last_scan
from headrace.testing import VirtualClock
from tests.support.builders import new_job
from tests.support.waiting import PATIENCE, eventually

DEEP = {"when": "depth > 2", "per": "queue", "cooldown": 60}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Iterator[Headrace]:
    """With no rule but those that a test makes."""
    with Headrace(url, clock=clock, heartbeat=2.0, shutdown_timeout=5.0) as app:
        for name in SHIPPED:
            app.alerts.rules.update(name, enabled=False)
        yield app


def fill(app: Headrace, count: int, queue: str = "mail") -> None:
    now = app.clock.now()
    app.engine.insert([new_job(f"{queue}{n}", queue=queue, created_at=now, run_at=now) for n in range(count)])


def posts(app: Headrace) -> list[Document]:
    return app.engine.document_store.get(POST)


def alert_check_of(app: Headrace) -> AlertCheck:
    maintenance_task = AlertCheck(app.engine, app.settings, 15.0)
    assert 0 <= maintenance_task.do() <= 15.0, "it does not begin with the worker"
    return maintenance_task


def until_it_rests(maintenance_task: AlertCheck) -> float:
    return next(pause for _ in range(1000) if (pause := maintenance_task.do()))


def deeds(app: Headrace) -> list[str]:
    return [change.what for change in reversed(app.alerts.history())]


def test_an_alert_from_its_beginning_to_its_end(
    app: Headrace, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    rule = app.alerts.rules.create("deep", **DEEP, for_=30, severity="critical", labels={"team": "ops"})
    assert (rule.when, rule.for_, rule.cooldown, rule.per, rule.state) == ("depth > 2", 30, 60, ("queue",), "ok")
    fill(app, 3)
    fill(app, 2, "calm")
    assert app.alerts.evaluate() == []
    assert app.alerts.active() == []
    [pending] = app.alerts.active(pending=True)
    assert (pending.state, app.alerts.rules.get("deep").state) == ("pending", "pending")
    clock.advance(30)
    with caplog.at_level(logging.INFO, "headrace.alerts"):
        [raised] = app.alerts.evaluate()
    assert (raised.state, raised.labels, raised.figures) == ("firing", {"team": "ops", "queue": "mail"}, {"depth": 3})
    assert caplog.messages == ["CRITICAL deep: queue mail: depth is 3 (depth > 2)"]
    assert app.alerts.active() == [raised] == app.alerts.active(severity="critical", acknowledged=False)
    assert posts(app) == []
    seen = app.alerts.acknowledge(raised.id, by="kim", note="on it")
    assert (seen.state, seen.acknowledged_by, seen.note) == ("acknowledged", "kim", "on it")
    assert app.alerts.active(acknowledged=False) == []
    clock.advance(3600)
    assert app.alerts.evaluate() == []
    app.queue("mail").clear()
    [over] = app.alerts.evaluate()
    assert (over.state, over.id, over.resolved_at) == (
        "resolved",
        raised.id,
        datetime.fromtimestamp(clock.now() / 1000, UTC),
    )
    assert app.alerts.active(pending=True) == []
    assert deeds(app) == ["raised", "acknowledged", "resolved"]
    groups = [group for _, page in app.engine.events.read(None, 100) for group in page]
    found = [(group.type, group.queue, group.data[0]["id"]) for group in groups if group.type.startswith("alert.")]
    assert found == [("alert.raised", "mail", raised.id), ("alert.cleared", "mail", raised.id)]
    clock.advance(60)
    app.alerts.evaluate()
    with pytest.raises(AlertNotFound, match="there is no alert"):
        app.alerts.get(raised.id)


def test_of_two_concurrent_evaluations_one_notifies(app: Headrace) -> None:
    app.alerts.rules.create("deep", **DEEP)
    fill(app, 3)

    class Slow(AlertInputs):
        """While the first one reckons, another one looks, from beginning to end."""

        def value(self, name: str, labels: Mapping[str, str], window: int | None) -> float | None:
            if not others:
                others.append(1)
                app.alerts.evaluate()
            return super().value(name, labels, window)

    others: list[int] = []
    evaluation = AlertEvaluation(
        AlertStore(app.engine, app.settings, None), Slow(app.engine, app.settings), app.clock.now()
    )
    assert evaluation.finish() == []
    assert deeds(app) == ["raised"]
    assert [alert.notified for alert in app.alerts.active()] == [1]


def test_of_many_concurrent_evaluations_one_notifies_of_each_alert(app: Headrace) -> None:
    app.alerts.rules.create("deep", **DEEP)
    for queue in range(8):
        fill(app, 3, f"q{queue}")
    app.alerts.channels.create("quiet", kind="log", enabled=False)
    app.alerts.rules.update("deep", notify="quiet")
    begin = threading.Barrier(4)

    def look() -> None:
        begin.wait(PATIENCE)
        for _ in range(3):
            queries = AlertStore(app.engine, app.settings, None)
            AlertEvaluation(queries, AlertInputs(app.engine, app.settings), app.clock.now()).finish()

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(look) for _ in range(4)]:
            done.result(PATIENCE)
    assert len(posts(app)) == 8
    assert deeds(app) == ["raised"] * 8
    assert {alert.notified for alert in app.alerts.active()} == {1}


def test_a_worker_skips_a_round_that_another_worker_does(app: Headrace, clock: VirtualClock) -> None:
    first, second = alert_check_of(app), alert_check_of(app)
    app.alerts.rules.create("deep", **DEEP)
    fill(app, 3)
    assert first.do() == 0.0, "there are more rules to look at"
    assert second.do() == 15.0
    assert until_it_rests(first) == 15.0
    clock.advance(10)
    assert (first.do(), second.do()) == (5.0, 5.0)
    clock.advance(5)
    assert (until_it_rests(second), first.do()) == (15.0, 15.0)
    clock.set(datetime.fromtimestamp(clock.now() / 1000, UTC) - timedelta(days=1))
    assert first.do() == 0.0, "a clock that was set back does not stop it"
    assert until_it_rests(first) == 15.0
    assert deeds(app) == ["raised"]


def test_a_round_that_was_frozen_does_not_notify_of_old_inputs(app: Headrace, clock: VirtualClock) -> None:
    for name in ("calm", "deep"):
        app.alerts.rules.create(name, when=f"depth > {2 if name == 'deep' else 1000}")
    fill(app, 3)
    maintenance_task = alert_check_of(app)
    while app.engine.document_store.get("~alert.turn") == []:
        maintenance_task.do()
    for _ in SHIPPED:  # up to the first of our own, for which the depth is read
        assert maintenance_task.do() == 0.0
    app.queue("mail").clear()
    clock.advance(3600)
    until_it_rests(maintenance_task)
    assert deeds(app) == []


def test_a_worker_looks_by_itself(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with Headrace(url) as app, caplog.at_level(logging.WARNING, "headrace.alerts"):
        app.alerts.rules.create("any", metric="depth", op=">=", threshold=1)
        app.queue("mail").pause()
        fill(app, 1)
        with app.worker(alert_check=0.1):
            eventually(lambda: any("WARNING any: depth is 1 (depth >= 1)" in line for line in caplog.messages))
    assert [type(maintenance_task) for maintenance_task in maintenance_tasks_of(app.engine, app.settings)].count(
        AlertCheck
    ) == 1


def test_a_broken_rule_is_logged_once_and_blocks_no_other(app: Headrace, caplog: pytest.LogCaptureFixture) -> None:
    app.alerts.rules.create("deep", **DEEP)
    text = '{"name":"bad","when":"dept > 1"}'
    app.engine.document_store.put([Document(RULE, "bad", 0, text)])
    fill(app, 3)
    with caplog.at_level(logging.ERROR, "headrace.alerts"):
        for _ in range(3):
            app.alerts.evaluate()
    assert len([line for line in caplog.messages if "alert rule bad can't be evaluated" in line]) == 1
    bad = app.alerts.rules.get("bad")
    assert bad.state == "broken"
    assert "did you mean 'depth'?" in (bad.error or "")
    assert [alert.rule for alert in app.alerts.active()] == ["deep"]
    app.engine.document_store.put([Document(RULE, "worse", 0, "no json at all")])
    app.alerts.evaluate()
    assert app.alerts.rules.get("worse").state == "broken"
    for name in ("bad", "worse"):
        app.alerts.rules.update(name, when="depth > 99")
    app.alerts.evaluate()
    assert {app.alerts.rules.get(name).state for name in ("bad", "worse")} == {"ok"}


def test_what_has_no_figure_is_neither_well_nor_ill(app: Headrace) -> None:
    app.alerts.rules.create("slow", when="store_share > 85%")
    assert app.alerts.rules.test("slow")[0].holds is None
    app.alerts.evaluate()
    assert app.alerts.rules.get("slow").state == "no_data"
    assert app.alerts.active(pending=True) == []


def test_shipped_rules_can_be_changed_switched_off_and_be_as_before(app: Headrace) -> None:
    rules = app.alerts.rules
    changed = rules.update("queue_depth", when="depth > 2", for_=0, enabled=True)
    assert (changed.shipped, changed.changed, changed.enabled) == (True, True, True)
    fill(app, 3)
    assert [alert.rule for alert in app.alerts.evaluate()] == ["queue_depth"]
    rules.update("queue_depth", enabled=False)
    [over] = app.alerts.evaluate()
    assert (over.state, over.resolved_by) == ("resolved", "its rule was switched off")
    assert rules.delete("queue_depth")
    again = rules.get("queue_depth")
    assert (again.when, again.changed, again.enabled) == ("depth > 1000", False, True)
    with pytest.raises(InvalidAlert, match="switch it off"):
        rules.delete("queue_depth")
    with pytest.raises(InvalidAlert, match="rule 'queue_depth' exists already"):
        rules.create("queue_depth", when="depth > 1")


def test_the_alerts_of_a_rule_that_is_deleted_or_changed_end(app: Headrace) -> None:
    app.alerts.rules.create("deep", **DEEP)
    app.alerts.rules.create("all", when="depth > 2")
    fill(app, 3)
    app.alerts.evaluate()
    assert app.alerts.rules.delete("deep")
    assert not app.alerts.rules.delete("deep")
    app.alerts.rules.update("all", per="queue")
    done = {(alert.rule, alert.state, alert.resolved_by) for alert in app.alerts.evaluate()}
    assert done == {
        ("deep", "resolved", "its rule was deleted"),
        ("all", "resolved", "its rule was changed"),
        ("all", "firing", None),
    }


def test_a_silence_holds_for_what_it_names_and_until_it_ends(app: Headrace, clock: VirtualClock) -> None:
    app.alerts.rules.create("deep", **DEEP)
    fill(app, 3)
    fill(app, 3, "other")
    silence = app.alerts.silence("deep", labels={"queue": "mail"}, for_=600, by="kim", note="migration")
    assert app.alerts.silences() == [silence]
    app.alerts.evaluate()
    found = {alert.labels["queue"]: (alert.silenced, alert.notified) for alert in app.alerts.active()}
    assert found == {"mail": (True, 0), "other": (False, 1)}
    clock.advance(600)
    app.alerts.evaluate()
    assert {alert.labels["queue"]: alert.notified for alert in app.alerts.active()} == {"mail": 1, "other": 2}
    assert app.alerts.silences() == []
    assert app.alerts.unsilence(app.alerts.silence(for_=timedelta(hours=1)).id)
    assert not app.alerts.unsilence("nobody")


@pytest.mark.engines("sqlite")
def test_a_manual_resolve_is_not_notified_while_it_is_silenced(app: Headrace) -> None:
    app.alerts.trigger("deploy", "it failed", labels={"host": "a"}, notify="log")
    app.alerts.evaluate()
    app.alerts.silence("deploy", for_=600)
    app.alerts.resolve("deploy")
    assert posts(app) == []


def test_one_can_be_ended_by_hand_and_comes_back_quietly(app: Headrace, clock: VirtualClock) -> None:
    app.alerts.rules.create("deep", **DEEP)
    fill(app, 3)
    app.alerts.evaluate()
    assert app.alerts.resolve("deep", by="kim").resolved_by == "kim"
    with pytest.raises(AlertNotFound):
        app.alerts.resolve("deep")
    clock.advance(1)
    [back] = app.alerts.evaluate()
    assert (back.state, back.notified) == ("firing", 0)
    clock.advance(60)
    assert [alert.notified for alert in app.alerts.evaluate()] == [1]


def test_what_no_rule_can_see_is_raised_by_hand(app: Headrace, clock: VirtualClock) -> None:
    how: dict[str, Any] = {"labels": {"host": "a"}, "severity": "critical", "cooldown": 60}
    first = app.alerts.trigger("deploy", "the deploy failed", **how)
    assert (first.state, first.summary, first.labels) == ("firing", "the deploy failed", {"host": "a"})
    assert app.alerts.trigger("deploy", "it failed again", **how).id == first.id
    app.alerts.evaluate()
    assert [alert.id for alert in app.alerts.active()] == [first.id], "no look at rules ends it"
    app.alerts.resolve(first.id, by="kim")
    assert deeds(app) == ["raised", "resolved"]
    app.alerts.trigger("manual", "x")
    app.alerts.rules.create("manual", when="depth > 5")
    assert [(one.rule, one.state) for one in app.alerts.evaluate()] == [("manual", "resolved")], "the rule takes over"
    with pytest.raises(InvalidAlert, match="is the name of a rule"):
        app.alerts.trigger("queue_depth", "no")


@pytest.mark.engines("sqlite")
def test_one_that_is_raised_by_hand_is_remembered_for_its_cooldown(app: Headrace, clock: VirtualClock) -> None:
    def notified() -> int:
        raised = app.alerts.trigger("deploy", "it failed", cooldown=86_400)
        app.alerts.resolve(raised.id)
        return raised.notified

    assert notified() == 1
    for _ in range(3):
        clock.advance(7200)
        app.alerts.evaluate()
    assert notified() == 0
    clock.advance(86_400)
    app.alerts.evaluate()
    assert app.engine.document_store.get("alert") == []
    assert notified() == 1


def test_labels_may_be_as_long_as_is_allowed(app: Headrace) -> None:
    labels = {f"label{number}": "".join(map(chr, range(0x4E00, 0x4E00 + 500))) for number in range(20)}
    others = {**labels, "label7": "another"}
    first, second = (app.alerts.trigger("deploy", "it failed", labels=one) for one in (labels, others))
    assert first.id != second.id
    assert app.alerts.trigger("deploy", "it failed", labels=labels).id == first.id
    assert app.alerts.resolve(first.id).labels == labels
    assert [alert.id for alert in app.alerts.active()] == [second.id]


def test_history_comes_in_pages_and_old_entries_go(app: Headrace, clock: VirtualClock) -> None:
    for place in range(5):
        app.alerts.trigger(f"t{place}", "x")
        clock.advance(1)
    newest = app.alerts.history(limit=2)
    assert [change.alert.rule for change in newest] == ["t4", "t3"]
    assert [change.alert.rule for change in app.alerts.history(limit=2, before=newest[-1].at)] == ["t2", "t1"]
    assert [change.alert.rule for change in app.alerts.history(limit=1, rule="t0")] == ["t0"]
    for place in range(5, 9):  # all of them at one moment
        app.alerts.trigger(f"t{place}", "x")
    seen, page = list[str](), app.alerts.history(limit=2)
    while page:
        seen += [change.alert.rule for change in page]
        page = app.alerts.history(limit=2, cursor=page[-1].cursor)
    assert sorted(seen) == [f"t{place}" for place in range(9)]
    clock.advance(app.settings.alert_keep + 1)
    until_it_rests(alert_check_of(app))
    assert app.alerts.history() == []


# -- figures


def test_the_store_reports_its_current_gauges(app: Headrace, clock: VirtualClock) -> None:
    now = clock.now()
    app.queue("mail").configure(max_length=10)
    app.engine.insert(
        [
            new_job("a", queue="mail", created_at=now - 5000, run_at=now - 5000),
            new_job("b", queue="mail", created_at=now, run_at=now + 9000, state=State.SCHEDULED),
            new_job("c", queue="slow", created_at=now, run_at=now),
        ]
    )

    def read(name: str, window: int | None = None, **labels: str) -> float | None:
        return AlertInputs(app.engine, app.settings).value(name, labels, window)

    assert (read("depth"), read("depth", queue="mail"), read("depth.scheduled"), read("depth.failed")) == (2, 1, 1, 0)
    assert (read("oldest"), read("oldest", queue="slow"), read("oldest", queue="none")) == (5, 0, 0)
    assert (read("fullness", queue="mail"), read("fullness", queue="slow"), read("fullness")) == (0.2, None, 0.2)
    assert (read("workers"), read("workers", queue="mail"), read("workers_healthy")) == (0, 0, None)
    assert (read("dead"), read("dead_entered", 60_000), read("schedule_errors")) == (0, 0, 0)
    assert read("schedules") == 0
    assert (read("partition_errors"), read("archive_errors"), read("stale")) == (0, None, None)
    assert (read("store_bytes") or 0) > 0
    assert read("error_rate", 60_000) is None, "nothing was measured"
    assert read("enqueued", 60_000) is not None
    off = AlertInputs(app.engine, structs.replace(app.settings, metrics=False))
    assert off.value("enqueued", {}, 60_000) is None, "a metric without data is not zero"
    assert off.labels(("task",), None) == []
    assert AlertInputs(app.engine, app.settings).labels(("queue",), None) == [{"queue": "mail"}, {"queue": "slow"}]


@pytest.mark.engines("sqlite")
def test_an_alert_reads_the_figures_of_the_metrics(app: Headrace, clock: VirtualClock) -> None:
    meter = MetricsReader(app.engine, app.settings)
    for _ in range(2):  # an hour ago, and now
        clock.advance(3600)
        now, retention_run = clock.now(), {"archived": 3, "partitions_created": 2, "partitions_detached": 1}
        found = [
            EventGroup(kind, now, "mail", "send", "w", ["x"], [2], [5], [9])
            for kind in TYPES
            if kind.startswith("job.")
        ]
        found += [
            EventGroup("schedule.fired", now, "mail", "send"),
            EventGroup("schedule.skipped", now, "mail", "send"),
        ]
        found += [EventGroup("worker.lost", now, worker="w"), EventGroup("dead.resolved", now, "mail", "send")]
        ends = ("requeued", "permanently_failed", "expired")
        found += [EventGroup("dead.resolved", now, "mail", "send", data=[{"status": end}]) for end in ends]
        found += [EventGroup("stale.checked", now, data=[{"stale_dead": 1, "stale_failed": 2}])]
        found += [EventGroup("stale.failed", now, data=[{"error": "away"}])]
        found += [EventGroup("archive.swept", now, runs=[1500], data=[retention_run])]
        found += [EventGroup("archive.failed", now, runs=[500], data=[{"partition_failures": 1}])]
        app.engine.events.append(found)
    meter.catch_up()
    readings = AlertInputs(app.engine, app.settings)
    for name in values.COUNTED:
        if name != "dead_entered":  # which it counts where they are
            assert readings.value(name, {}, 300_000) == meter.value(name, window=300_000) != 0, name
            assert readings.baseline(name, {}, 3_600_000) == pytest.approx(meter.baseline(name), rel=0.001), name
    assert app.alerts.rules.test(when="archive_failures[5m] > 0")[0].holds


def test_measured_metrics_have_labels_and_a_baseline(app: Headrace, clock: VirtualClock) -> None:
    def work(well: int, ill: int) -> None:
        ids, now = [f"job{n}" for n in range(well + ill)], clock.now()
        who: dict[str, Any] = {"at": now, "queue": "mail", "task": "send", "worker": "w"}
        app.engine.events.append(
            [
                EventGroup("job.started", **who, jobs=ids, waits=[5] * len(ids)),
                EventGroup("job.completed", **who, jobs=ids[:well], runs=[9] * well),
                *([EventGroup("job.attempt_failed", **who, jobs=ids[well:], runs=[9] * ill)] if ill else []),
                EventGroup("job.completed", now, "other", "other", "w", ["x"], runs=[1000]),
            ]
        )

    fill(app, 1)
    work(30, 0)
    clock.advance(3 * 3600)
    work(18, 2)
    app.alerts.rules.delete("error_rate")
    sent = 'completed{task="send"}[1h]'
    app.alerts.rules.create("more", when=f"{sent} > baseline({sent})")
    fired = {(alert.rule, *alert.labels.values()): alert.figures for alert in app.alerts.evaluate()}
    assert fired == {
        ("error_rate", "mail"): {"error_rate[5m]": 0.1, "started[5m]": 20},
        ("more",): {sent: 18, f"baseline({sent})": 10},
    }
    tried = app.alerts.rules.test(when="run_p99{task='other'}[5m] < 1h and started{worker='nobody'} == 0")
    assert [one.holds for one in tried] == [True]
    clock.advance(600)
    assert {alert.rule for alert in app.alerts.evaluate() if alert.state == "resolved"} == {"error_rate"}


def test_dead_letters_raise_an_alert_for_each_task_and_reason(app: Headrace, clock: VirtualClock) -> None:
    app.lifecycle.configure(queue="mail", max_pending=1, on_stale="dead")
    fill(app, 2)
    clock.advance(10)
    app.lifecycle.detect_stale(dry_run=False)
    app.alerts.rules.delete("dead_letter")
    [alert] = app.alerts.evaluate()
    assert (alert.labels["reason"], alert.severity) == ("staleness_timeout", "warning")
    assert alert.figures == {"dead_entered[5m]": 2}
    clock.advance(301)
    assert [alert.state for alert in app.alerts.evaluate()] == ["resolved"]


def test_the_last_check_for_stale_jobs_is_known_to_all(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    app.lifecycle.configure(queue="mail", max_pending=1)
    app.engine.insert(
        [new_job("a", queue="mail", created_at=1, run_at=1), new_job("b", queue="calm", run_at=app.clock.now())]
    )
    maintenance_task = StaleCheck(app.engine, app.settings, 300.0)
    while maintenance_task.do() != 300.0:
        pass
    found = last_scan(app.engine)
    assert found is not None
    assert (found.stale, found.error) == (1, None)
    readings = AlertInputs(app.engine, app.settings)
    assert (readings.value("stale", {}, None), readings.value("stale_errors", {}, None)) == (1, 0)

    def fail() -> None:
        raise RuntimeError("no luck")

    monkeypatch.setattr(maintenance_task, "_continue", fail)
    with pytest.raises(RuntimeError):
        maintenance_task.do()
    found = last_scan(app.engine)
    assert found is not None
    assert (found.stale, found.error) == (1, "RuntimeError: no luck")
    assert AlertInputs(app.engine, app.settings).value("stale_errors", {}, None) == 1


# -- wrong input


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "when: give a condition"),
        ({"when": "depth >"}, "at column 8"),
        ({"when": "depth > 1", "metric": "depth"}, "give either a condition or metric"),
        ({"metric": "depth", "op": "=>", "threshold": 1}, "op: expected one of"),
        ({"metric": "depth", "threshold": None, "op": ">"}, "threshold: expected a number"),
        ({"metric": 5, "threshold": 1}, "metric: expected a name"),
        ({"metric": "depth", "threshold": 1, "window": 60}, "it has no window"),
        ({"when": "depth > 1", "severty": "info"}, "did you mean 'severity'?"),
        ({"when": "depth > 1", "severity": "loud"}, "severity: expected one of info, warning, critical"),
        ({"when": "depth > 1", "for_": -1}, "for: -1 is out of range"),
        ({"when": "depth > 1", "for_": "5m"}, "for: expected seconds"),
        ({"when": "depth > 1", "cooldown": float("nan")}, "cooldown: nan is out of range"),
        ({"when": "depth > 1", "per": "task"}, "no metric in 'depth > 1' can be grouped by task"),
        ({"when": "depth{queue='a'} > 1", "per": "queue"}, "grouped by queue"),
        ({"when": "depth > 1", "per": "host"}, "per: expected queue, task"),
        ({"when": "depth > 1", "per": ["queue", "queue"]}, "names one twice"),
        ({"when": "depth > 1", "labels": {"a b": "c"}}, "is no name of a label"),
        ({"when": "depth > 1", "labels": {"a": "c\nd"}}, "expected a text of one line"),
        ({"when": "depth > 1", "labels": "x"}, "labels: expected at most"),
        ({"when": "depth > 1", "runbook": "javascript:alert(1)"}, "runbook: expected a link"),
        ({"when": "depth > 1", "notify": "nobody"}, "there is no channel 'nobody'; there are log"),
        ({"when": "depth > 1", "enabled": 1}, "enabled: expected True or False"),
    ],
)
@pytest.mark.engines("sqlite")
def test_a_bad_rule_is_refused_and_nothing_is_stored(app: Headrace, fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidAlert) as raised:
        app.alerts.rules.create("mine", **fields)
    assert expected in str(raised.value)
    with pytest.raises(AlertNotFound):
        app.alerts.rules.get("mine")


@pytest.mark.engines("sqlite")
def test_a_wrong_call_is_refused_with_the_reason(app: Headrace) -> None:
    alerts = app.alerts
    for call, expected in (
        (lambda: alerts.rules.create("a b", when="depth > 1"), "is no name of a rule"),
        (lambda: alerts.rules.get("queue_dept"), "did you mean 'queue_depth'?"),
        (lambda: alerts.rules.update("nobody", enabled=True), "there is no alert rule 'nobody'"),
        (lambda: alerts.acknowledge("nobody"), "there is no alert 'nobody'"),
        (lambda: alerts.active(severity="loud"), "severity: expected one of"),
        (lambda: alerts.silence("x"), "give exactly one of them"),
        (lambda: alerts.silence("x", for_=0), "ends within 90 days"),
        (lambda: alerts.silence("x", until=datetime(2000, 1, 1, tzinfo=UTC)), "ends within 90 days"),
        (lambda: alerts.silence("x", for_=5, by="a\nb"), "by: expected a text of one line"),
        (lambda: alerts.trigger("x", ""), "summary: expected a text"),
        (lambda: alerts.trigger("x", "y", notify="nobody"), "there is no channel 'nobody'"),
    ):
        with pytest.raises((InvalidAlert, AlertNotFound)) as raised:
            call()
        assert expected in str(raised.value)


@pytest.mark.engines("sqlite")
def test_everything_can_be_awaited(app: Headrace) -> None:
    async def story() -> list[str]:
        await app.alerts.rules.acreate("deep", **DEEP)
        fill(app, 3)
        await app.alerts.aevaluate()
        [alert] = await app.alerts.aactive()
        await app.alerts.aacknowledge(alert.id)
        await app.alerts.asilence(for_=5)
        await app.alerts.aresolve(alert.id)
        return [change.what for change in await app.alerts.ahistory()]

    assert asyncio.run(story()) == ["resolved", "acknowledged", "raised"]


@pytest.mark.engines("sqlite")
def test_a_state_that_is_written_is_read_as_it_was(app: Headrace) -> None:
    queries = AlertStore(app.engine, app.settings, None)
    app.engine.document_store.put([Document("many", f"{n:04d}", 0, "") for n in range(3500)])
    assert [document.key for document in queries.browse("many")] == [f"{n:04d}" for n in range(3500)]
    rule = core.AlertRuleRow(name="x", when="depth > 1", for_=5, notify=("log",))
    assert queries.put(RULE, "x", 0, rule)
    assert queries.rules()["x"] == rule
