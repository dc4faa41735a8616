"""Pages of the dashboard without a browser: on every engine, in every state of a job, and with hostile input."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from headrace import EngineUnavailable, Headrace, current_job, group
from headrace.runtime.metrics.reader import MetricsReader
from headrace.testing import drain
from headrace.web.pages.templating import STATIC
from tests.support.engines import KINDS
from tests.support.traced_worker import sign_on_tracing
from tests.surfaces.web.client import Client
from tests.surfaces.web.pages.tasks import populate, register

FORM = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}


@pytest.fixture
def app(engine_name: str) -> Iterator[Headrace]:
    folder = Path(tempfile.mkdtemp())
    kind = KINDS[engine_name]
    address = kind.create(folder)
    with Headrace(kind.url(address), heartbeat=1.0) as app:
        yield app
    kind.discard(address)
    shutil.rmtree(folder, ignore_errors=True)


class Inline(HTMLParser):
    """Finds what the Content-Security-Policy forbids: inline scripts, styles and event handlers."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if (tag == "script" and "src" not in named) or tag == "style":
            self.found.append(tag)
        self.found += [name for name in named if name == "style" or name.startswith("on")]
        self.found += [
            str(value) for value in named.values() if value and value.strip().startswith(("http:", "javascript:"))
        ]
        if named.get("id"):
            self.ids.append(str(named["id"]))


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(
    ("label", "color"), [("production", "bad"), ("Staging 2", "warn"), ("<b>laptop</b>", "good"), (None, None)]
)
def test_the_environment_is_named_beside_the_name_and_in_the_title(
    app: Headrace, label: str | None, color: str | None
) -> None:
    client = Client(app.asgi(label=label) if label else app.asgi())
    for headers in ({}, {"X-Headrace-Part": "main"}):
        text = client.get("/queues", headers=headers).text
        suffix = f" {escape(label)}" if label else ""
        assert f"<title>Queues · headrace{suffix}</title>" in text
    text = client.get("/queues").text
    assert (
        (f'<span class="tag {color}" id="label">{escape(label)}</span>' in text)
        if label
        else ('id="label"' not in text)
    )


def test_every_page_is_served_without_inline_code(app: Headrace) -> None:
    tasks = register(app)
    ids = populate(app, tasks)
    client = Client(app.asgi())
    paths = ["/", "/queues", "/queues/orders", "/queues/none", "/workers", "/workers/none", "/jobs", "/enqueue"]
    paths += [f"/jobs/{job_id}" for job_id in ids.values()] + [
        f"/jobs?state={state}" for state in ids if state != "hostile"
    ]
    paths += [
        "/jobs?text=address&since=1h",
        "/jobs?tag=x&task=y&worker=z",
        f"/enqueue?like={ids['failed']}",
        "/?window=7d",
    ]
    for path in paths:
        answer = client.get(path)
        assert answer.status_code == 200, path
        page = Inline(answer.text)
        assert page.found == [], path
        assert len(page.ids) == len(set(page.ids)), f"{path}: duplicate id"
        assert "<script>document" not in answer.text
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.engines("sqlite")
def test_the_page_of_a_worker_has_the_trace_of_its_memory(app: Headrace) -> None:
    sign_on_tracing(app.engine, "w1", "<b>.py:3 +2 kB")
    page = Client(app.asgi()).get("/workers/w1").text
    assert "5 MB allocated, 7 MB peak" in re.sub(r"\.0 MB", " MB", page)
    assert "&lt;b&gt;.py:3 +2 kB" in page


@pytest.mark.engines("sqlite")
def test_a_page_for_scripts_has_no_frame(app: Headrace) -> None:
    client = Client(app.asgi())
    part = client.get("/", headers={"X-Headrace-Part": "main"})
    assert "<html" not in part.text
    assert '<main id="main"' in part.text
    assert int(part.headers["X-Headrace-Age"]) < 5000


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(
    ("path", "status", "expected"),
    [
        ("/jobs/nothing", 404, "does not exist"),
        ("/no/such/page", 404, "does not exist"),
        ("/jobs?state=odd", 400, "state"),
        ("/jobs?since=yesterday", 400, "neither an age"),
        ("/jobs?cursor=x", 400, "cursor"),
        ("/enqueue?like=nothing", 404, "does not exist"),
        ("/queues/" + "x" * 300, 400, "queue"),
    ],
)
def test_an_error_is_shown_on_a_page(app: Headrace, path: str, status: int, expected: str) -> None:
    answer = Client(app.asgi()).get(path)
    assert answer.status_code == status
    assert expected in answer.text
    assert "Traceback" not in answer.text


