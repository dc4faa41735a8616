"""Retention from the command line: output is correct, and nothing changes without --apply."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace, Job
from headrace.testing import drain
from tests.support.command_line import Shell


@pytest.fixture
def app(shell: Shell) -> Iterator[Headrace]:
    with shell.app() as app:
        yield app


@pytest.fixture
def jobs(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> list[Job[int]]:
    @app.task(tags=("red",))
    def work(number: int) -> int:
        return number

    monkeypatch.setenv("HEADRACE_KEEP_COMPLETED", "0")
    jobs = [work.enqueue(number) for number in range(3)]
    drain(app)
    return jobs


def test_a_dry_run_is_the_default(shell: Shell, app: Headrace, jobs: list[Job[int]]) -> None:
    for command in (("archive",), ("archive", "--dry-run")):
        ran = shell(*command)
        assert ran.code == 0
        assert "3 jobs would be archived, 0 would be deleted" in ran.out
        assert "--apply" in ran.err
    assert app.jobs.count() == 3
    record = shell("archive", "--json").json
    assert (record["dry_run"], record["archived"], record["jobs"]) == (True, 3, sorted(job.id for job in jobs))


def test_apply_archives_the_jobs(shell: Shell, app: Headrace, jobs: list[Job[int]]) -> None:
    assert "3 jobs archived, 0 deleted" in shell("archive", "--apply").out
    assert app.jobs.count() == 0
    listed = shell("jobs", "--archived")
    assert all(job.id in listed.out for job in jobs)
    record = shell("jobs", "list", "--archived", "--limit", "2", "--tag", "red", "--json").json
    assert [job["archived"] for job in record["jobs"]] == [True, True]
    rest = shell("jobs", "list", "--archived", "--cursor", record["cursor"], "--json").json
    assert len(rest["jobs"]) == 1
    assert "there are no jobs" in shell("jobs").err
    assert shell("jobs", "--archived", "--text", "x").code == 2


def test_an_archived_job_is_shown(shell: Shell, app: Headrace, jobs: list[Job[int]]) -> None:
    shell("archive", "--apply")
    shown = shell("jobs", "show", jobs[1].id, "--json").json
    assert (shown["state"], shown["result"], shown["archived"]) == ("completed", 1, True)
    assert "archive" in shell("why", jobs[1].id).out
    assert "succeed" in shell("jobs", "history", jobs[1].id).out
    refused = shell("jobs", "retry", jobs[1].id)
    assert refused.code == 1
    assert "archive" in refused.err


def test_an_archived_job_is_restored(shell: Shell, app: Headrace, jobs: list[Job[int]]) -> None:
    shell("archive", "--apply")
    assert f"job {jobs[0].id} is pending" in shell("archive", "restore", jobs[0].id).out
    assert shell("archive", "restore", jobs[1].id, "--json").json["state"] == "pending"
    assert shell("archive", "restore", "nowhere").code == 1
    assert app.jobs.count() == 2


def test_partitions_and_statistics_are_printed(shell: Shell, app: Headrace, jobs: list[Job[int]]) -> None:
    assert "no partitions" in shell("partitions").err
    assert "none" in shell("archive", "stats").out
    assert "the archive is empty" in shell("archive", "months").err
    shell("archive", "--apply")
    names = [partition["name"] for partition in shell("partitions", "--json").json]
    assert len(names) == 3
    assert all(name in shell("partitions").out for name in names)
    stats = shell("archive", "stats", "--json").json
    assert (stats["jobs"], stats["partitions"]) == (3, 3)
    assert "jobs" in shell("archive", "stats").out
    months = shell("archive", "months", "--json").json
    assert sum(month["jobs"] for month in months) == 3
    assert shell("archive", "months").out.splitlines()[1].split()[:2] == [months[0]["month"], str(months[0]["jobs"])]
    [record] = shell("archive", "durations", "--json").json
    assert record["jobs"] == 3
    assert "LONGEST" in shell("archive", "durations").out
    assert "no archived jobs match" in shell("archive", "durations", "--task", "nothing").err


def test_jobs_are_exported(shell: Shell, app: Headrace, jobs: list[Job[int]], tmp_path: Path) -> None:
    shell("archive", "--apply")
    file = tmp_path / "out.jsonl"
    assert f"3 jobs written to {file}" in shell("archive", "export", str(file)).out
    assert {json.loads(line)["id"] for line in file.read_text().splitlines()} == {job.id for job in jobs}
    assert shell("archive", "export", str(file), "--state", "failed", "--json").json == {"file": str(file), "jobs": 0}
    theirs = tmp_path / "out.csv.part"
    theirs.write_text("a download")
    for wrong in (str(tmp_path / "out.csv"), "", ".", "/"):
        assert shell("archive", "export", wrong).code == 2
    assert theirs.read_text() == "a download"


def test_options_of_the_group_do_not_get_lost(shell: Shell, app: Headrace) -> None:
    app.engine.migrate()
    for options in (("--apply", "stats"), ("--json", "stats")):
        assert shell("archive", *options).code == 2


def test_a_store_without_an_archive_says_so(shell: Shell, app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    app.admin.migrate()
    monkeypatch.setattr("headrace.app.retention.lifecycle.Lifecycles.has_archive", False)
    for command in (["jobs", "list", "--archived"], ["partitions"], ["archive", "durations"]):
        assert "this store has no archive; set `archive_url` to an SQL store" in shell(*command).err
