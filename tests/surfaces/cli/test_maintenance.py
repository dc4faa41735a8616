"""Maintenance from the command line: backup, restore, check, optimize and checkpoint, and their errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.builders import new_job, worker_row
from tests.support.command_line import Shell, open_shell


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    with open_shell(monkeypatch, capsys) as shell:
        with shell.app() as app:
            for _ in range(3):
                app.task_by_name("x").using(delay=60).enqueue()
        yield shell


def orphan(shell: Shell) -> None:
    with closing(sqlite3.connect(shell.folder / "headrace.db", isolation_level=None)) as db:
        db.execute("INSERT INTO headrace_tags VALUES ('lost', 12345)")


def test_a_backup_and_a_restore_into_another_store(shell: Shell) -> None:
    ran = shell("backup", "copy.db")
    assert (ran.code, ran.err) == (0, "")
    assert "3 jobs and 0 archived ones are in" in ran.out
    other = f"sqlite:///{shell.folder / 'other.db'}"
    assert "has 3 jobs and 0 archived ones; sqlite" in shell("restore", "copy.db", other, "--dry-run").out
    assert not (shell.folder / "other.db").exists()
    assert shell("restore", "nowhere.db", other).code == 2
    assert not (shell.folder / "other.db").exists()
    assert shell("restore", "copy.db", other, "--json").json == {
        "url": other,
        "jobs": 3,
        "released": 0,
        "archived": 0,
        "left_out": 0,
    }
    assert len(shell("--url", other, "jobs", "--json").json["jobs"]) == 3


def test_an_existing_file_and_a_used_store_need_a_confirmation(shell: Shell) -> None:
    assert shell("backup", "copy.db").code == 0
    ran = shell("backup", "copy.db")
    assert (ran.code, "--overwrite" in ran.err) == (2, True)
    assert shell("backup", "copy.db", "--overwrite", "--json").json["jobs"] == 3
    assert "3 jobs and 0 archived ones are in" in shell("backup", "copy.db", "--overwrite", "--without-archive").out
    ran = shell("restore", "copy.db")
    assert (ran.code, "--replace" in ran.err) == (2, True)
    ran = shell("restore", "copy.db", "--replace")
    assert (ran.code, "add --yes" in ran.err) == (2, True)
    shell.answer("n\n")
    assert shell("restore", "copy.db", "--replace").code == 1
    shell.answer("y\n")
    assert shell("restore", "copy.db", "--replace").code == 0
    assert shell("restore", "copy.db", "--replace", "--yes").code == 0


def test_no_restore_while_a_worker_is_alive(shell: Shell) -> None:
    shell("backup", "copy.db")
    with shell.app() as app:
        app.engine.renew(worker_row("w1", seen_at=app.clock.now()), [], 0)
    ran = shell("restore", "copy.db", "--replace", "--yes")
    assert (ran.code, "stop all workers" in ran.err) == (2, True)


def test_a_store_that_is_given_twice_is_wrong_use(shell: Shell) -> None:
    ran = shell("--url", "memory://", "restore", "copy.db", "memory://")
    assert (ran.code, "given twice" in ran.err) == (2, True)


def test_check_finds_and_repairs_and_sets_its_exit_code(shell: Shell) -> None:
    assert "all is well" in shell("check").out
    orphan(shell)
    ran = shell("check")
    assert (ran.code, "wrong: orphan_tags: 1 tag belongs to no job" in ran.out) == (1, True)
    dry = shell("check", "--repair", "--dry-run")
    assert (dry.code, "would repair: 1 orphan_tags" in dry.out) == (1, True)
    assert shell("check", "--repair", "--json").json == {
        "findings": [],
        "repaired": {"orphan_tags": 1},
        "dry_run": False,
    }
    assert shell("check").code == 0
    assert shell("check", "--dry-run").code == 2


def test_a_deep_check_reads_every_job(shell: Shell) -> None:
    with shell.app() as app:
        app.engine.insert([new_job("bad", payload="[]", checksum=1, run_at=2**45)])
    assert shell("check").code == 0
    ran = shell("check", "--deep")
    assert ran.code == 1
    assert "damaged_payloads" in ran.out
    assert "such as bad" in ran.out


def test_the_doctor_reports_what_check_finds(shell: Shell) -> None:
    orphan(shell)
    report = shell("doctor", "--json")
    assert report.code == 1
    assert any("1 tag belongs to no job" in finding for finding in report.json["findings"])


def test_optimize_and_checkpoint_print_sizes(shell: Shell) -> None:
    assert shell("checkpoint", "--json").json["log_after"] == 0
    assert "the log had" in shell("checkpoint").out
    assert shell("optimize", "--json").json["size_after"] > 0
    assert "the store had" in shell("optimize").out
    ran = shell("optimize", "--full")
    assert (ran.code, "add --yes" in ran.err) == (2, True)
    assert shell("optimize", "--full", "--yes").code == 0


def test_storage_prints_tables_and_their_sizes(shell: Shell) -> None:
    ran = shell("storage", "job?")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split()[:3] for line in ran.out.splitlines()] == [["NAME", "KIND", "ENTRIES"], ["jobs", "table", "3"]]
    (jobs,) = shell("storage", "jobs", "--json").json
    assert (jobs["name"], jobs["kind"], jobs["entries"], jobs["expires"]) == ("jobs", "table", 3, None)
    assert jobs["bytes"] >= 4096
    assert "nothing matches nowhere" in shell("storage", "nowhere").err
    ran = shell("storage", "--limit", "1")
    assert (len(ran.out.splitlines()), "--limit shows more" in ran.err) == (2, True)
    assert shell("storage", "--limit", "0").code == 2
