"""`headrace stale` and `headrace lifecycle`: output, actions with --apply, and errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import Headrace, Lifecycle, PolicyLayers
from tests.support.builders import new_job
from tests.support.command_line import Shell

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@pytest.fixture
def app(shell: Shell) -> Iterator[Headrace]:
    """One job is stale by the terms of its queue, one by the settings, one nearly, one not."""
    with shell.app() as app:
        now = app.clock.now()
        app.lifecycle.configure(queue="mail", max_pending=600)
        for job_id, queue, ago in (
            ("strict", "mail", HOUR),
            ("old", "other", 50 * HOUR),
            ("nearly", "other", 20 * HOUR),
            ("fresh", "mail", 1000),
        ):
            app.engine.insert([new_job(job_id, queue=queue, task="send", created_at=now - ago, run_at=now - ago)])
        yield app


def table(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_dry_run_lists_the_actions_on_stale_jobs(shell: Shell, app: Headrace) -> None:
    ran = shell("stale")
    assert ran.code == 0
    head, first, second = table(ran.out)
    assert head[:4] == ["JOB", "TASK", "QUEUE", "STATE"]
    assert first == ["strict", "send", "mail", "pending", "1", "h", "10", "min", "dead"]
    assert second == ["old", "send", "other", "pending", "2", "d", "2", "h", "1", "d", "review"]
    assert {job.state for job in app.jobs.find()} == {"pending"}
    assert shell("stale", "--queue", "none").err == "no job is stale\n"
    assert table(shell("stale", "--warnings").out)[-1][-2:] == ["soon", "review"]


def test_apply_handles_stale_jobs_and_says_so(shell: Shell, app: Headrace) -> None:
    lines = shell("stale", "--apply").out.splitlines()
    assert "made a dead letter" in lines[1]
    assert "noted for review" in lines[2]
    assert lines[-1] == "1 made a dead letter, 1 noted for review"
    assert app.jobs.get("strict").state == "failed"
    assert app.dead.count() == 1


def test_a_list_that_was_cut_off_says_so(shell: Shell, app: Headrace) -> None:
    assert shell("stale", "--limit", "1").err == "there may be more than these 1; see --limit\n"
    assert "or run it again" in shell("stale", "--limit", "1", "--apply").err
    assert shell("stale", "--limit", "3").err == ""


def test_errors_of_configure_use_the_syntax_of_the_command_line(shell: Shell, app: Headrace) -> None:
    assert "give a term to change" in shell("lifecycle", "configure", "--queue", "mail").err
    for option, expected in (("--max-pending", "seconds or 10m, 2h, 3d, or none"), ("--archive", "yes or no")):
        ran = shell("lifecycle", "configure", "--queue", "mail", option, "banana")
        assert (ran.code, expected in ran.err) == (2, True)


def test_json_has_every_field(shell: Shell, app: Headrace) -> None:
    record = shell("stale", "--json", "--task", "send").json
    assert record["dry_run"] is True
    assert [job["id"] for job in record["jobs"]] == ["strict", "old"]
    assert {name: record["jobs"][0][name] for name in ("state", "by", "threshold", "action", "applied")} == {
        "state": "pending",
        "by": "state",
        "threshold": 600.0,
        "action": "dead",
        "applied": False,
    }


def test_ages_are_a_view_of_their_own(shell: Shell, app: Headrace) -> None:
    head, mail, other = table(shell("stale", "--ages").out)
    assert head[:3] == ["STATE", "QUEUE", "JOBS"]
    assert (mail[:3], mail[-2:]) == (["pending", "mail", "2"], ["strict", "fresh"])
    assert other[-4:] == ["2", "1", "old", "nearly"]
    assert shell("stale", "--ages", "--json").json[1]["over_a_day"] == 1


def test_the_doctor_reports_stale_jobs(shell: Shell, app: Headrace) -> None:
    report = shell("doctor", "--json").json
    assert any("1 job is stale, for you to review" in finding for finding in report["findings"])
    assert any("1 job is stale; the next check" in remark for remark in report["remarks"])
    assert any("1 job is nearly stale" in remark for remark in report["remarks"])


def test_the_doctor_reports_that_no_worker_checks_for_stale_jobs(
    shell: Shell, app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_STALE_CHECK", "0")
    assert any("`stale_check` is off" in finding for finding in shell("doctor", "--json").json["findings"])


# -- terms


def test_terms_are_printed_with_their_origin(shell: Shell, app: Headrace) -> None:
    facts = dict(line.split(maxsplit=1) for line in shell("lifecycle", "show", "--queue", "mail").out.splitlines())
    assert facts["max_pending"] == "10min (queue, by an operator)"
    assert facts["max_waiting"] == "1h (setting)"
    assert facts["max_age"] == "none (setting)"
    assert facts["on_stale"] == "dead (follows from its thresholds)"
    record = shell("lifecycle", "show", "--json").json
    assert (record["max_pending"], record["on_stale"], record["origin"]["on_stale"]) == (86400.0, "review", "setting")


def test_terms_are_listed_by_their_origin(shell: Shell, app: Headrace) -> None:
    app.task(name="send", lifecycle=Lifecycle(max_age=None, archive=False), remove_on_fail=5)(lambda: None)
    app.lifecycle.sync()
    rows = table(shell("lifecycle").out)
    assert rows[1:] == [
        ["queue", "mail", "an", "operator", "max_pending=10min"],
        ["task", "send", "its", "code", "max_age=none", "archive=no", "remove_on_fail=5"],
    ]
    assert shell("lifecycle", "list", "--json").json == [
        {"kind": "queue", "name": "mail", "declared": {}, "override": {"max_pending": 600.0}},
        {
            "kind": "task",
            "name": "send",
            "declared": {"max_age": None, "archive": False, "remove_on_fail": 5},
            "override": {},
        },
    ]


def test_a_store_without_terms_says_so(shell: Shell) -> None:
    with shell.app() as app:
        app.queue("mail").pause()
        assert "no task or queue has a lifecycle policy" in shell("lifecycle").err


def test_terms_are_changed_and_removed(shell: Shell, app: Headrace) -> None:
    ran = shell("lifecycle", "configure", "--task", "send", "--max-pending", "2h", "--max-age", "none")
    shell("lifecycle", "configure", "--task", "send", "--archive", "no")
    assert ran.code == 0
    shell("lifecycle", "configure", "--task", "send", "--remove-on-fail", "yes", "--remove-on-complete", "20")
    fields = {"max_pending": 7200, "max_age": None, "archive": False, "remove_on_fail": True, "remove_on_complete": 20}
    assert app.lifecycle.policies()[1] == PolicyLayers("task", "send", {}, fields)
    shell("lifecycle", "configure", "--task", "send", "--max-pending", "default", "--on-stale", "fail")
    assert app.lifecycle.policy(task="send").origin["max_pending"] == "setting"
    record = shell("lifecycle", "configure", "--task", "send", "--clear", "--keep-failed", "3d", "--json").json
    assert (record["keep_failed"], record["on_stale"]) == (259200.0, "review")
    assert app.lifecycle.policies()[1].override == {"keep_failed": 259200}


@pytest.mark.parametrize(
    ("expected", "seconds"), [("90", 90), ("0.5", 0.5), ("500ms", 0.5), ("10m", 600), ("1h30m", 5400)]
)
@pytest.mark.parametrize("option", ["--max-retrying", "--keep-cancelled"])
def test_terms_accept_every_format_of_a_duration(
    shell: Shell, app: Headrace, option: str, expected: str, seconds: float
) -> None:
    assert shell("lifecycle", "configure", "--task", "send", option, expected).code == 0
    assert getattr(app.lifecycle.policy(task="send"), option[2:].replace("-", "_")) == seconds


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--max-age", "1h"), "name either a task or a queue"),
        (("--task", "a", "--queue", "b"), "name either a task or a queue"),
        (("--task", "a", "--max-age", "soon"), "'--max-age': max_age should be seconds"),
        (("--task", "a", "--max-age", "0"), "'--max-age': max_age should be seconds"),
        (("--task", "a", "--on-stale", "kill"), "on_stale should be one of dead, fail, review"),
        (("--task", "a", "--archive", "perhaps"), "archive should be yes or no"),
        (("--task", "a", "--remove-on-fail", "0"), "how many of the newest stay"),
    ],
)
def test_invalid_terms_are_refused(shell: Shell, app: Headrace, arguments: tuple[str, ...], expected: str) -> None:
    ran = shell("lifecycle", "configure", *arguments)
    assert ran.code == 2
    assert expected in " ".join(ran.err.split())
    assert len(app.lifecycle.policies()) == 1
