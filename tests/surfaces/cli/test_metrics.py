"""`headrace metrics`: its views, formats and errors."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import pytest

from headrace import Headrace
from headrace.core.events.log import EventGroup
from tests.support.command_line import Shell


@pytest.fixture
def app(shell: Shell) -> Iterator[Headrace]:
    """A queue with a task that succeeds, a task that fails, and two pending jobs."""
    with shell.app() as app:
        now = app.clock.now()
        jobs = [f"j{number}" for number in range(6)]
        app.engine.events.append(
            [
                EventGroup("job.enqueued", now, "mail", "send", jobs=jobs),
                EventGroup("job.started", now, "mail", "send", "w1", jobs, waits=[1500] * 6),
                EventGroup("job.completed", now, "mail", "send", "w1", jobs, runs=[9] * 6),
                EventGroup("job.attempt_failed", now, "mail", "bounce", "w1", ["x"], runs=[5]),
                EventGroup("job.failed", now, "mail", "bounce", "w1", ["x"]),
            ]
        )
        app.enqueue_many([{"task": "send", "queue": "slow"}] * 2)
        yield app


def table(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_store_its_queues_and_its_tasks_are_printed(shell: Shell, app: Headrace) -> None:
    ran = shell("metrics")
    assert ran.code == 0
    assert "8 in, 6 completed, 1 failed" in ran.out
    assert "14.3% of attempts" in ran.out
    facts, queues, tasks = ran.out.split("\n\n")
    assert ["waiting", "2", "pending"] in table(facts)
    [_, mail, slow] = table(queues)
    assert mail[:4] == ["mail", "0", "-", "-"]
    assert mail[-9:] == ["1", "14.3%", "1", "-", "2s", "2s", "9ms", "9ms", "9ms"]
    assert ["retries", "0,", "1", "attempts", "a", "job"] in table(facts)
    assert (slow[0], slow[1], slow[3]) == ("slow", "2", "never")
    assert [row[0] for row in table(tasks)] == ["TASK", "bounce", "send", "send"], "the worst first"


def test_one_queue_is_printed_by_its_tasks(shell: Shell, app: Headrace) -> None:
    assert [row[:2] for row in table(shell("metrics", "-q", "mail").out)[1:]] == [["bounce", "mail"], ["send", "mail"]]
    assert shell("metrics", "-q", "none").err.startswith("no jobs of this queue")


def test_programs_get_json(shell: Shell, app: Headrace) -> None:
    record = shell("metrics", "--json", "--window", "5m").json
    assert (record["window"], record["total"]["completed"], record["queues"][0]["figures"]["run"]["p95"]) == (
        300,
        6,
        0.009,
    )
    assert shell("metrics", "-q", "slow", "--json").json[0]["figures"]["enqueued"] == 2
    assert shell("metrics", "--days", "2", "--json").json[1]["figures"]["failed"] == 1
    assert sum(point["value"] for point in shell("metrics", "--series", "completed", "--json").json["points"]) == 6


def test_a_series_is_drawn(shell: Shell, app: Headrace) -> None:
    head, *rows = table(shell("metrics", "--series", "completed", "-q", "mail", "--window", "2m", "--step", "60s").out)
    assert head == ["FROM", "COMPLETED"]
    assert [row for row in rows if row[3:] == ["6", "█" * 40]]
    assert len(rows) == 3


def test_days_are_printed_one_per_row(shell: Shell, app: Headrace) -> None:
    rows = table(shell("metrics", "--days", "2").out)
    assert [row[1:5] for row in rows[1:]] == [["0", "0", "0", "0"], ["8", "6", "1", "0"]]


def test_the_prometheus_file_is_replaced_atomically(shell: Shell, app: Headrace) -> None:
    line = 'headrace_jobs_completed_total{queue="mail",task="send"} 6.0'
    assert line in shell("metrics", "--prometheus").out.splitlines()
    path = shell.folder / "headrace.prom"
    path.write_text("of yesterday")
    before = path.stat().st_ino
    ran = shell("metrics", "--prometheus", "--output", str(path))
    assert (ran.code, ran.out) == (0, "")
    assert line in path.read_text().splitlines()
    assert path.stat().st_ino != before, "a concurrent reader would have got half of each"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [name for name in os.listdir(shell.folder) if name.startswith(".headrace")] == []


def test_a_file_that_cannot_be_written_is_an_error_that_names_it(shell: Shell, app: Headrace) -> None:
    ran = shell("metrics", "--prometheus", "-o", str(shell.folder / "nowhere" / "x.prom"))
    assert ran.code == 1
    assert "x.prom can't be written" in ran.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--series", "thruput"], "did you mean 'throughput'"),
        (["--series", "depth", "--task", "send"], "not by task"),
        (["--step", "10s"], "--step needs --series"),
        (["--worker", "w1"], "--worker needs --series"),
        (["--output", "x"], "--output needs --prometheus"),
        (["--prometheus", "-q", "mail"], "--queue needs --series or --days"),
        (["--prometheus", "--json"], "either --json or --prometheus"),
        (["--series", "depth", "--days", "3"], "either --series or --days"),
        (["--window", "soon"], "'soon' is not a time"),
        (["--window", "0"], "window: 0.0 is out of range"),
        (["--days", "0"], "0 is not in the range"),
        (["-q", "no such"], "is not a queue name"),
    ],
)
def test_options_of_different_views_are_refused(
    shell: Shell, app: Headrace, arguments: list[str], expected: str
) -> None:
    ran = shell("metrics", *arguments)
    assert ran.code == 2
    assert expected in ran.err


def test_an_empty_store_has_metrics_too(shell: Shell) -> None:
    with shell.app() as app:
        app.engine.prepare()  # type: ignore[attr-defined]
    ran = shell("metrics")
    assert (ran.code, "nothing" in ran.out) == (0, True)


def test_scale_shows_what_queues_want(shell: Shell, app: Headrace) -> None:
    ran = shell("metrics", "scale")
    assert ran.code == 0
    facts, queues = ran.out.split("\n\n")
    assert ["target", "wait", "60s"] in table(facts) or ["target", "wait", "1m"] in table(facts)
    assert [row[0] for row in table(queues)] == ["QUEUE", "mail", "slow"]
    found = shell("metrics", "scale", "-q", "slow", "--target-wait", "5s", "--json").json
    assert (found["queue"], found["workers"], found["workers_wanted"]) == ("slow", 0, 1)
    assert shell("metrics", "scale", "--json").json["queues"][1]["queue"] == "slow"


def test_scale_refuses_an_unknown_queue_and_misplaced_options(shell: Shell, app: Headrace) -> None:
    ran = shell("metrics", "scale", "-q", "nothing")
    assert (ran.code, "there is no queue 'nothing'" in ran.err) == (1, True)
    ran = shell("metrics", "--days", "3", "scale")
    assert (ran.code, "put options after 'scale'" in ran.err) == (2, True)
    assert shell("metrics", "scale", "--target-wait", "soon").code == 2
