"""`headrace events` and `headrace webhooks`: every option, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from headrace import Headrace
from headrace.testing import drain
from tests.runtime.alerts.receivers import web_server
from tests.support.command_line import Shell, end


@pytest.fixture
def app(shell: Shell) -> Iterator[Headrace]:
    """A store in which two jobs of two tasks have run, in two queues."""
    with shell.app() as app:
        app.task(name="add")(lambda a, b: a + b)
        app.task(name="mail", queue="mail")(lambda: None)
        app.enqueue("add", 1, 2)
        app.enqueue("mail")
        drain(app)
        yield app


def kinds(text: str) -> list[str]:
    return [line.split()[3] for line in text.splitlines()]


# -- events


def test_events_are_shown_the_oldest_first(shell: Shell, app: Headrace) -> None:
    ran = shell("events")
    assert ran.code == 0
    assert sorted(kinds(ran.out)) == sorted(["job.enqueued", "job.started", "job.completed"] * 2)
    assert kinds(ran.out)[:2] == ["job.enqueued"] * 2
    assert "queue=mail task=mail" in ran.out


def test_events_are_chosen_by_type_queue_task_and_number(shell: Shell, app: Headrace) -> None:
    assert kinds(shell("events", "--type", "job.completed").out) == ["job.completed"] * 2
    chosen = shell("events", "--type", "job.enqueued", "--type", "job.started", "-q", "mail")
    assert kinds(chosen.out) == ["job.enqueued", "job.started"]
    assert len(shell("events", "--type", "job.*", "-t", "add").out.splitlines()) == 3
    assert len(shell("events", "-n", "1").out.splitlines()) == 1
    assert "no events match" in shell("events", "--queue", "nowhere").err
    assert shell("events", "--queue", "nowhere", "--json") == (0, "", "")


def test_events_go_on_behind_a_cursor_and_from_a_time_on(shell: Shell, app: Headrace) -> None:
    first, *others = [json.loads(line) for line in shell("events", "--json").out.splitlines()]
    assert set(first) >= {"cursor", "type", "at", "job_id", "task", "queue"}
    behind = [json.loads(line) for line in shell("events", "--json", "--since", first["cursor"]).out.splitlines()]
    assert behind == others
    assert len(shell("events", "--since", "10m").out.splitlines()) == 6
    assert shell("events", "--since", "2999-01-01T00:00:00+00:00").out == ""


def test_events_are_followed_until_ctrl_c(shell: Shell, app: Headrace) -> None:
    process = shell.start("events", "--follow", "--json", "--type", "job.enqueued", "--since", "1h")
    assert process.stdout is not None
    old = [json.loads(process.stdout.readline())["task"] for _ in range(2)]
    assert sorted(old) == ["add", "mail"]
    app.task_by_name("add").using(job_id="new").enqueue(3, 4)
    assert json.loads(process.stdout.readline())["job_id"] == "new"
    assert "Traceback" not in end(process).err
    assert shell.run("events", "-f", "-n", "1", "--since", "1h").out.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--type", "job.exploded"], "there is no event type 'job.exploded'; did you mean"),
        (["--type", "nonsense"], "types are job.enqueued"),
        (["--since", "soon"], "soon"),
        (["--limit", "0"], "--limit"),
        (["--queue", "a b"], "queue"),
        (["--task", "a b"], "task"),
        (["--colour"], "--colour"),
    ],
)
def test_wrong_arguments_of_events_are_refused(
    shell: Shell, app: Headrace, arguments: list[str], expected: str
) -> None:
    ran = shell("events", *arguments)
    assert ran.code != 0
    assert expected in ran.err
    assert "Traceback" not in ran.err


# -- webhooks


def test_a_webhook_is_created_listed_paused_resumed_and_deleted(shell: Shell, app: Headrace) -> None:
    assert "no webhooks" in shell("webhooks").err
    address = "https://example.com/in"
    made = shell("webhooks", "create", address, "--type", "dead.*", "-q", "mail", "-t", "mail", "--json").json
    assert made["secret"].startswith("whsec_")
    assert (made["types"], made["queue"], made["task"]) == (["dead.entered", "dead.resolved"], "mail", "mail")
    [listed] = shell("webhooks", "--json").json
    assert listed == {name: value for name, value in made.items() if name != "secret"}
    shown = shell("webhooks", "list").out
    assert "active" in shown
    assert made["secret"] not in shown
    assert shell("webhooks", "pause", made["id"]).out == f"webhook {made['id']} is paused\n"
    assert shell("webhooks", "pause", made["id"], "--json").json["paused"] is True
    assert "paused" in shell("webhooks", "list").out
    assert shell("webhooks", "resume", made["id"]).out == f"webhook {made['id']} is active again\n"
    assert shell("webhooks", "delete", made["id"]).out == f"webhook {made['id']} is deleted\n"
    assert shell("webhooks", "list", "--json").json == []


def test_a_webhook_is_changed(shell: Shell, app: Headrace) -> None:
    hook = app.webhooks.create("https://example.com/in", queue="mail")
    assert shell("webhooks", "update", hook.id, "--type", "dead.*", "-q", "").out == f"webhook {hook.id} is changed\n"
    record = shell("webhooks", "update", hook.id, "--to", "https://example.com/on", "-t", "mail", "--json").json
    assert (record["url"], record["types"]) == ("https://example.com/on", ["dead.entered", "dead.resolved"])
    assert (record["queue"], record["task"]) == (None, "mail")


def test_the_secret_is_shown_once(shell: Shell, app: Headrace) -> None:
    ran = shell("webhooks", "create", "https://example.com/in")
    assert "whsec_" in ran.out
    assert "not shown again" in ran.err
    assert app.webhooks.list()[0].types == ("job.failed",)


def test_a_webhook_is_tested_and_its_deliveries_are_listed(
    shell: Shell, app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_WEBHOOK_NETWORKS", "127.0.0.0/8")
    with web_server() as hook:
        made = shell("webhooks", "create", hook.url, "--type", "job.completed", "--json").json
        assert "there are no deliveries" in shell("webhooks", "deliveries", made["id"]).err
        assert shell("webhooks", "test", made["id"]).out == "the webhook answered 200\n"
        assert shell("webhooks", "test", made["id"], "--json").json == {"id": made["id"], "status": 200}
        hook.status = 503
        ran = shell("webhooks", "test", made["id"])
        assert ran.code == 1
        assert "503" in ran.err
        assert "Traceback" not in ran.err
        hook.status = 200
        app.enqueue("add", 5, 6)
        with app.worker(concurrency=1):
            _until_sent(app, made["id"])
        [row] = shell("webhooks", "deliveries", made["id"], "-n", "5", "--json").json
        assert (row["state"], row["error"]) == ("completed", "")
        assert row["id"] in shell("webhooks", "deliveries", made["id"]).out


def _until_sent(app: Headrace, webhook_id: str) -> None:
    for event in app.events("0", types="job.completed"):
        if event.task == "headrace.webhook":
            assert app.webhooks.deliveries(webhook_id)[0].id == event.job_id
            return


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["create"], "URL"),
        (["create", "ftp://example.com"], "url"),
        (["create", "http://example.com"], "not encrypted"),
        (["create", "https://example.com", "--type", "nothing.*"], "there is no event type"),
        (["create", "https://example.com", "--queue", "a b"], "queue"),
        (["update", "nobody"], "give a change"),
        (["update", "nobody", "-q", "mail"], "there is no webhook 'nobody'"),
        (["update", "nobody", "--to", ""], "there is no webhook 'nobody'"),
        (["pause", "nobody"], "there is no webhook 'nobody'"),
        (["resume", "nobody"], "there is no webhook 'nobody'"),
        (["delete", "nobody"], "there is no webhook 'nobody'"),
        (["test", "nobody"], "there is no webhook 'nobody'"),
        (["deliveries", "nobody"], "there is no webhook 'nobody'"),
        (["deliveries", "nobody", "-n", "0"], "--limit"),
        (["--json", "list"], "put --json after 'list'"),
        (["explode"], "explode"),
    ],
)
def test_wrong_arguments_of_webhooks_are_refused(
    shell: Shell, app: Headrace, arguments: list[str], expected: str
) -> None:
    ran = shell("webhooks", *arguments)
    assert ran.code != 0
    assert expected in ran.err
    assert "Traceback" not in ran.err


def test_plain_http_to_other_machines_may_be_allowed(shell: Shell, app: Headrace) -> None:
    made = shell("webhooks", "create", "http://example.com/in", "--insecure", "--json").json
    assert made["url"] == "http://example.com/in"
