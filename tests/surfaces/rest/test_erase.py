"""Erasing a person over REST: for admins, a dry run unless asked, and recorded in the audit trail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import Headrace
from tests.support.builders import new_job
from tests.surfaces.rest.kit import Api

PATH = "/lifecycle/erase"


@pytest.fixture
def app() -> Iterator[Headrace]:
    with Headrace("memory://") as app:
        now = app.clock.now()
        jobs = [new_job(f"j{number}", tags=("user:42",), created_at=now, run_at=now) for number in range(3)]
        app.engine.insert([*jobs, new_job("other", created_at=now, run_at=now)])
        yield app


def api(app: Headrace, role: str = "admin") -> Api:
    site = app.asgi(tokens=[f"{role}=geheim"], rate=None)
    return Api(site, headers={"authorization": "Bearer geheim"})


def test_a_person_is_erased_unless_it_is_a_dry_run(app: Headrace) -> None:
    planned = api(app).ask("POST", PATH, json={"tag": "user:42"})
    assert (planned["dry_run"], planned["jobs"], app.jobs.count()) == (True, 3, 4)
    erased = api(app).ask("POST", PATH, json={"tag": "user:42", "dry_run": False})
    assert (erased["dry_run"], erased["jobs"], erased["events"]) == (False, 3, 9)
    assert [job.id for job in app.jobs.find()] == ["other"]
    entry = app.audit.list()[0]
    assert (entry.what, entry.outcome, entry.detail["tag"]) == ("lifecycle.erase", "done", "user:42")
    assert api(app).ask("POST", PATH, json={"key": "acme"})["jobs"] == 0
    # An erasure keeps what it erased.
    api(app).ask("POST", PATH, json={"tag": "user:42", "dry_run": False})
    assert app.audit.list()[2].detail["tag"] == "user:42"


def test_only_an_admin_may_erase_and_no_text_is_searched(app: Headrace) -> None:
    for role in ("viewer", "worker"):
        assert api(app, role).refused("POST", PATH, 403, json={"tag": "user:42"})
    assert "at least one filter" in api(app).refused("POST", PATH, 422, json={"dry_run": False})[1]
    assert "text" in api(app).refused("POST", PATH, 422, json={"text": "secret"})[1]
    assert app.jobs.count() == 4
