"""`headrace erase` asks before it erases a person, counts without changing anything, and says what is left to do."""

from __future__ import annotations

from tests.support.builders import new_job, want, worker_row
from tests.support.command_line import Shell


def insert(shell: Shell, count: int = 2) -> None:
    with shell.app() as app:
        now = app.clock.now()
        jobs = [new_job(f"j{number}", tags=("user:42",), created_at=now, run_at=now) for number in range(count)]
        app.engine.insert([*jobs, new_job("other", created_at=now, run_at=now + 60_000)])


def test_a_person_is_erased_after_a_confirmation(shell: Shell) -> None:
    insert(shell)
    ran = shell("erase", "--tag", "user:42", "--dry-run")
    assert (ran.code, ran.out, ran.err) == (0, "would be erased: 2 jobs\n", "")
    assert shell("erase", "--tag", "user:42").code == 2
    ran = shell("erase", "--tag", "user:42", "--by", "ann")
    assert (ran.code, "add --yes" in ran.err) == (2, True)
    shell.answer("n\n")
    assert shell("erase", "--tag", "user:42", "--by", "ann").code == 1
    assert len(shell("jobs", "--json").json["jobs"]) == 3
    shell.answer("y\n")
    ran = shell("erase", "--tag", "user:42", "--by", "ann")
    assert (ran.code, ran.out.endswith("erased: 2 jobs, 6 events\n")) == (0, True)
    assert "headrace optimize --full" in ran.err
    assert [job["id"] for job in shell("jobs", "--json").json["jobs"]] == ["other"]
    with shell.app() as app:
        assert [(entry.who, entry.outcome) for entry in app.audit.list()] == [("ann", "done"), ("ann", "begun")]


def test_jobs_are_erased_by_ids_and_counted_as_json(shell: Shell) -> None:
    insert(shell)
    planned = shell("erase", "j0", "--dry-run", "--json").json
    assert (planned["jobs"], planned["dry_run"], planned["running"]) == (1, True, 0)
    erased = shell("erase", "j0", "j1", "--by", "ann", "--yes", "--json").json
    assert (erased["jobs"], erased["dry_run"], erased["events"]) == (2, False, 6)


def test_it_says_that_a_job_still_runs(shell: Shell) -> None:
    insert(shell, 1)
    with shell.app() as app:
        app.engine.register_worker(worker_row("w1", seen_at=app.clock.now()))
        assert app.engine.exchange([], want(lease=60_000)).claims
    assert "1 job would be cancelled first" in shell("erase", "--tag", "user:42", "--dry-run").err
    ran = shell("erase", "--tag", "user:42", "--by", "ann", "--yes")
    assert (ran.code, "1 cancelled job still run" in ran.err) == (1, True)


def test_it_needs_jobs_and_a_name(shell: Shell) -> None:
    insert(shell)
    assert "give the jobs to erase" in shell("erase", "--by", "ann").err
    assert "--by NAME" in shell("erase", "--tag", "user:42", "--yes").err