@pytest.mark.engines("sqlite")
def test_a_form_of_another_site_is_refused(app: Headrace) -> None:
    register(app)["add"].enqueue(1, 2)
    client = Client(app.asgi())
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "http://evil.example"}, {}):
        answer = client.post("/queues/sums/pause", content="", headers={**FORM, **headers})
        assert answer.status_code == 403
    assert not app.queue("sums").paused
    token = re.search(r'name="form_token" value="(\w+)"', client.get("/queues/sums").text)
    assert token is not None
    answer = client.post("/queues/sums/pause", content=f"form_token={token[1]}", headers=FORM)
    assert answer.json() == {"ok": True, "text": "Queue sums is paused; running jobs continue.", "goto": None}
    assert app.queue("sums").paused


@pytest.mark.engines("sqlite")
def test_a_queue_is_deleted_on_its_page(app: Headrace) -> None:
    job = register(app)["add"].enqueue(1, 2)
    client = Client(app.asgi(), headers={**FORM, "x-requested-with": "test"})
    refused = client.post("/queues/sums/delete", content="confirmed=yes")
    assert "1 unfinished job" in refused.text
    job.cancel()
    answer = client.post("/queues/sums/delete", content="confirmed=yes").json()
    assert answer["text"] == "Queue sums is deleted, with 1 finished jobs."
    assert app.queues() == []


@pytest.mark.engines("sqlite")
def test_an_action_is_recorded_in_the_audit_trail(app: Headrace) -> None:
    job = register(app)["add"].enqueue(1, 2)
    client = Client(app.asgi(), headers={**FORM, "x-requested-with": "test"})
    assert client.post(f"/jobs/{job.id}/cancel").json()["ok"]
    assert client.post(f"/jobs/{job.id}/cancel").status_code == 400
    refused, done = app.audit.list()
    assert (done.who, done.what, done.target, done.outcome) == ("local", "job.cancel", job.id, "done")
    assert refused.outcome == "refused"


@pytest.mark.engines("sqlite")
def test_an_action_redirects_only_to_this_host(app: Headrace) -> None:
    client = Client(app.asgi(), headers={"content-type": FORM["content-type"], "x-requested-with": "test"})
    for back in ("https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"):
        answer = client.post("/queues/sums/pause", content=f"back={back}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
    answer = client.post("/queues/sums/pause", content="back=/queues/sums")
    assert answer.headers["location"] == "/queues/sums"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


@pytest.mark.engines("sqlite")
def test_links_have_the_mount_path(app: Headrace) -> None:
    register(app)["add"].enqueue(1, 2)
    text = Client(app.asgi(prefix="/ops")).get("/ops/queues").text
    links = re.findall(r'(?:href|src|action)="(/[^"]*)"', text)
    assert "/ops/queues/sums" in links
    assert [link for link in links if not link.startswith("/ops/")] == []
    assert Client(app.asgi(prefix="/ops")).get("/ops/dashboard").headers["location"] == "/ops/"


@pytest.mark.engines("sqlite")
def test_the_last_counts_are_shown_while_the_store_is_unavailable(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(app)["add"].enqueue(1, 2)
    client = Client(app.asgi(), headers={**FORM, "x-requested-with": "test"})
    for path in ("/", "/queues"):
        assert "store is unavailable" not in client.get(path).text
    client.post("/queues/sums/pause")  # and the next page must show it

    def away(*_: Any, **__: Any) -> Any:
        raise EngineUnavailable("no route to the server")

    for name in ("queue_counts", "workers", "find"):
        monkeypatch.setattr(type(app.engine.queries), name, away)
    monkeypatch.setattr(type(app.engine.queries), "rules", away)
    monkeypatch.setattr(MetricsReader, "catch_up", away)
    for path in ("/", "/queues"):
        page = client.get(path)
        assert page.status_code == 200, path
        assert "The store is unavailable" in page.text
        assert "sums</b>" in page.text
    jobs = client.get("/jobs")
    assert (jobs.status_code, jobs.headers["retry-after"]) == (503, "5")
    assert "no route to the server" in jobs.text
    assert "The last count is from" in jobs.text
    assert re.search(r'pending</span> <b title="1">1</b>', jobs.text)
    assert "To the overview with the last figures" in jobs.text
    assert '<noscript><meta http-equiv="refresh"' in jobs.text  # scripts reload by themselves
    monkeypatch.undo()
    back = client.get("/jobs")
    assert (back.status_code, "refresh" in back.text.split("</head>")[0]) == (200, False)


@pytest.mark.engines("sqlite")
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/queues",
        "/queues/a",
        "/jobs",
        "/jobs/x",
        "/flows",
        "/dead",
        "/schedules",
        "/alerts",
        "/lifecycle",
        "/workers",
        "/system",
        "/webhooks",
    ],
)
def test_every_page_has_its_frame_if_the_store_was_never_available(path: str) -> None:
    with Headrace("redis://127.0.0.1:1/0") as app:
        page = Client(app.asgi()).get(path)
    assert (page.status_code, page.headers["retry-after"]) == (503, "5")
    assert "This page reloads when the store is available again." in page.text
    assert "To the overview<" in page.text
    assert 'aria-label="Main"' in page.text


