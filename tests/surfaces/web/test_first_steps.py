"""An empty store says what to do first; a completed job is not run again by one click."""

from __future__ import annotations

from pathlib import Path

from headrace import Headrace
from headrace.testing import drain
from headrace.web.pages.views.overview import first_steps
from tests.surfaces.web.actions import app, ask, client, clock, do
from tests.surfaces.web.client import Client

__all__ = ["app", "client", "clock"]  # the fixtures


def test_an_empty_store_shows_the_commands_for_its_url(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/it's.db"
    with Headrace(url) as app:
        page = Client(app.asgi()).get("/").text
        assert "First steps" in page
        assert (
            f"headrace worker --app tasks:app --url &#39;sqlite:///{tmp_path}/it&#39;&#34;&#39;&#34;&#39;s.db&#39;"
            in page
        )
        assert "headrace enqueue add &#39;[2, 3]&#39; --url" in page
        assert "All is well" not in page
        app.task_by_name("add").enqueue(2, 3)
        page = Client(app.asgi()).get("/").text
        assert "First steps" not in page


def test_a_command_has_no_masked_password() -> None:
    elsewhere = Headrace("postgresql://shop:s3cret@db.example/shop")
    commands = [command for _, command in first_steps(elsewhere)]
    assert all(command.endswith('--url "$HEADRACE_URL"') for command in commands)


def test_the_commands_name_a_known_task(app: Headrace, client: Client) -> None:
    app.task(name="mail.send")(lambda: None)
    page = client.get("/").text
    assert "headrace enqueue mail.send --url memory://" in page


def test_a_completed_job_is_run_again_after_a_question_only(app: Headrace, client: Client) -> None:
    add = app.task(name="add")(lambda a, b: a + b)
    job = add.enqueue(2, 3)
    drain(app)
    page = client.get(f"/jobs/{job.id}").text
    assert "Run again" in page
    assert 'class="button main"' not in page
    question = ask(client, f"/jobs/{job.id}/retry")
    assert question["ask"] == "Run add again, though it completed?"
    assert job.refresh().state == "completed"
    assert do(client, f"/jobs/{job.id}/retry").endswith("is queued again.")
    assert job.refresh().state == "pending"


def test_a_cancelled_job_is_retried_without_a_question(app: Headrace, client: Client) -> None:
    job = app.task_by_name("add").enqueue(2, 3)
    job.cancel()
    assert client.post(f"/jobs/{job.id}/retry").json()["ok"] is True
    assert job.refresh().state == "pending"
