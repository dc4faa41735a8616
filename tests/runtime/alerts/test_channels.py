"""Notification channels against real servers on this host; failures are retried, and no secret is shown."""

from __future__ import annotations

import base64
import email
import email.policy
import hashlib
import hmac
import json
import logging
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from headrace import AlertNotFound, ConfigError, Headrace, InvalidAlert
from headrace.core.alerts.alert import AlertRow
from headrace.core.settings.settings import Settings
from headrace.runtime.alerts.channels import Channel, Undelivered, channel, from_setting
from headrace.runtime.alerts.notify import deliver
from headrace.runtime.alerts.outbox import Outbox
from headrace.runtime.alerts.store import CHANNEL, POST, AlertStore
from headrace.testing import VirtualClock
from tests.runtime.alerts.receivers import Hook, Mailbox, mail_server, web_server
from tests.runtime.alerts.test_alerts import alert_check_of, until_it_rests
from tests.support.waiting import eventually

NOW = 1_700_000_000_000
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()
KEY = "2026a:" + base64.b64encode(bytes(32)).decode()


@pytest.fixture
def hook() -> Iterator[Hook]:
    with web_server() as hook:
        yield hook


@pytest.fixture
def box() -> Iterator[Mailbox]:
    with mail_server() as box:
        yield box


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Iterator[Headrace]:
    with Headrace(url, clock=clock, webhook_networks=["127.0.0.0/8"]) as app:
        yield app


def alert(**more: Any) -> AlertRow:
    known = {"id": "a1", "rule": "deep", "series": {"queue": "mail"}, "labels": {"team": "ops"}, "severity": "critical"}
    return AlertRow(**{**known, "state": "firing", "since": NOW, "summary": "depth is <9>", **more})


# -- ways


