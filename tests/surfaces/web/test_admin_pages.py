"""The pages of flows, dead letters, schedules, alerts, terms and the store, without a browser, on every engine."""

from __future__ import annotations

import re
import threading
from typing import Any
from urllib.parse import urlencode

import pytest

from headrace import EngineUnavailable, Headrace
from headrace.app.doctor import diagnose
from headrace.core.dead_letters.records import STATUSES, Status
from headrace.runtime.metrics.reader import MetricsReader
from headrace.testing import drain
from headrace.web.pages.page_cache import PageCache
from headrace.web.pages.templating import coded
from tests.support.waiting import PATIENCE, eventually
from tests.surfaces.web.client import Client, basic
from tests.surfaces.web.pages.stock import PATHS, stock
from tests.surfaces.web.pages.tasks import register
from tests.surfaces.web.test_pages import FORM, Inline, app

__all__ = ["app"]  # the fixture: an app on each engine
WRITES = {**FORM, "x-requested-with": "test"}


def test_every_admin_page_is_served_without_inline_code(app: Headrace) -> None:
    names = stock(app, register(app))
    client = Client(app.asgi())
    for path in PATHS.values():
        answer = client.get(path.format(**names))
        assert answer.status_code == 200, path
        page = Inline(answer.text)
        assert page.found == [], path
        assert len(page.ids) == len(set(page.ids)), f"{path}: duplicate id"
        assert "<script>document" not in answer.text


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize("status", [status for status in STATUSES if status != "pending"])
def test_a_dead_letter_of_every_status_is_shown(app: Headrace, status: Status) -> None:
    @app.task(name="bad", retry=0)
    def bad() -> None:
        raise OSError("away")

    job = bad.enqueue()
    drain(app)
    dead_letter = app.dead.get(job.id)
    app.engine.dead_letters.update([dead_letter.id], status)
    client = Client(app.asgi())
    for path in (f"/dead/{dead_letter.id}", f"/dead?status={status}"):
        answer = client.get(path)
        assert (answer.status_code, status.replace("_", " ") in answer.text) == (200, True), path


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(
    ("path", "status", "expected"),
    [
        ("/flows/nothing", 404, "does not exist"),
        ("/flows?before=nothing", 404, "does not exist"),
        ("/dead/nothing", 404, "does not exist"),
        ("/dead?status=odd", 400, "odd"),
        ("/dead?since=yesterday", 400, "neither an age"),
        ("/schedules/nothing", 404, "does not exist"),
        ("/alerts/rules/nothing", 404, "does not exist"),
        ("/new-schedule?try=yes&cron=61+*+*+*+*", 200, "61"),
        ("/new-schedule?try=yes&every=often", 200, "not a number"),
        ("/new-schedule?try=yes&cron=*+*+*+*+*&every=5", 200, "exactly one"),
        ("/alerts/new-rule?when=%3Cscript%3E", 200, "&lt;script&gt;"),
    ],
)
def test_an_error_is_shown_on_a_page(app: Headrace, path: str, status: int, expected: str) -> None:
    answer = Client(app.asgi()).get(path)
    assert (answer.status_code, expected in answer.text, "Traceback" in answer.text) == (status, True, False)


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(
    ("path", "form", "expected"),
    [
        ("/flows/nothing/cancel", "", "no flow"),
        ("/dead/requeue", "query=", "filter the list first"),
        ("/dead/requeue", "confirmed=yes&query=", "filter the list first"),
        ("/dead/resolve", "confirmed=yes&query=queue%3Dx&status=odd", "status"),
        ("/dead/nothing/requeue", "", "no dead letter"),
        ("/dead/purge", "", "30 days"),
        ("/new-schedule", "id=x", "name of the task"),
        ("/new-schedule", "id=x&task=add&cron=0+2+*+*+*&tz=Vienna", "Vienna"),
        ("/new-schedule", "id=x&task=add&cron=0+2+*+*+*&args=%7B%7D", "expected a list"),
        ("/schedules/nothing/pause", "", "nothing"),
        ("/alerts/silence", "for=ever", "expected one of"),
        ("/alerts/acknowledge/nothing", "", "no alert"),
        ("/alerts/unsilence/nothing", "", "no silence"),
        ("/alerts/new-rule", "name=x&when=depth+%3E+1&for_=soon", "not a number of seconds"),
        ("/alerts/rules/nothing/switch", "enabled=no", "nothing"),
        ("/lifecycle/archive", "", "No job is past its retention"),
        ("/lifecycle/stale", "", "No job is stale"),
        ("/lifecycle/restore", "job=nothing", "nothing"),
        ("/lifecycle/policy", "kind=host&name=x", "the task or queue"),
        ("/system/repair", "", "nothing to repair"),
    ],
)
def test_an_action_that_fails_shows_its_error(app: Headrace, path: str, form: str, expected: str) -> None:
    register(app)
    answer = Client(app.asgi(), headers=WRITES).post(path, content=form)
    assert answer.status_code in (400, 404), answer.text
    assert answer.json()["ok"] is False
    assert expected in answer.json()["text"]


@pytest.mark.engines("sqlite")
def test_viewers_see_no_buttons_no_settings_and_no_audit_trail(app: Headrace) -> None:
    names = stock(app, register(app))
    eve = basic("eve", "look")
    client = Client(app.asgi(auth=("viewer=eve:look",)), headers=eve)
    for path in PATHS.values():
        text = client.get(path.format(**names)).text
        forms = re.findall(r'<form[^>]*method="post".*?</form>', text.split("<main")[1], re.DOTALL)
        assert [form for form in forms if "<button" in form] == [], path
    system = client.get("/system").text
    assert "shown to admins" in system
    assert str(app.engine.maintenance.facts().details["file"]) not in system
    assert client.post("/schedules/nightly/pause", content="", headers={**WRITES, **eve}).status_code == 403
    assert not app.schedules.get("nightly").paused


