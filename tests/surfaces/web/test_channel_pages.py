"""Alert channels and webhooks in the dashboard: create, test, change, delete; secrets are never shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from headrace import Headrace
from tests.runtime.alerts.receivers import Hook, web_server
from tests.surfaces.web.client import Client, basic
from tests.surfaces.web.test_admin_pages import WRITES
from tests.surfaces.web.test_pages import Inline

pytestmark = pytest.mark.engines("sqlite")
SECRET = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="


@pytest.fixture
def app(tmp_path: object) -> Iterator[Headrace]:
    with Headrace(f"sqlite:///{tmp_path}/jobs.db", webhook_networks=["127.0.0.0/8"]) as app:
        yield app


@pytest.fixture
def database() -> Iterator[Hook]:
    with web_server() as hook:
        yield hook


def post(client: Client, path: str, **form: str) -> str:
    answer = client.post(path, content=urlencode(form), headers=WRITES)
    text: str = answer.json()["text"]
    return text if answer.json()["ok"] else f"refused: {text}"


def test_a_channel_is_created_tested_changed_and_deleted(app: Headrace, database: Hook) -> None:
    client = Client(app.asgi())
    url = f"{database.url}/private/path"
    assert "send a test message" in post(
        client, "/alerts/new-channel", name="ops", kind="webhook", url=url, secret=SECRET
    )
    assert "accepted the test message" in post(client, "/alerts/channels/ops/test")
    assert len(database.got) == 1
    page = client.get("/alerts/channels/ops").text
    assert "private" not in page
    assert SECRET not in page
    assert Inline(page).found == []
    assert 'href="/alerts/channels/ops"' in client.get("/alerts").text
    assert post(client, "/alerts/channels/ops/update", severity="info") == "refused: Nothing was changed."
    assert "was changed" in post(client, "/alerts/channels/ops/update", severity="critical")
    assert app.alerts.channels.get("ops").severity == "critical"
    assert "accepted the test message" in post(client, "/alerts/channels/ops/test"), "its URL and its secret stay"
    post(client, "/alerts/channels/ops/switch", enabled="no")
    assert not app.alerts.channels.get("ops").enabled
    app.alerts.rules.create("mine", when="depth > 1", notify=["ops"])
    assert "change these rules first" in post(client, "/alerts/channels/ops/delete", confirmed="yes")
    app.alerts.rules.delete("mine")
    assert "was deleted" in post(client, "/alerts/channels/ops/delete", confirmed="yes")
    assert client.get("/alerts/channels/ops").status_code == 404
    trace_context = str(app.audit.list(100))
    assert "alert.channel.create" in trace_context
    assert "private" not in trace_context
    assert SECRET not in trace_context


@pytest.mark.parametrize(
    ("path", "form", "expected"),
    [
        ("/alerts/new-channel", {"name": "x"}, "both are required"),
        ("/alerts/new-channel", {"name": "x", "kind": "slack"}, "https://"),
        (
            "/alerts/new-channel",
            {"name": "x", "kind": "email", "host": "h", "to": "a@b", "port": "abc"},
            "not a whole number",
        ),
        ("/alerts/new-channel", {"name": "x", "kind": "email", "url": "https://h"}, "no such field"),
        ("/alerts/new-channel", {"name": "log", "kind": "log"}, "built in"),
        ("/alerts/channels/nothing/test", {}, "no alert channel"),
        ("/alerts/channels/log/delete", {"confirmed": "yes"}, "built in"),
        ("/new-webhook", {}, "url: required"),
        ("/new-webhook", {"url": "ftp://x"}, "url"),
        ("/new-webhook", {"url": "https://x.example", "types": "job.fails"}, "job.failed"),
        ("/webhooks/nothing/test", {}, "nothing"),
        ("/webhooks/nothing/delete", {"confirmed": "yes"}, "nothing"),
    ],
)
def test_errors_of_channels_and_webhooks_are_shown(
    app: Headrace, path: str, form: dict[str, str], expected: str
) -> None:
    answer = post(Client(app.asgi()), path, **form)
    assert answer.startswith("refused: ")
    assert expected in answer


def test_a_webhook_is_created_tested_paused_and_deleted(app: Headrace, database: Hook) -> None:
    client = Client(app.asgi())
    shown = client.get("/new-webhook").text
    made = re.search(r'name="secret"[^>]*value="(whsec_[^"]+)"', shown)
    assert made is not None
    url = f"{database.url}/hook?token=t0k3n"
    text = post(client, "/new-webhook", url=url, types="job.failed, dead.*", queue="mail", secret=made[1])
    assert "from now on" in text
    assert "t0k3n" not in text
    hook = app.webhooks.list()[0]
    assert (hook.queue, "job.failed" in hook.types, len(hook.types) > 1) == ("mail", True, True)
    assert "The webhook answered 200" in post(client, f"/webhooks/{hook.id}/test")
    for path in ("/webhooks", f"/webhooks/{hook.id}"):
        page = client.get(path).text
        assert Inline(page).found == []
        assert "t0k3n" not in page
        assert made[1] not in page
    post(client, f"/webhooks/{hook.id}/pause")
    assert app.webhooks.get(hook.id).paused
    post(client, f"/webhooks/{hook.id}/resume")
    database.status = 500
    assert "refused: The delivery failed" in post(client, f"/webhooks/{hook.id}/test")
    app.webhooks.task().using(tags=("webhook", f"webhook:{hook.id}")).enqueue(hook.id, "m1", "{}")
    assert "headrace.webhook" in client.get(f"/webhooks/{hook.id}").text
    assert "was deleted" in post(client, f"/webhooks/{hook.id}/delete", confirmed="yes")
    assert client.get(f"/webhooks/{hook.id}").status_code == 404
    assert "t0k3n" not in str(app.audit.list(100))


def test_a_viewer_sees_no_secret_and_no_button(app: Headrace) -> None:
    app.alerts.channels.create("ops", kind="slack", url="https://hooks.example.com/private")
    hook = app.webhooks.create("https://example.com/hook?token=t0k3n")
    eve = basic("eve", "look")
    client = Client(app.asgi(auth=("viewer=eve:look",)), headers=eve)
    for path in ("/alerts/channels/ops", "/alerts/new-channel", "/webhooks", "/new-webhook", f"/webhooks/{hook.id}"):
        text = client.get(path).text.split("<main")[1].split("</main>")[0]
        assert "<button" not in text, path
        assert [word for word in ("private", "t0k3n") if word in text] == [], path
    assert 'name="secret"' not in client.get("/new-webhook").text
    assert client.post("/new-webhook", content="url=https://x", headers={**WRITES, **eve}).status_code == 403