def test_a_webhook_is_signed_so_that_its_receiver_can_verify_it(hook: Hook) -> None:
    target = channel("ops", "webhook", {"url": f"{hook.url}/in?token=abc", "secret": SECRET})
    deliver(target, [("raised", alert()), ("resolved", alert(state="resolved", resolved_at=NOW))], "m1", NOW)
    [(path, headers, body)] = hook.got
    assert path == "/in?token=abc"
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    expected = hmac.new(key, f"m1.{NOW // 1000}.".encode() + body, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(expected).decode()}"
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("m1", str(NOW // 1000))
    content = json.loads(body)
    assert content["type"] == "alerts"
    assert [(one["what"], one["state"]) for one in content["alerts"]] == [
        ("raised", "firing"),
        ("resolved", "resolved"),
    ]
    assert content["alerts"][0]["labels"] == {"team": "ops", "queue": "mail"}
    assert content["alerts"][0]["since"] == "2023-11-14T22:13:20Z"


def test_a_webhook_without_a_secret_is_not_signed(hook: Hook) -> None:
    deliver(channel("ops", "webhook", {"url": hook.url}), [("raised", alert())], "m1", NOW)
    assert "webhook-signature" not in hook.got[0][1]


def test_a_chat_gets_its_own_format_and_no_name_can_mention_a_user(hook: Hook) -> None:
    target = channel("ops", "slack", {"url": hook.url})
    events = [("raised", alert(summary="<!channel> & more", runbook="https://run/book")), ("resolved", alert())]
    deliver(target, events + [("raised", alert())] * 30, "m1", NOW)  # type: ignore[arg-type]
    text = json.loads(hook.got[0][2])["text"]
    assert ":rotating_light: *CRITICAL deep: &lt;!channel&gt; &amp; more*" in text
    assert ":white_check_mark: *resolved deep" in text
    assert "runbook: https://run/book" in text
    assert text.endswith("… and 12 more")


def test_a_mail_goes_to_all_and_its_headers_can_not_be_forged(box: Mailbox) -> None:
    target = mail(box, to="kim@example.com, lee@example.com", sender="jobs@example.com")
    deliver(target, [("raised", alert(summary="depth\r\nBcc: all@example.com"))], "m1", NOW)
    message = email.message_from_string(box.messages[0], policy=email.policy.default)
    assert message["Subject"] == "[headrace] CRITICAL deep: depth Bcc: all@example.com"
    assert (message["From"], message["To"], message["Bcc"]) == (
        "jobs@example.com",
        "kim@example.com, lee@example.com",
        None,
    )
    assert "team=ops, queue=mail" in box.messages[0]
    assert [line for line in box.envelopes[0] if line.lower().startswith("rcpt")] == [
        "rcpt TO:<kim@example.com>",
        "rcpt TO:<lee@example.com>",
    ]
    deliver(target, [("raised", alert()), ("repeated", alert()), ("resolved", alert())], "m1", NOW)
    assert "Subject: [headrace] 2 alerts, 1 resolved" in box.messages[1]


def mail(box: Mailbox, **fields: Any) -> Channel:
    return channel("ops", "email", {"host": "127.0.0.1", "port": box.port, "security": "none", **fields})


def test_an_accepted_mail_is_not_sent_again_and_refused_recipients_are_logged(
    box: Mailbox, caplog: pytest.LogCaptureFixture
) -> None:
    box.farewell = "421 too many connections"
    deliver(mail(box, to="ops@example.com,nobody@example.com"), [("raised", alert())], "m1", NOW)
    assert len(box.messages) == 1
    assert caplog.messages == [
        "channel ops: the mail server refused nobody@example.com; the others got it",
    ]


def test_a_password_is_not_sent_without_tls(box: Mailbox) -> None:
    secured = mail(box, to="kim@example.com", security="starttls", user="kim", password="hunter22")
    with pytest.raises(Undelivered, match="STARTTLS"):
        deliver(secured, [("raised", alert())], "m1", NOW)
    assert box.messages == []


@pytest.mark.parametrize("status", [302, 404, 500])
def test_an_answer_that_is_no_success_is_a_failure_and_no_redirect_is_followed(hook: Hook, status: int) -> None:
    hook.status = status
    with pytest.raises(Undelivered, match=f"the server answered {status}"):
        deliver(channel("ops", "slack", {"url": f"{hook.url}/T0/B0/hush"}), [("raised", alert())], "m1", NOW)
    assert [path for path, _, _ in hook.got] == ["/T0/B0/hush"]


def test_an_unreachable_server_is_reported_without_secrets(box: Mailbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for target in (
        channel("ops", "slack", {"url": f"http://127.0.0.1:{port}/T0/hush"}),
        channel("ops", "email", {"host": "127.0.0.1", "port": port, "to": "a@b.c", "user": "u", "password": "hush"}),
        mail(box, to="nobody@example.com"),
    ):
        with pytest.raises(Undelivered) as raised:
            deliver(target, [("raised", alert())], "m1", NOW)
        assert str(raised.value)
        assert "hush" not in str(raised.value) + repr(target)


@pytest.mark.parametrize("url", ["http://me:pw@127.0.0.1:1/x", "http://127.0.0.1:1/h\u00e4", "http://a..b/"])
def test_an_impossible_address_is_never_looked_up(url: str) -> None:
    with pytest.raises(Undelivered, match="its address can't be used"):
        deliver(Channel(name="ops", kind="webhook", url=url), [("raised", alert())], "m1", NOW)


def test_apprise_sends_to_a_service_and_no_name_can_mention_a_user(hook: Hook) -> None:
    made = from_setting(f"pager=apprise+json://user:t0ken@{hook.url.removeprefix('http://')}/in?:key=s3cret")
    deliver(made, [("raised", alert(summary="@everyone: depth is 9"))], "m1", NOW)
    [(path, _, body)] = hook.got
    sent = json.loads(body)
    assert path == "/in"
    assert (sent["title"], sent["type"]) == ("CRITICAL deep: @\u200beveryone: depth is 9", "failure")
    assert "queue=mail" in sent["message"]
    assert made.target == "json://***"


def test_a_service_of_apprise_that_fails_is_reported_without_secrets(hook: Hook) -> None:
    hook.status = 500
    for address in (f"json://user:t0ken@{hook.url.removeprefix('http://')}/s3cret", "nothing://t0ken/s3cret"):
        with pytest.raises(Undelivered) as failed:
            deliver(from_setting(f"pager=apprise+{address}"), [("raised", alert())], "m1", NOW)
        assert "t0ken" not in str(failed.value)
        assert "s3cret" not in str(failed.value)


def test_a_missing_apprise_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(Undelivered, match=r"pip install 'headrace\[apprise\]'"):
        deliver(from_setting("pager=apprise+discord://id/token"), [("raised", alert())], "m1", NOW)


def test_an_operator_can_not_create_a_channel_of_apprise(app: Headrace) -> None:
    with pytest.raises(InvalidAlert, match="alert_channels, as NAME=apprise"):
        app.alerts.channels.create("pager", kind="apprise", url="discord://id/token")


def test_a_log_line_is_as_loud_as_the_alert(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "headrace.alerts"):
        events = [
            ("raised", alert()),
            ("repeated", alert(severity="warning")),
            ("resolved", alert(summary="a\x1b[31m\nb")),
        ]
        deliver(channel("x", "log", {}), events, "m1", NOW)  # type: ignore[arg-type]
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "CRITICAL deep: depth is <9>"),
        ("WARNING", "still WARNING deep: depth is <9>"),
        ("INFO", "resolved deep: a [31m b"),
    ]


# -- over a store


def test_a_channel_that_fails_is_tried_later_and_later_and_can_be_seen(
    app: Headrace, clock: VirtualClock, hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    app.alerts.channels.create("ops", kind="slack", url=f"{hook.url}/hush")
    app.alerts.trigger("deploy", "it failed", notify="ops")
    hook.status = 503
    outbox = Outbox(AlertStore(app.engine, app.settings, None), clock)
    begun, tries = clock.now(), list[float]()
    with caplog.at_level(logging.WARNING, "headrace.alerts"):
        while app.engine.document_store.get(POST):
            before = len(hook.got)
            outbox.deliver()
            if len(hook.got) > before:
                tries.append((clock.now() - begun) / 1000)
            if len(tries) == 1 and len(hook.got) == before + 1:
                seen = app.alerts.channels.get("ops")
                assert (seen.error, seen.failures, seen.waiting) == ("the server answered 503", 1, 1)
            clock.advance(5)
    assert tries == [0, 15, 45, 105, 225, 465, 945, 1905]
    assert [line.partition(":")[0] for line in caplog.messages] == [
        "channel ops can't be reached",
        "channel ops missed 1 alert after 8 tries",
    ]
    assert app.alerts.channels.get("ops").failures == 8
    hook.status = 200
    app.alerts.trigger("other", "it failed", notify="ops")
    assert outbox.deliver() == 1
    assert app.alerts.channels.get("ops").error is None


def test_what_one_has_taken_no_other_brings_unless_he_dies(app: Headrace, clock: VirtualClock, hook: Hook) -> None:
    app.alerts.channels.create("ops", kind="slack", url=hook.url)
    for name in ("a", "b"):
        app.alerts.trigger(name, "x", notify="ops")
    first, second = (Outbox(AlertStore(app.engine, app.settings, None), clock) for _ in range(2))
    [(_, posts)] = first._due().items()
    assert len(first._take(posts)) == 2, "as they were"
    assert first._take(posts) == [], "they were taken at this version"
    assert second.deliver() == 0
    assert hook.got == []
    clock.advance(120)
    assert second.deliver() == 2
    assert len(hook.got) == 1, "one message for both"
    assert app.engine.document_store.get(POST) == []


def test_a_round_does_not_wait_for_a_server_that_does_not_answer(app: Headrace, clock: VirtualClock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        app.alerts.channels.create("ops", kind="webhook", url=f"http://127.0.0.1:{deaf.getsockname()[1]}")
        app.alerts.trigger("deploy", "it failed", notify="ops")
        maintenance_task = alert_check_of(app)
        assert until_it_rests(maintenance_task) == 1.0, "a delivery is in progress"
        assert maintenance_task.do() == 1.0, "and no second one starts"
        connection, _ = deaf.accept()
        connection.close()
    eventually(lambda: maintenance_task.do() == 15.0)
    assert app.alerts.channels.get("ops").failures == 1


def test_only_severe_enough_alerts_are_sent(app: Headrace, hook: Hook) -> None:
    app.alerts.channels.create("pager", kind="slack", url=hook.url, severity="critical")
    app.alerts.trigger("small", "x", severity="warning", notify="pager")
    app.alerts.trigger("large", "x", severity="critical", notify="pager")
    app.alerts.evaluate()
    assert len(hook.got) == 1
    assert "large" in json.loads(hook.got[0][2])["text"]
    assert "small" not in json.loads(hook.got[0][2])["text"]
    assert app.engine.document_store.get(POST) == []


def test_a_post_for_a_channel_that_is_gone_is_no_secret(app: Headrace, hook: Hook) -> None:
    app.alerts.channels.create("ops", kind="slack", url=hook.url)
    app.alerts.trigger("deploy", "x", notify="ops")
    assert app.alerts.channels.delete("ops")
    app.alerts.evaluate()
    assert AlertStore(app.engine, app.settings, None).health()["channel ops"].error == "there is no such channel"
    assert app.alerts.channels.create("ops", kind="slack", url=hook.url).error is None, "it is a new one"


@pytest.mark.engines("sqlite")
def test_a_channel_is_kept_changed_and_tried(app: Headrace, hook: Hook, clock: VirtualClock) -> None:
    channels = app.alerts.channels
    made = channels.create("ops", kind="webhook", url=f"{hook.url}/hush", secret=SECRET)
    assert (made.target, made.signed, made.origin) == (f"{hook.url}/***", True, "store")
    assert channels.test("ops") is None
    assert json.loads(hook.got[0][2])["alerts"][0]["rule"] == "test"
    changed = channels.update("ops", severity="warning")
    assert (changed.severity, changed.signed) == ("warning", True)
    hook.status = 500
    assert channels.test("ops") == "the server answered 500"
    app.alerts.rules.create("mine", when="depth > 1", notify="ops")
    with pytest.raises(InvalidAlert, match="is used by mine"):
        channels.delete("ops")
    app.alerts.rules.delete("mine")
    assert channels.delete("ops")
    assert not channels.delete("ops")
    with pytest.raises(AlertNotFound, match="did you mean 'log'"):
        channels.get("lo")
    with pytest.raises(InvalidAlert, match="is built in"):
        channels.create("log", kind="log")


@pytest.mark.engines("sqlite")
def test_secrets_are_encrypted_in_the_store_and_shown_nowhere(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with Headrace("memory://", clock=clock, encryption_keys=[KEY]) as app:
        app.alerts.channels.create("ops", kind="slack", url="http://127.0.0.1:1/T0/hush")
        app.alerts.channels.create("mail", kind="email", host="127.0.0.1", to="a@b.c", user="u", password="hush")
        raw = [document.value for document in app.engine.document_store.get(CHANNEL)]
        assert all(text.startswith('{"$sealed"') for text in raw)
        app.alerts.trigger("deploy", "x", notify=("ops", "mail"))
        with caplog.at_level(logging.DEBUG):
            app.alerts.evaluate()
        shown = [repr(app.alerts.channels.list()), caplog.text, *raw]
        assert not any("hush" in text for text in shown)
        assert len([one for one in app.alerts.channels.list() if one.error]) == 2
        bare = AlertStore(app.engine, Settings(), None)
        assert "encrypted with key '2026a'" in (bare.channels()["ops"].trouble or "")
        app.alerts.trigger("other", "x", notify=("ops", "log"))
        assert Outbox(bare, clock).deliver() == 1, "one that can't be read holds up no other"


@pytest.mark.engines("sqlite")
def test_a_setting_makes_channels_and_is_never_shown(hook: Hook) -> None:
    texts = [
        f"ops=slack+{hook.url}/hush",
        f"pager=webhook+https://example.com/in#{SECRET}",
        "mail=smtp://kim:hush%40@mail.example.com:2525?from=jobs@b.c&to=a@b.c&to=d@b.c",
    ]
    with Headrace("memory://", alert_channels=texts, alert_notify=["ops"]) as app:
        found = {one.name: one for one in app.alerts.channels.list()}
        assert {name: one.origin for name, one in found.items()} == {
            "log": "built-in",
            "ops": "setting",
            "pager": "setting",
            "mail": "setting",
        }
        assert found["mail"].target == "a@b.c, d@b.c by mail.example.com:2525"
        assert found["pager"].signed
        assert not any(secret in repr(app.settings) + repr(found) for secret in ("hush", SECRET))
        app.alerts.trigger("deploy", "x")
        app.alerts.evaluate()
        assert len(hook.got) == 1
        with pytest.raises(InvalidAlert, match="defined in the setting"):
            app.alerts.channels.delete("ops")
    parsed = from_setting(texts[2])
    assert (parsed.password, parsed.security, parsed.sender) == ("hush@", "starttls", "jobs@b.c")
    assert from_setting("m=smtps://mail.example.com?to=a@b.c").port == 465


@pytest.mark.parametrize(
    "text", ["https://hooks.slack.com/hush", "ops=https://x/hush", "a b=slack+https://x", "ops=ftp://hush"]
)
def test_a_bad_setting_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigError, match="alert_channels") as raised:
        Settings(alert_channels=(text,))
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("pigeon", {}, "kind: expected one of log, webhook, slack, email"),
        ("slack", {}, "url: a channel of the kind slack needs one"),
        ("slack", {"url": "ftp://hush"}, "begins with https://"),
        ("slack", {"url": "http://[hush"}, "begins with https://"),
        ("slack", {"url": "https://x/a b hush"}, "begins with https://"),
        ("slack", {"url": "https://x/h\u00e4hush"}, "%-codes"),
        ("webhook", {"url": "https://me:hush@x/"}, "user or password"),
        ("slack", {"url": 5}, "url: that value is not valid"),
        ("slack", {"url": "https://x", "secret": "hush"}, "has no such field"),
        ("webhook", {"url": "https://x", "secrt": "hush"}, "did you mean 'secret'?"),
        ("webhook", {"url": "https://x", "secret": "hush"}, "secret: it should be whsec_"),
        ("email", {"to": "a@b.c"}, "host: an e-mail channel needs"),
        ("email", {"host": "x y", "to": "a@b.c"}, "host: an e-mail channel needs"),
        ("email", {"host": "x"}, "to: an e-mail channel needs"),
        ("email", {"host": "x", "to": "a@b.c\r\nBcc: d@e.f"}, "is no e-mail address"),
        ("email", {"host": "x", "to": "a@b.c", "port": 0}, "port: 0 must be from 1"),
        ("email", {"host": "x", "to": "a@b.c", "user": "u"}, "give both or neither"),
        ("email", {"host": "x", "to": "a@b.c", "security": "ssl"}, "security: 'ssl' is not valid"),
        ("email", {"host": "x", "to": "a@b.c", "user": "u", "password": "hush", "security": "none"}, "unencrypted"),
        ("log", {"severity": "loud"}, "severity: 'loud' is not valid"),
    ],
)
def test_a_bad_channel_is_refused_without_showing_its_secrets(kind: str, fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidAlert) as raised:
        channel("ops", kind, fields)
    assert expected in str(raised.value)
    assert "hush" not in str(raised.value)