@pytest.mark.engines("sqlite")
def test_pages_show_an_error_while_their_store_is_unavailable(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(app.asgi())

    def away(*_: Any, **__: Any) -> Any:
        raise EngineUnavailable("no route to the server")

    monkeypatch.setattr(type(app.engine.dead_letters), "stats", away)
    monkeypatch.setattr(type(app.engine.document_store), "get", away)
    assert client.get("/workers").status_code == 200
    answer = client.get("/dead")
    assert answer.status_code == 503
    assert "no route to the server" in answer.text


@pytest.mark.engines("sqlite")
def test_a_request_has_only_the_age_of_the_values_it_used(app: Headrace) -> None:
    page_cache = PageCache(app)
    page_cache.for_request().metrics()
    visit = page_cache.for_request()
    assert visit.age() == 0.0
    visit.queues()
    first = visit.age()
    assert 0.0 < first < 60
    assert page_cache.for_request().shared(app.dead.stats) is page_cache.for_request().shared(app.dead.stats)


@pytest.mark.engines("sqlite")
def test_a_page_does_not_wait_for_slow_values(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    counted, gate = threading.Event(), threading.Event()

    def slow(*_: Any, **__: Any) -> list[Any]:
        gate.wait(PATIENCE)
        counted.set()
        return []

    monkeypatch.setattr(type(app.lifecycle), "detect_stale", slow)
    client = Client(app.asgi())
    assert "Counting…" in client.get("/lifecycle").text
    gate.set()
    assert counted.wait(PATIENCE)
    while "Counting…" in (text := client.get("/lifecycle").text):
        pass
    assert "No stale jobs" in text


@pytest.mark.engines("sqlite")
def test_the_system_page_shows_all_findings_of_the_doctor(app: Headrace) -> None:
    stock(app, register(app))
    app.task_by_name("render").using(queue="pictures", needs=["gpu"]).enqueue()
    app.queue("pictures").pause()
    found = diagnose(app)
    assert {"queue_unserved", "queue_paused", "needs_unmet", "alert", "dead_letters", "schedule_paused"} <= {
        finding.code for finding in found
    }
    client = Client(app.asgi())
    while "Counting…" in (page := client.get("/system").text):
        pass
    for finding in found:
        assert coded(finding.sentence) in page
        assert coded(finding.advice) in page
    assert 'href="/workers" aria-label="Look into it: needs unmet"' in page


@pytest.mark.engines("sqlite")
def test_every_page_of_a_queue_says_that_it_grows(app: Headrace) -> None:
    app.enqueue("elsewhere")
    MetricsReader(app.engine, app.settings).catch_up()
    client = Client(app.asgi())
    for path in ("/", "/queues", "/queues/default"):
        assert "grows " in client.get(path).text, path
    app.jobs.cancel(queue="default")
    again = Client(app.asgi())
    for path in ("/", "/queues", "/queues/default"):
        assert "grows " not in again.get(path).text, path


@pytest.mark.engines("sqlite")
def test_an_unserved_queue_is_a_warning_once_and_none_if_its_alert_is_silenced(
    app: Headrace,
) -> None:
    app.enqueue("elsewhere")
    other = app.task(name="other")(lambda: None)
    with app.worker(queues=["busy"]):
        other.using(queue="busy").enqueue().wait(PATIENCE)
        app.alerts.rules.update("no_worker", for_=0)
        app.alerts.evaluate()
        (alert,) = [one for one in app.alerts.active() if one.rule == "no_worker"]
        assert alert.labels["queue"] == "default"
        page = Client(app.asgi()).get("/").text
        assert "no live worker serves queue default" in page
        assert "No live worker serves queue default" not in page
        app.alerts.silence("no_worker", for_=3600)
        page = Client(app.asgi()).get("/").text
        assert "no live worker serves queue default" not in page
        assert "No live worker serves queue default" not in page


@pytest.mark.engines("sqlite")
def test_a_job_that_fails_during_the_confirmation_is_not_requeued(app: Headrace) -> None:
    boom = app.task(name="boom", retry=0)(lambda: 1 / 0)
    first = boom.enqueue()
    drain(app)
    client = Client(app.asgi())
    answer = client.post("/dead/requeue", content="query=task%3Dboom", headers=WRITES).json()
    assert "1 job" in answer["ask"]
    moment = app.clock.now()
    eventually(lambda: app.clock.now() > moment + 5, "another millisecond")
    second = boom.enqueue()
    drain(app)
    form = urlencode({"query": "task=boom", "confirmed": answer["confirmed"]})
    answer = client.post("/dead/requeue", content=form, headers=WRITES).json()
    assert answer["text"].startswith("1 job"), answer
    assert (first.refresh().state, second.refresh().state) == ("pending", "failed")


@pytest.mark.engines("sqlite")
def test_a_rule_per_reason_keeps_its_labels_when_it_is_saved(app: Headrace) -> None:
    client = Client(app.asgi(), headers=WRITES)
    assert 'value="reason" checked' in client.get("/alerts/rules/dead_letter").text
    form = "when=dead_entered[5m]+%3E+1&per=task&per=reason&summary="
    assert client.post("/alerts/rules/dead_letter/update", content=form).json()["ok"]
    assert app.alerts.rules.get("dead_letter").per == ("task", "reason")
    assert app.alerts.rules.get("dead_letter").summary is None
