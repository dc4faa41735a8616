"""The doctor finds problems and reports nothing else; migrate prints its steps; bench uses no store of the user."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from headrace.core.health.stalls import Stall, document_of
from headrace.core.jobs.transfer import StoreStatus
from headrace.core.retention.retention import RetentionRun
from headrace.runtime.retention.last_run import store_last_run
from tests.support.command_line import Shell
from tests.support.waiting import eventually


def test_a_fresh_folder_is_well_and_stays_empty(shell: Shell) -> None:
    ran = shell("doctor")
    assert ran.code == 0
    assert "all is well" in ran.out
    assert "there is no store at" in ran.out
    assert list(shell.folder.iterdir()) == []


def test_settings_are_printed_with_their_origin(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    (shell.folder / "pyproject.toml").write_text("[tool.headrace]\nlease = 60\nconcurrency = 2\n")
    monkeypatch.setenv("HEADRACE_CONCURRENCY", "8")
    settings = shell("doctor", "--json").json["settings"]
    assert settings["concurrency"] == {"value": 8, "origin": "HEADRACE_CONCURRENCY"}
    assert settings["lease"] == {"value": 60.0, "origin": "[tool.headrace] of pyproject.toml"}
    assert settings["heartbeat"]["origin"] == "default"
    lines = [line.split() for line in shell("doctor").out.splitlines()]
    assert ["concurrency", "8", "HEADRACE_CONCURRENCY"] in lines
    assert ["processes", "1", "default"] not in lines
    assert ["processes", "1", "default"] in [line.split() for line in shell("doctor", "--all").out.splitlines()]


def test_the_verdict_comes_first(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shell("doctor").out.splitlines()[0] == "all is well"
    monkeypatch.setenv("HEADRACE_LEASE", "long")
    assert shell("doctor").out.splitlines()[0].startswith("wrong: HEADRACE_LEASE")


def test_a_store_with_work_and_a_worker_is_well(shell: Shell) -> None:
    with shell.app() as app, app.worker(queues=["other"]):
        app.task_by_name("x").using(delay=60).enqueue()
        report = shell("doctor", "--json")
    assert (report.code, report.json["ok"], report.json["findings"]) == (0, True, [])
    assert report.json["workers"] == {"alive": 1, "silent": 0}
    assert report.json["engine"]["engine"] == "sqlite"
    assert {"headrace", "python", "click", "msgspec", "rich"} <= report.json["versions"].keys()


def test_pending_jobs_without_a_worker_are_a_finding(shell: Shell) -> None:
    with shell.app() as app, app.worker(queues=["other"]):
        app.task_by_name("x").using(queue="mail").enqueue()
        ran = shell("doctor")
    assert ran.code == 1
    assert "queue 'mail' has 1 pending job and no live worker" in ran.out
    assert "headrace worker -q mail" in ran.out


def test_needs_that_no_live_worker_has_are_a_finding(shell: Shell) -> None:
    with shell.app() as app:
        render = app.task_by_name("render")
        first = render.using(needs=["gpu"], rate_key="a").enqueue()
        render.using(needs=["gpu"], rate_key="b").enqueue()
        both = render.using(needs=["gpu", "disk"], queue="mail").enqueue()
        render.using(needs=["disk"], delay=3600).enqueue()
        # A worker of another queue has `gpu`; a worker with `disk` lacks `gpu`.
        with app.worker(queues=["mail"], capabilities=["disk"]), app.worker(queues=["other"], capabilities=["gpu"]):
            findings = shell("doctor", "--json").json["findings"]
        with app.worker(queues=["empty"], capabilities=["disk"]):
            alone = shell("doctor").out
    needs = [finding for finding in findings if "--needs" in finding]
    assert len(needs) == 2
    for finding, parts in zip(
        needs,
        [
            ("'default'", "has gpu,", "2 pending jobs need", first.id),
            ("'mail'", "disk and gpu", "1 pending job needs", both.id),
        ],
        strict=True,
    ):
        assert all(part in finding for part in parts)
    assert "`headrace worker -q mail --needs disk,gpu`" in needs[1]
    assert alone.count("--needs") == 2


def test_needs_that_a_live_worker_has_are_no_finding(shell: Shell) -> None:
    with shell.app() as app:
        render = app.task(name="render", needs=["gpu"])(lambda: None)
        worker = app.worker(queues=["default"], capabilities=["gpu", "disk"]).start()
        app.pause_worker(worker.id)  # so that it claims nothing
        eventually(lambda: worker.describe().state == "paused", "the worker pauses")
        render.enqueue()
        assert shell("doctor", "--json").json["findings"] == []


def test_jobs_of_a_task_that_no_worker_knows_are_a_finding(shell: Shell) -> None:
    with shell.app() as app, app.worker():
        app.task_by_name("unheard_of").enqueue()
        app.task_by_name("x").using(delay=60).enqueue()  # it does not wait for a worker
        findings = shell("doctor", "--json").json["findings"]
    assert len(findings) == 1
    assert "no live worker of queue 'default' knows task 'unheard_of'" in findings[0]


def test_a_silent_worker_is_a_finding(shell: Shell) -> None:
    with shell.app() as app:
        with app.worker() as worker:
            row = worker.describe()
        long_ago = int((datetime.now(UTC) - timedelta(hours=1)).timestamp() * 1000)
        app.engine.renew(msgspec.structs.replace(row, seen_at=long_ago), (), 0)
    report = shell("doctor", "--json")
    assert report.code == 1
    assert report.json["workers"] == {"alive": 0, "silent": 1}
    assert row.id in report.json["findings"][0]


def test_a_stalled_worker_is_a_finding(shell: Shell) -> None:
    """The heartbeat reports stalls; see tests/runtime/worker/test_liveness.py."""
    with shell.app() as app, app.worker() as worker:
        app.engine.document_store.put(
            [document_of(Stall(worker.id, "scheduler", 0)), document_of(Stall("long-gone", "maintenance", 0))]
        )
        report, listed = shell("doctor", "--json"), shell("workers")
    assert report.code == 1
    (finding,) = report.json["findings"]
    assert f"the scheduler of worker {worker.id} has hung" in finding
    assert "stalled" in listed.out


def test_broken_code_is_a_finding_and_the_store_is_checked_anyway(shell: Shell) -> None:
    shell("enqueue", "x", "--delay", "60")
    report = shell("--app", shell.module("1 / 0\n"), "doctor", "--json")
    assert report.code == 1
    assert any("ZeroDivisionError" in finding for finding in report.json["findings"])
    assert report.json["engine"]["schema"] == report.json["engine"]["schema_expected"]


def test_an_app_is_printed_with_its_tasks(shell: Shell) -> None:
    name = shell.module()
    shell("--app", name, "migrate")
    report = shell("--app", name, "doctor", "--json").json
    assert (report["app"], report["tasks"]) == (name, ["add", "hold", "login", "talk"])
    assert "add, hold, login, talk" in shell("--app", name, "doctor").out


def test_a_file_that_is_not_a_store_is_a_finding(shell: Shell) -> None:
    (shell.folder / "headrace.db").write_text("this is not a database, and long enough to be looked at as one\n" * 20)
    ran = shell("doctor")
    assert ran.code == 1
    assert "not an SQLite database" in ran.out
    assert shell("jobs").code == 1


def test_a_bad_setting_is_a_finding(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_LEASE", "long")
    report = shell("doctor", "--json")
    assert report.code == 1
    assert len(report.json["findings"]) == 1
    assert "HEADRACE_LEASE" in report.json["findings"][0]


def test_migrate_says_what_ran_and_then_that_nothing_is_left(shell: Shell) -> None:
    first = shell("migrate", "--json").json
    assert first["applied"][0].startswith("0001_")
    assert first["version"] == len(first["applied"])
    assert "nothing to do" in shell("migrate").out
    assert shell("migrate", "--json").json == {**first, "applied": []}
    assert first["url"].endswith("headrace.db")


def test_a_store_of_a_newer_headrace_is_refused_and_left_as_it_is(shell: Shell) -> None:
    shell("migrate")
    with closing(sqlite3.connect(shell.folder / "headrace.db")) as db, db:
        db.execute("INSERT INTO headrace_schema (version, name, applied_at) VALUES (999, 'future', 0)")
    db.close()
    for command in (("migrate",), ("jobs",), ("enqueue", "x")):
        ran = shell(*command)
        assert ran.code == 1, "not a usage error: the store needs a newer headrace"
        assert "newer headrace" in ran.err
    assert "newer headrace" in shell("doctor").out


@pytest.mark.slow
def test_bench_measures_and_leaves_nothing_behind(shell: Shell) -> None:
    ran = shell("bench", "--seconds", "1", "--json")  # a busy machine needs some of it to start a worker
    assert ran.code == 0
    assert [result["name"] for result in ran.json["results"]] == [
        "enqueue, one by one",
        "enqueue_many, 1000 at once",
        "run, 4 threads",
    ]
    assert all(result["jobs"] > 0 and result["per_second"] > 0 for result in ran.json["results"])
    assert list(shell.folder.iterdir()) == []


def test_bench_prints_a_table(shell: Shell) -> None:
    ran = shell("bench", "--seconds", "0.1", "-c", "2")
    head, *lines = ran.out.splitlines()
    assert head.split() == ["WHAT", "JOBS", "SECONDS", "JOBS/S"]
    assert len(lines) == 3
    assert "measuring on a temporary file" in ran.err


def test_the_archive_is_checked_and_its_password_is_not_printed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    with shell.app() as app:
        app.task_by_name("x").using(delay=60).enqueue()
    monkeypatch.setenv("HEADRACE_ARCHIVE_URL", "postgresql://ann:hush@127.0.0.1:1/archive?connect_timeout=2")
    ran = shell("doctor", "--json")
    assert (ran.code, ran.json["ok"]) == (1, False)
    [finding] = ran.json["findings"]
    assert "the archive can't be read" in finding
    assert ran.json["settings"]["archive_url"]["value"].startswith("postgresql://ann:***@127.0.0.1:1/archive")
    assert "hush" not in ran.out + ran.err + shell("doctor").out


def test_a_moved_store_is_a_finding_and_a_store_being_filled_is_not(shell: Shell) -> None:
    with shell.app() as app:
        app.engine.transfer.set_status(StoreStatus("moved", "redis://new", app.clock.now()))
        ran = shell("doctor")
        assert ran.code == 1
        assert "the jobs of this store were copied to redis://new" in ran.out
        assert "headrace copy --reopen" in ran.out
        app.engine.transfer.set_status(StoreStatus("arriving", "redis://old", app.clock.now()))
        ran = shell("doctor")
        assert ran.code == 0
        assert "this store is being filled from redis://old" in ran.out
        assert "run the same command again" in ran.out
        app.engine.transfer.set_status(None)
        assert "this store" not in shell("doctor").out


def test_an_archive_that_refuses_jobs_is_a_finding_until_it_accepts_them(shell: Shell) -> None:
    with shell.app() as app:
        store_last_run(
            app.engine.document_store, RetentionRun(at=app.clock.now(), duration=1, error="OSError: no room")
        )
        ran = shell("doctor")
        assert ran.code == 1
        assert "finished jobs could not be archived and stay in the store: OSError: no room" in ran.out
        store_last_run(app.engine.document_store, RetentionRun(at=app.clock.now(), duration=1))
        assert shell("doctor", "--json").json["findings"] == []


@pytest.mark.parametrize("name", ["DATABASE_URL", "REDIS_URL"])
def test_the_url_of_a_server_that_nothing_uses_is_named(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    monkeypatch.delenv("HEADRACE_URL", raising=False)
    monkeypatch.setenv(name, "postgresql://me:hushhush@db/shop" if name == "DATABASE_URL" else "redis://:hushhush@db/0")
    ran = shell("doctor")
    assert ran.code == 0
    assert f"{name} is set and not used: the jobs are in sqlite:///" in ran.out
    assert f"set HEADRACE_URL=${name}" in ran.out
    assert "hushhush" not in ran.out
    (shell.folder / "quiet_shop.py").write_text("from headrace import Headrace\napp = Headrace()\n", "utf-8")
    assert shell("--app", "quiet_shop:app", "worker", "--drain").code == 0
    assert f"{name} is set and not used" in caplog.text
    monkeypatch.setenv(name, "mysql://db/shop")
    assert name not in shell("doctor").out
    monkeypatch.setenv(name, "postgresql://db/shop")
    monkeypatch.setenv("HEADRACE_URL", "sqlite:///chosen.db")
    assert name not in shell("doctor").out
