"""The pages of tasks, and the form that enqueues one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace import Headrace, TaskRules
from headrace.core.jobs.queue_rules import Rate
from tests.support.waiting import PATIENCE
from tests.surfaces.web.actions import app, client, clock, do, refused
from tests.surfaces.web.client import Client
from tests.surfaces.web.pages.tasks import HOSTILE, register
from tests.surfaces.web.test_forms import WRITES

__all__ = ["app", "client", "clock"]  # the fixtures


def row_of(page: str, task: str) -> list[str]:
    """The cells of a task in the list, as text."""
    found = re.search(rf'<tr id="t-{re.escape(task)}".*?</tr>', page, re.DOTALL)
    assert found is not None, page
    return [" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in re.findall(r"<td.*?</td>", found[0], re.DOTALL)]


def test_tasks_are_listed_with_their_numbers(app: Headrace, client: Client) -> None:
    tasks = register(app)
    with app.worker():
        for job in (tasks["add"].enqueue(1, 2), tasks["refuse"].enqueue(7)):
            job.wait(PATIENCE)
    tasks["refuse"].enqueue(8)
    app.configure_task("add", rate="5/s", concurrency=2)
    app.pause_task("refuse")
    page = client.get("/tasks").text
    assert row_of(page, "add")[1:6] == ["0", "0", "1/h", "0", "0%"]
    assert "rate=5/s" in row_of(page, "add")[8]
    assert row_of(page, "refuse")[:6] == ["refuse paused", "1", "0", "0/h", "1", "100%"]
    assert "order 7 has no address" in page
    assert "Resume" in row_of(page, "refuse")[-1]
    assert row_of(page, "hold")[3:8] == ["–", "–", "–", "–", "–"]
    assert 'id="t-refuse"' not in client.get("/tasks?q=ADD").text
    assert "No task has this in its name" in client.get("/tasks?q=nothing").text


def test_the_batches_of_a_task_are_shown(app: Headrace, client: Client) -> None:
    app.task(name="embed", batch=100, within=0.5)(lambda texts: None)
    app.configure_task("embed", rate="5/s")
    assert row_of(client.get("/tasks").text, "embed")[8] == "batch 100 within 0.5 s, rate=5/s burst=5"
    assert "batch 100 within 0.5 s" in client.get("/tasks/embed").text


def test_a_task_is_shown_with_its_failures_and_links(app: Headrace, client: Client) -> None:
    tasks = register(app)
    with app.worker():
        tasks["refuse"].enqueue(7).wait(PATIENCE)
    page = client.get("/tasks/refuse").text
    assert "PermanentError: order 7 has no address" in page
    for link in ("/enqueue?task=refuse", "/jobs?task=refuse", "/dead?task=refuse"):
        assert f'href="{link}"' in page
    assert "Nothing has failed" in client.get("/tasks/add").text


def test_a_task_of_any_name_has_a_page(app: Headrace, client: Client) -> None:
    name = HOSTILE[:60].replace(" ", "")
    app.task_by_name(name).enqueue()
    for path in ("/tasks", f"/tasks/{name}"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "<script>document" not in answer.text
    assert "no live worker knows it" in client.get(f"/tasks/{name}").text


def test_a_task_is_paused_resumed_and_limited(app: Headrace, client: Client) -> None:
    assert do(client, "/tasks/mail.send/pause") == "Task mail.send is paused; running jobs continue."
    assert app.task_rules() == {"mail.send": TaskRules(paused=True)}
    assert "Resume" in client.get("/tasks/mail.send").text
    assert do(client, "/tasks/mail.send/resume") == "Task mail.send is open again."
    do(client, "/tasks/mail.send/configure", rate="10/s", burst="3", concurrency="2", strategy="fifo")
    assert app.task_rules()["mail.send"] == TaskRules(rate=Rate(100_000, 3), concurrency=2, strategy="fifo")
    assert 'name="rate" value="10/s"' in client.get("/tasks/mail.send").text
    do(client, "/tasks/mail.send/configure", rate="", burst="3", concurrency="", strategy="")
    assert app.task_rules() == {}


def test_wrong_rules_of_a_task_are_refused(app: Headrace, client: Client) -> None:
    assert refused(client, "/tasks/add/configure", concurrency="two") == "concurrency: 'two' is not a whole number"
    assert "rate" in refused(client, "/tasks/add/configure", rate="often")
    assert app.task_rules() == {}


def test_the_form_of_a_known_task_has_a_field_for_each_parameter(app: Headrace, client: Client) -> None:
    @app.task(name="mail")
    def mail(to: str, copies: int, tags: list[str] | None = None, note: str | None = None) -> None: ...

    page = client.get("/enqueue?task=mail").text
    assert re.findall(r'name="arg\.(\w+)" placeholder="([^"]*)"', page) == [
        ("to", "str"),
        ("copies", "int"),
        ("tags", "list[str] | None, optional"),
        ("note", "str | None, optional"),
    ]
    assert 'name="kwargs"' not in page
    fields = {"task": "mail", "arg.to": "1234", "arg.copies": "2", "arg.tags": '["a"]', "arg.note": "in a hurry"}
    do(client, "/enqueue", **fields)
    [job] = app.jobs.find(task="mail")
    assert (job.args, job.kwargs) == ((), {"to": "1234", "copies": 2, "tags": ["a"], "note": "in a hurry"})


@pytest.mark.parametrize(
    ("wrong", "told"),
    [({"arg.to": "x"}, "copies"), ({"arg.to": "x", "arg.copies": "many"}, "expected int, got str 'many'")],
)
def test_wrong_fields_of_a_known_task_are_refused(
    app: Headrace,
    client: Client,
    wrong: dict[str, str],
    told: str,
) -> None:
    @app.task(name="mail")
    def mail(to: str, copies: int) -> None: ...

    assert told in refused(client, "/enqueue", task="mail", **wrong)
    assert app.jobs.count() == 0


def test_the_form_of_an_unknown_task_or_of_any_arguments_is_json(app: Headrace, client: Client) -> None:
    @app.task(name="any")
    def any_(*args: int, **kwargs: int) -> None: ...

    for task in ("any", "unknown", ""):
        page = client.get(f"/enqueue?task={task}").text
        assert 'name="kwargs"' in page
        assert 'name="arg.' not in page
    assert 'href="/enqueue?task=any"' in client.get("/enqueue").text


def test_the_form_of_a_task_that_only_workers_know_has_its_parameters(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with Headrace(url) as code:

        @code.task(name="mail")
        def mail(to: str, copies: int = 1) -> None: ...

        with code.worker():
            pass
        with Headrace(url) as elsewhere:
            client = Client(elsewhere.asgi(), headers=WRITES)
            assert re.findall(r'name="arg\.(\w+)"', client.get("/enqueue?task=mail").text) == ["to", "copies"]
            do(client, "/enqueue", **{"task": "mail", "arg.to": "ann", "arg.copies": "2"})
            [job] = elsewhere.jobs.find(task="mail")
            assert job.kwargs == {"to": "ann", "copies": 2}
