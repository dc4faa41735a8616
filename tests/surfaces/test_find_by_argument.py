"""Jobs are found by an indexed argument from the command line, over REST and on the dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from headrace import Headrace
from tests.support.command_line import Shell
from tests.surfaces.web.client import Client
from tests.surfaces.web.test_forms import WRITES


@pytest.fixture
def app(shell: Shell) -> Iterator[Headrace]:
    with shell.app() as app:

        @app.task(index=("order_id",))
        def pay(order_id: str, note: str = "") -> None: ...

        for number, order in enumerate(("7", "8", "a b", "7")):
            pay.using(job_id=f"pay-{number}").enqueue(order, "x")
        yield app


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("order_id=7", ["pay-3", "pay-0"]),
        ("order_id=a b", ["pay-2"]),
        ("order_id=", []),
        ("note=x", []),
    ],
)
def test_the_command_line_and_rest_find_jobs_by_an_argument(
    shell: Shell, app: Headrace, given: str, found: list[str]
) -> None:
    assert [job["id"] for job in shell("jobs", "--arg", given, "--json").json["jobs"]] == found
    client = Client(app.asgi())
    answer = client.get(f"/api/v1/jobs?total=true&arg={quote(given)}").json()
    assert ([job["id"] for job in answer["jobs"]], answer["total"]) == (found, len(found))
    body = {"arg": given, "dry_run": True}
    assert Client(app.asgi(), headers=WRITES).post("/api/v1/jobs/cancel", json=body).json()["changed"] == len(found)


def test_an_action_of_the_command_line_changes_only_these(shell: Shell, app: Headrace) -> None:
    assert shell("jobs", "cancel", "--arg", "order_id=7", "--yes").code == 0
    assert {job.id for job in app.jobs.find(state="cancelled")} == {"pay-0", "pay-3"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("args.order_id:7", ["pay-3", "pay-0"]),
        ('args.order_id:"a b"', ["pay-2"]),
        ("args.order_id:7 pay-3", ["pay-3"]),
        ("pay-0 args.order_id:7", ["pay-0"]),
        ("args.order_id:9", []),
    ],
)
def test_the_search_box_of_the_dashboard_finds_jobs_by_an_argument(app: Headrace, text: str, found: list[str]) -> None:
    page = Client(app.asgi()).get(f"/jobs?text={quote(text)}").text
    assert [f"pay-{n}" for n in range(3, -1, -1) if f'id="jobs-pay-{n}"' in page] == found
    assert text.replace('"', "&#34;") in page


def test_a_bulk_action_of_the_dashboard_applies_to_these(app: Headrace) -> None:
    client = Client(app.asgi(), headers=WRITES)
    form = {"do": "cancel", "query": "text=args.order_id%3A7"}
    asked = client.post("/jobs", data=form).json()
    assert asked["ask"] == "Cancel 2 jobs?"
    assert "args order_id=7" in asked["detail"]
    assert client.post("/jobs", data={**form, "confirmed": asked["confirmed"]}).status_code == 200
    assert {job.id for job in app.jobs.find(state="cancelled")} == {"pay-0", "pay-3"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("jobs", "--arg", "order_id"), "is not NAME=VALUE"),
        (("jobs", "--arg", "a b=1"), "is not NAME=VALUE"),
        (("jobs", "--arg", "a=1", "--tag", "t"), "args and tag exclude each other"),
        (("jobs", "--arg", "a=1", "show", "x"), "put --arg after 'show'"),
    ],
)
def test_a_wrong_argument_is_named(shell: Shell, app: Headrace, arguments: tuple[str, ...], expected: str) -> None:
    ran = shell(*arguments)
    assert ran.code == 2
    assert expected in ran.err


def test_an_argument_without_an_index_is_told_from_one_without_jobs(shell: Shell, app: Headrace) -> None:
    app.run_worker(drain=True)
    assert "note: no known task has 'order' in its index" in shell("jobs", "--arg", "order=7").err
    assert shell("jobs", "--arg", "order_id=none").err == "no jobs match\n"
    client = Client(app.asgi())
    assert "No known task has order in its index" in client.get("/jobs?text=args.order:7").text
    assert "in its index" not in client.get("/jobs?text=args.order_id:none").text


@pytest.mark.parametrize("given", ["order_id", "a b=1", "=1"])
def test_rest_refuses_a_wrong_argument(app: Headrace, given: str) -> None:
    answer = Client(app.asgi()).get(f"/api/v1/jobs?arg={quote(given)}")
    assert answer.status_code == 422
    assert "arg" in answer.json()["detail"]


def test_a_job_that_is_enqueued_by_name_has_the_index_that_a_worker_declared(shell: Shell, app: Headrace) -> None:
    app.run_worker(drain=True)
    assert shell("enqueue", "pay", '["70"]').code == 0
    with shell.app() as other:  # without the code
        client = Client(other.asgi(), headers=WRITES)
        assert client.post("/api/v1/jobs", json={"task": "pay", "args": ["70"]}).status_code == 201
        assert client.post("/enqueue", data={"task": "pay", "args": '["70"]', "kwargs": "{}"}).status_code == 200
        assert other.jobs.count(args={"order_id": 70}) == 3
        assert other.enqueue("pay", "70").refresh().tags == ()
        assert other.jobs.count(args={"order_id": 70}) == 3  # a program that enqueues by name reads nothing
