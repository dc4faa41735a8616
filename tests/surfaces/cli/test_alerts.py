"""`headrace alerts`: active alerts, history, acknowledgment; rules, channels, silences; errors."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

import pytest

from headrace import Headrace
from headrace.core.documents import Document
from headrace.runtime.alerts.store import RULE
from tests.runtime.alerts.receivers import web_server
from tests.support.builders import new_job
from tests.support.command_line import Shell


@pytest.fixture
def app(shell: Shell) -> Iterator[Headrace]:
    """A pending job in a queue without a worker, which raises an alert at once."""
    with shell.app() as app:
        now = app.clock.now()
        app.engine.insert([new_job("a", queue="mail", created_at=now, run_at=now)])
        app.alerts.rules.update("no_worker", for_=0)
        yield app


def test_an_alert_is_listed_acknowledged_and_found_by_the_doctor(shell: Shell, app: Headrace) -> None:
    assert shell("alerts").err == "no alert fires\n"
    ran = shell("alerts", "evaluate")
    assert ran.code == 1, "a critical one fires"
    assert ran.out.splitlines()[0].startswith(
        "firing: no_worker: no live worker serves queue mail, where 1 job is pending"
    )
    [alert] = shell("alerts", "--json").json
    assert (alert["rule"], alert["severity"], alert["state"]) == ("no_worker", "critical", "firing")
    assert "no_worker" in shell("alerts", "list", "--severity", "critical", "--unacknowledged").out
    assert shell("alerts", "list", "--severity", "info").err == "no alert fires\n"
    assert f"headrace alerts ack {alert['id']}" in shell("doctor").out
    ran = shell("alerts", "ack", alert["id"], "--by", "kim", "--note", "on it")
    assert ran.out == "acknowledged: no_worker; it resolves when its rule no longer holds\n"
    assert shell("alerts", "evaluate").code == 0
    assert "acknowledged by kim" in shell("doctor").out
    shown = shell("alerts", "show", "no_worker").out
    assert "by kim" in shown
    assert "notified      once" in shown
    assert shell("alerts", "resolve", "no_worker", "--by", "kim").out == "resolved: no_worker\n"
    changes = [line.split()[3] for line in shell("alerts", "history").out.splitlines()[1:]]
    assert changes == ["resolved", "acknowledged", "raised"]
    assert [one["what"] for one in shell("alerts", "history", "-n", "1", "--json").json] == ["resolved"]


def test_rules_are_created_changed_tested_and_deleted(shell: Shell, app: Headrace) -> None:
    made = shell("alerts", "rule", "add", "busy", "--when", "depth > 0", "--per", "queue", "--for", "5m", "--json").json
    assert (made["when"], made["per"], made["for_"], made["state"]) == ("depth > 0", ["queue"], 300, "ok")
    assert "holds  queue mail: depth is 1 (depth > 0)" in shell("alerts", "rule", "test", "busy").out
    tried = shell("alerts", "rule", "test", "--when", "depth > 5", "--json").json
    assert [one["holds"] for one in tried] == [False]
    shell("alerts", "rule", "set", "busy", "--label", "team=ops", "--disabled")
    assert (app.alerts.rules.get("busy").labels, app.alerts.rules.get("busy").state) == ({"team": "ops"}, "off")
    assert "team=ops" in shell("alerts", "rule", "show", "busy").out
    assert shell("alerts", "rule", "delete", "busy").out == "rule busy is deleted\n"
    assert shell("alerts", "rule", "delete", "busy").code == 1
    names = [line.split()[0] for line in shell("alerts", "rules").out.splitlines()[1:]]
    assert {"queue_depth", "no_worker", "store_space"} <= set(names)
    assert shell("alerts", "rule").out == shell("alerts", "rules").out
    assert shell("alerts", "channel").out == shell("alerts", "channels").out


def test_a_broken_rule_is_reported_by_every_command(shell: Shell, app: Headrace) -> None:
    app.engine.document_store.put([Document(RULE, "bad", 0, '{"name":"bad","when":"dept > 1"}')])
    shell("alerts", "evaluate")
    ran = shell("alerts", "rules")
    assert "bad can't be evaluated" in ran.err
    assert "broken" in ran.out
    assert "alert rule 'bad' can't be evaluated" in shell("doctor").out


def test_a_channel_is_created_without_its_secret_on_the_command_line(
    shell: Shell, app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_WEBHOOK_NETWORKS", "127.0.0.0/8")
    with web_server() as hook:
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{hook.url}/hush\n"))
        ran = shell("alerts", "channel", "add", "ops", "--kind", "slack", "--hook", "-")
        assert ran.code == 0, ran.err
        assert shell("alerts", "channel", "test", "ops").out == "channel ops accepted the test message\n"
        hook.status = 500
        failed = shell("alerts", "channel", "test", "ops")
        assert (failed.code, failed.out) == (1, "channel ops failed: the server answered 500\n")
        assert hook.got[0][0] == "/hush"
    assert shell("alerts", "channel", "set", "ops", "--severity", "critical").code == 0
    listed = shell("alerts", "channels")
    assert "hush" not in ran.out + listed.out + shell("alerts", "channels", "--json").out
    app.alerts.trigger("x", "y", severity="critical", notify="ops")
    shell("alerts", "evaluate")
    assert "ops failed to send" in shell("alerts", "channels").err
    assert "notifications to channel 'ops' fail" in shell("doctor").out
    assert shell("alerts", "channel", "delete", "ops").out == "channel ops is deleted\n"


def test_silences_are_created_listed_and_ended(shell: Shell, app: Headrace) -> None:
    made = shell("alerts", "silence", "no_worker", "--label", "queue=mail", "--for", "2h", "--by", "kim", "--json").json
    assert (made["rule"], made["labels"], made["by"]) == ("no_worker", {"queue": "mail"}, "kim")
    assert "queue=mail" in shell("alerts", "silences").out
    shell("alerts", "evaluate")
    assert "firing (silenced)" in shell("alerts").out
    assert shell("alerts", "unsilence", made["id"]).out == "the silence has ended\n"
    assert shell("alerts", "unsilence", made["id"]).code == 1
    assert shell("alerts", "silences").err == "nothing is silenced\n"


def test_an_alert_is_raised_by_hand(shell: Shell, app: Headrace) -> None:
    ran = shell("alerts", "trigger", "deploy", "it failed", "--label", "host=a", "--severity", "critical")
    assert ran.out.startswith("firing: deploy, ")
    assert [alert.labels for alert in app.alerts.active()] == [{"host": "a"}]


def test_every_action_prints_json(shell: Shell, app: Headrace) -> None:
    assert shell("alerts", "history").err == "there is no history yet\n"
    ran = shell("alerts", "evaluate", "--json")
    assert (ran.code, [one["rule"] for one in ran.json["changed"]]) == (1, ["no_worker"])
    assert [one["id"] for one in ran.json["firing"]] == [one["id"] for one in ran.json["changed"]]
    shown = shell("alerts", "show", "no_worker", "--json").json
    assert (shown["labels"], shown["state"], shown["notified"]) == ({"queue": "mail"}, "firing", 1)
    seen = shell("alerts", "ack", "no_worker", "--by", "kim", "--json").json
    assert (seen["id"], seen["acknowledged_by"]) == (shown["id"], "kim")
    over = shell("alerts", "resolve", "no_worker", "--by", "kim", "--json").json
    assert (over["id"], over["resolved_by"]) == (shown["id"], "kim")
    raised = shell("alerts", "trigger", "deploy", "it failed", "--json").json
    assert (raised["rule"], raised["summary"], raised["severity"]) == ("deploy", "it failed", "warning")
    assert [alert.id for alert in app.alerts.active()] == [raised["id"]]


def test_silences_are_printed_as_json_and_as_a_table(shell: Shell, app: Headrace) -> None:
    made = shell("alerts", "silence", "--for", "30m")
    [silence] = shell("alerts", "silences", "--json").json
    assert made.out.startswith(f"{silence['id']}: silent until ")
    assert (silence["rule"], silence["labels"]) == (None, {})
    assert [shell("alerts", "unsilence", silence["id"], "--json").json for _ in range(2)] == [
        {"ended": True},
        {"ended": False},
    ]
    assert app.alerts.silences() == []


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["rule", "add", "x", "--when", "dept > 1"], 2, "did you mean 'depth'?"),
        (["rule", "add", "x"], 2, "when: give a condition"),
        (["rule", "set", "no_worker"], 2, "say what to change"),
        (["rule", "set", "nobody", "--disabled"], 1, "there is no alert rule 'nobody'"),
        (["rule", "delete", "queue_depth"], 2, "headrace alerts rule set queue_depth --disabled"),
        (["ack", "nobody"], 1, "there is no alert 'nobody'"),
        (["--json", "list"], 2, "put --json after 'list'"),
        (["silence", "--for", "soon"], 2, "'soon' is not a time"),
        (["trigger", "x", "y", "--label", "host"], 2, "'host' is not NAME=TEXT"),
        (["channel", "add", "x", "--kind", "slack"], 2, "needs one that begins with https://"),
        (["channel", "add", "x", "--hook", "https://x"], 2, "give the kind with --kind"),
        (["channel", "set", "log", "--disabled"], 2, "is built in"),
        (["channel", "test", "nobody"], 1, "there is no alert channel 'nobody'"),
    ],
)
def test_wrong_arguments_are_refused_with_an_error(
    shell: Shell, app: Headrace, arguments: list[str], code: int, expected: str
) -> None:
    ran = shell("alerts", *arguments)
    assert ran.code == code
    assert expected in ran.err