@pytest.mark.engines("sqlite")
def test_a_list_does_not_wait_until_a_large_store_is_counted(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    register(app)["add"].enqueue(1, 2)
    counting, count = threading.Event(), app.engine.queries.queue_counts
    monkeypatch.setattr(type(app.engine.queries), "queue_counts", lambda *_, **__: counting.wait(30) and count())
    client = Client(app.asgi())
    early = client.get("/jobs?state=pending")
    assert early.status_code == 200
    assert "data-counting" in early.text
    assert "1 shown, newest first" in early.text
    counting.set()
    client.get("/queues")  # it waits for the count
    late = client.get("/jobs?state=pending")
    assert "data-counting" not in late.text
    assert "1 shown of 1, newest first" in late.text


@pytest.mark.engines("sqlite")
def test_the_palette_finds_by_id_and_by_name(app: Headrace) -> None:
    tasks = register(app)
    job = tasks["add"].enqueue(1, 2)
    client = Client(app.asgi())
    assert client.get(f"/palette?q={job.id}").json()[0]["goto"] == f"/jobs/{job.id}"
    assert [found["name"] for found in client.get("/palette?q=queue+sums").json()][:2] == ["sums", "Pause queue sums"]


def test_static_files_are_small() -> None:
    assert sum(path.stat().st_size for path in STATIC.iterdir()) < 150_000


@pytest.mark.engines("sqlite")
def test_static_files_are_cached_forever_and_no_other_file_is_served(app: Headrace) -> None:
    client = Client(app.asgi())
    path = re.search(r'src="(/static/\w+/app.js)"', client.get("/").text)
    assert path is not None
    answer = client.get(path[1])
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "immutable" in answer.headers["cache-control"]
    assert client.get("/static/x/..%2Fframe.py").status_code == 404
    assert client.get("/static/x/frame.py").status_code == 404


@pytest.mark.engines("sqlite")
def test_the_app_closes_after_the_last_read_of_a_page(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    began, go_on, closed = threading.Event(), threading.Event(), threading.Event()
    count, close = app.engine.queries.queue_counts, app.engine.close

    def slowly(*args: Any, **options: Any) -> Any:
        began.set()
        go_on.wait(30)
        assert not closed.is_set()
        return count(*args, **options)

    def close_store() -> None:
        closed.set()
        close()

    monkeypatch.setattr(app.engine.queries, "queue_counts", slowly)
    monkeypatch.setattr(app.engine, "close", close_store)
    pages = Client(app.asgi())
    reading = threading.Thread(target=pages.get, args=("/queues",))
    reading.start()
    assert began.wait(30)
    closing = threading.Thread(target=app.close)
    closing.start()
    assert not closed.wait(0.1)
    go_on.set()
    closing.join()
    reading.join()
    assert closed.is_set()


@pytest.mark.engines("sqlite")
def test_lists_and_pages_show_arguments_by_name_and_escaped(app: Headrace) -> None:
    @app.task(redact=("card",))
    def pay(order_id: int, note: str, card: str = "") -> None:
        raise ValueError("no")

    job = pay.using(retry=0).enqueue(40199, "<b>x</b>", "4711-secret")
    flow = app.flow("f")
    flow.add(pay.bind(40200, "y"))
    run = flow.enqueue()
    app.schedules.create("s", pay, args=(40201, "z"), every=60)
    with app.worker(concurrency=1):
        job.wait(timeout=20)
    client = Client(app.asgi())
    dead_letter = app.dead.get(job.id)
    shown = "order_id=40199, note=&#34;&lt;b&gt;x&lt;/b&gt;&#34;, card=***"
    for path in ("/jobs", "/dead"):
        assert shown in client.get(path).text, path
    for path in (f"/jobs/{job.id}", f"/dead/{dead_letter.id}"):
        text = client.get(path).text
        assert "&#34;order_id&#34;: 40199" in text, path
        assert "4711-secret" not in text
        assert "<b>x" not in text
    assert "pay(order_id=40200, note=&#34;y&#34;)" in client.get(f"/flows/{run.id}").text
    assert "order_id=40201, note=&#34;z&#34;" in client.get("/schedules/s").text


def test_the_pages_of_a_flow_and_its_job_show_the_budget(app: Headrace) -> None:
    @app.task
    def ask(tokens: int) -> None:
        current_job().report_cost(tokens)

    run = group(ask.using(budget=5000).bind(1200), budget=1000).enqueue()
    drain(app)
    client = Client(app.asgi())
    assert "used 1,200 of 1,000 units" in client.get(f"/flows/{run.id}").text
    assert "1,200 of 5,000 units" in client.get(f"/jobs/{run.jobs[0].id}").text
