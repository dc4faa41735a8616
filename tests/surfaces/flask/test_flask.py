"""A Flask site with jobs: the app context, the command, the dashboard."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, current_app, g, session

from headrace import ConfigError, Headrace
from headrace.contrib.flask import init_app
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[3]
BEYOND = {"REMOTE_ADDR": "203.0.113.9"}
HTML = {"Accept": "text/html"}


@pytest.fixture
def jobs() -> Iterator[Headrace]:
    with Headrace("memory://") as app:
        yield app


@pytest.fixture
def site() -> Flask:
    site = Flask("shop")
    site.config.update(CURRENCY="EUR", SECRET_KEY="of a site that only tests use")
    return site


# -- the app context


def test_tasks_run_in_the_context_of_the_site_whenever_they_were_registered(site: Flask, jobs: Headrace) -> None:
    ended: list[Any] = []
    site.teardown_appcontext(ended.append)

    @jobs.task
    def early() -> str:
        g.seen = True
        return str(current_app.config["CURRENCY"])

    init_app(site, jobs)

    @jobs.task
    async def late() -> list[Any]:
        return [current_app.config["CURRENCY"], "seen" in g]

    @jobs.task(retry=0)
    def fails() -> None:
        current_app.config["nothing"]

    with jobs.worker():
        assert early.enqueue().result(timeout=PATIENCE) == "EUR"
        assert late.enqueue().result(timeout=PATIENCE) == ["EUR", False]
        failed = fails.enqueue()
        assert failed.wait(PATIENCE) == "failed"
    assert len(ended) == 3, "each attempt has a context of its own, which ends with it"
    assert isinstance(ended[2], KeyError)


def test_a_call_in_the_process_is_left_alone(site: Flask, jobs: Headrace) -> None:
    @jobs.task
    def currency() -> str:
        return str(current_app.config["CURRENCY"])

    init_app(site, jobs)
    with pytest.raises(RuntimeError, match="application context"):
        currency()
    assert jobs.tasks["currency"] is currency
    assert jobs.find_task("nonsense") is None


# -- the dashboard


def test_the_dashboard_is_a_part_of_the_site(site: Flask, jobs: Headrace) -> None:
    init_app(site, jobs, dashboard="/background/")
    there = site.test_client()
    assert there.get("/background").headers["Location"].endswith("/background/")
    page = there.get("/background/", headers=HTML)
    assert page.status_code == 200
    assert 'href="/background/queues"' in page.text
    made = there.post("/background/api/v1/jobs", json={"task": "a/b", "args": [1]})
    assert made.status_code == 201
    assert there.get(made.headers["Location"]).json["args"] == [1]  # type: ignore[index]
    assert there.delete(made.headers["Location"]).status_code == 204
    assert there.get("/background/live").status_code == 204
    assert there.get("/else").status_code == 404
    assert there.get("/background/", headers=HTML, environ_overrides=BEYOND).status_code == 403


def test_the_session_of_the_site_decides(site: Flask, jobs: Headrace) -> None:
    @site.get("/login/<name>")
    def login(name: str) -> str:
        session["user"] = name
        return name

    def signed_in(_: Any) -> Any:
        user = session.get("user")
        return (user, "admin" if user == "ann" else "viewer") if user else None

    init_app(site, jobs, dashboard="/background", auth=signed_in, login_url="/login")
    there = site.test_client()
    assert there.get("/background/queues", headers=HTML).headers["Location"] == "/login?next=/background/queues"
    there.get("/login/bob")
    assert there.get("/background/queues", headers=HTML).status_code == 200
    assert there.post("/background/api/v1/queues/mail/pause", json={}).status_code == 403
    there.get("/login/ann")
    assert there.post("/background/api/v1/queues/mail/pause", json={}).status_code == 200
    assert [entry.who for entry in jobs.audit.list()] == ["ann"]


def test_the_forgery_check_of_the_site_leaves_the_dashboard_to_its_own(site: Flask, jobs: Headrace) -> None:
    exempt: list[Any] = []

    class Csrf:
        def exempt(self, view: Any) -> None:
            exempt.append(view)

    site.extensions["csrf"] = Csrf()
    init_app(site, jobs, dashboard="/background")
    assert exempt == [site.view_functions["headrace"]]
    there = site.test_client()
    assert there.post("/background/queues/mail/pause", data={}).status_code == 403
    assert there.post("/background/queues/mail/pause", headers={"Origin": "https://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"auth": len}, "add dashboard="),
        ({"dashboard": "background"}, "should be a path"),
        ({"dashboard": "/"}, "should be a path"),
        ({"dashboard": "/x", "read_onli": True}, "did you mean 'read_only'"),
    ],
)
def test_wrong_options_are_told(site: Flask, jobs: Headrace, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        init_app(site, jobs, **options)


def test_a_site_has_one_app(site: Flask, jobs: Headrace) -> None:
    init_app(site, jobs)
    assert site.extensions["headrace"] is jobs
    with pytest.raises(ConfigError, match="'shop' has a Headrace app already"):
        init_app(site, jobs)


# -- the command


@pytest.mark.slow
def test_the_command_of_flask_is_the_command_line_of_headrace(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        """
from flask import Flask, current_app
from headrace import Headrace
from headrace.contrib.flask import init_app

jobs = Headrace("sqlite:///jobs.db")
site = Flask("shop")
site.config["CURRENCY"] = "EUR"

@jobs.task
def currency():
    return current_app.config["CURRENCY"]

init_app(site, jobs)
"""
    )

    def flask(*arguments: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "flask", "--app", "shop:site", *arguments]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{tmp_path}"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert "jobs" in flask("--help")
    assert "headrace worker" in flask("jobs", "worker", "--help")
    flask("jobs", "enqueue", "currency")
    flask("jobs", "worker", "--drain", "--concurrency", "2")
    assert "completed" in flask("jobs", "jobs", "--state", "completed")
    assert "no such command" in flask("jobs", "nonsense", code=2).lower()
    with Headrace(f"sqlite:///{tmp_path}/jobs.db") as app:
        [job] = app.jobs.find()
        assert job.result() == "EUR"
