"""`headrace enqueue`: arguments and options reach the job, and wrong ones are refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from headrace import State
from headrace.core.queues.limits import Limit, lane_limits_of
from tests.support.command_line import Shell


@pytest.mark.parametrize(
    ("given", "args", "kwargs"),
    [
        ((), (), {}),
        (("[1, 2]",), (1, 2), {}),
        (('{"a": 1}',), (), {"a": 1}),
        (('["x"]', '{"b": null}'), ("x",), {"b": None}),
        (("[]", "{}"), (), {}),
        (('[{"$date": "2026-03-01"}]',), (date(2026, 3, 1),), {}),
        (('[["nested", {"a": [1]}]]',), (["nested", {"a": [1]}],), {}),
    ],
)
def test_the_arguments_arrive_as_given(
    shell: Shell, given: tuple[str, ...], args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    shell("migrate")
    ran = shell("enqueue", "some.task", *given)
    assert (ran.code, ran.err) == (0, "")
    with shell.app() as app:
        job = app.jobs.get(ran.out.strip())
        assert (job.task, job.args, job.kwargs) == ("some.task", args, kwargs)


def test_every_option_reaches_the_job(shell: Shell) -> None:
    options = ["--queue", "mail", "--priority", "-5", "--delay", "1h30m", "--expires", "2d", "--timeout", "none"]
    options += ["--retry", "7", "--job-id", "mine", "--tag", "a", "--tag", "b", "--meta", "k=v=w", "--meta", "n="]
    assert shell("enqueue", "x", *options).out == "mine\n"
    with shell.app() as app:
        job = app.jobs.get("mine")
    assert (job.queue, job.priority, job.max_attempts, job.state) == ("mail", -5, 8, State.SCHEDULED)
    assert (job.tags, job.metadata) == (("a", "b"), {"k": "v=w", "n": ""})
    assert job.run_at - job.created_at == timedelta(minutes=90)
    assert job.expires_at == job.created_at + timedelta(days=2)
    assert shell("jobs", "show", "mine", "--json").json["options"]["timeout"] is None


def test_options_route_a_job_and_make_it_wait_for_others(shell: Shell) -> None:
    for parent in ("one", "two"):
        shell("enqueue", "x", "--job-id", parent)
    options = ["--needs", "gpu, region:eu", "--needs", "disk", "--rate-key", "acme", "--concurrency-key", "user:7"]
    options += ["--after", "one", "--after", "two", "--on-parent-failure", "hold"]
    ran = shell("enqueue", "x", "--job-id", "mine", *options)
    assert (ran.code, ran.out) == (0, "mine\n")
    with shell.app() as app:
        job = app.jobs.get("mine")
        assert job.state == State.WAITING
        assert set(lane_limits_of(job.row.lane)) == {
            Limit("needs", "gpu"),
            Limit("needs", "region:eu"),
            Limit("needs", "disk"),
            Limit("rate", "acme"),
            Limit("key", "user:7"),
        }
        edges = app.engine.flow_store.edges(["mine"])
        assert {(edge.parent, edge.policy) for edge in edges} == {("one", "hold"), ("two", "hold")}


def test_a_moment_without_a_zone_is_utc(shell: Shell) -> None:
    shell("enqueue", "x", "--job-id", "plain", "--run-at", "2040-01-02T03:04")
    shell("enqueue", "x", "--job-id", "zoned", "--run-at", "2040-01-02T03:04+02:00")
    with shell.app() as app:
        assert app.jobs.get("plain").run_at == datetime(2040, 1, 2, 3, 4, tzinfo=UTC)
        assert app.jobs.get("zoned").run_at == datetime(2040, 1, 2, 1, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("x", "[1,"), "'[1, \"two\"]'"),
        (("x", "{a: 1}"), "single quotes"),
        (("x", "3"), "ARGS must be a JSON list"),
        (("x", "[]", "[]"), "KWARGS must be a JSON object"),
        (("x", '{"a": 1}', '{"b": 2}'), "ARGS must be a JSON list"),
        (("x", '[{"$date": "never"}]'), "never"),
        (("a b",), "no blanks"),
        (("x", "--priority", "500"), "-100 to 100"),
        (("x", "--priority", "high"), "--priority"),
        (("x", "--delay", "soon"), "500ms, 10m, 2h, 3d"),
        (("x", "--delay", "-1"), "--delay"),
        (("x", "--delay", "inf"), "--delay"),
        (("x", "--delay", "1", "--run-at", "2040-01-01"), "exclude each other"),
        (("x", "--run-at", "tomorrow"), "2026-03-01T12:30:00Z"),
        (("x", "--queue", "no blanks"), "queue"),
        (("x", "--retry", "-1"), "limit"),
        (("x", "--job-id", "a b"), "job_id"),
        (("x", "--meta", "novalue"), "name=value"),
        (("x", "--meta", "=v"), "name=value"),
        (("x", "--wait", "soon"), "--wait"),
        (("x", "--needs", " , "), "'--needs': ' , ' is not a name"),
        (("x", "--rate-key", ""), "rate_key: expected a name"),
        (("x", "--concurrency-key", ""), "concurrency_key: expected a name"),
        (("x", "--after", "nobody"), "nobody"),
        (("x", "--after", "a b"), "after"),
        (("x", "--on-parent-failure", "weep"), "'cancel', 'run', 'only', 'hold'"),
        (("x", "--on-parent-failure", "run"), "--on-parent-failure needs --after"),
    ],
)
def test_a_wrong_call_is_refused_and_stores_nothing(shell: Shell, arguments: tuple[str, ...], expected: str) -> None:
    ran = shell("enqueue", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert expected in ran.err
    with shell.app() as app:
        assert app.jobs.count() == 0


def test_bytes_that_are_no_text_are_refused(shell: Shell) -> None:
    for arguments in (("a\udcffb",), ("x", '["\udcff"]'), ("x", "--meta", "a=\udcff"), ("x", "--tag", "\udcff")):
        ran = shell("enqueue", *arguments)
        assert ran.code in (1, 2), arguments
        assert len(ran.err.splitlines()) <= 2


def test_a_taken_id_is_refused(shell: Shell) -> None:
    assert shell("enqueue", "x", "--job-id", "mine").code == 0
    ran = shell("enqueue", "x", "--job-id", "mine")
    assert ran == (1, "", "error: job_id 'mine' is taken by an existing job; nothing was stored\n")


def test_an_app_checks_the_call_and_warns_of_an_unknown_task(shell: Shell) -> None:
    name = shell.module()
    refused = shell("--app", name, "enqueue", "login", '["a", 12]')
    assert refused.code == 2
    assert "12" not in refused.err, "the value of a redacted argument"
    doubted = shell("--app", name, "enqueue", "ad", "[1, 2]")
    assert doubted.code == 0
    assert "did you mean 'add'?" in doubted.err
    assert len(doubted.out.split()) == 1, "stdout holds the id alone"
    assert shell("--app", name, "enqueue", "add", "[1, 2]").err == ""


def test_the_first_job_says_that_it_created_the_store(shell: Shell) -> None:
    first, second = shell("enqueue", "x"), shell("enqueue", "x")
    assert first.err == f"note: this created a new store at {shell.folder / 'headrace.db'}\n"
    assert second.err == ""


def test_an_app_that_is_configured_hides_its_secrets_whatever_store_is_named(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_APP", shell.module())
    shell("--url", "sqlite:///other.db", "enqueue", "login", '["ann", "hunter2"]', "--job-id", "mine")
    assert "login('ann', '***')" in shell("--url", "sqlite:///other.db", "jobs", "show", "mine").out


def test_waiting_prints_the_result(shell: Shell) -> None:
    name = shell.module()
    worker = shell.start("--app", name, "worker")
    try:
        ran = shell("--app", name, "enqueue", "add", "[1, 2]", "--wait", "30s")
        assert ran.code == 0
        assert ran.out.splitlines()[1:] == ["3"]
        result = shell("--app", name, "enqueue", "add", "[1, 2]", "--wait", "30s", "--json")
        assert (result.json["state"], result.json["result"]) == ("completed", 3)
        failed = shell("--app", name, "enqueue", "login", '["a", "b"]', "--wait", "30s")
        assert failed.code == 1
        assert "PermanentError: no \\x1b[31mentry" in failed.err
    finally:
        worker.terminate()
        worker.communicate()


def test_a_wait_that_times_out_says_why_and_prints_the_id(shell: Shell) -> None:
    ran = shell("enqueue", "x", "--job-id", "mine", "--wait", "0.05")
    assert (ran.code, ran.out) == (1, "mine\n")
    assert "No worker is alive" in ran.err
    result = shell("enqueue", "x", "--job-id", "mine-too", "--wait", "0.05", "--json")
    assert (result.code, result.json["id"], result.json["state"]) == (1, "mine-too", "pending")
