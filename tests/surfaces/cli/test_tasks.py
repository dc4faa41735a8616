"""`headrace tasks`, the rules of `headrace queues configure` and the options of `headrace worker`, with errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace import Headrace, PermanentError
from headrace.core.jobs.queue_rules import QueueRules, Rate, TaskRules
from tests.support.command_line import Shell, end
from tests.support.waiting import PATIENCE, eventually

MARK = """
from headrace import Headrace, current_job

app = Headrace()

@app.task
def mark(name: str) -> None:
    with open("order", "a") as order:
        order.write(name)
"""


@pytest.fixture
def app(shell: Shell) -> Iterator[Headrace]:
    with shell.app() as app:
        app.task_by_name("send").using(job_id="letter-1", queue="mail").enqueue()
        yield app


# -- tasks


def test_tasks_are_paused_listed_and_resumed(shell: Shell, app: Headrace) -> None:
    assert [(one["task"], one["pending"], one["rules"]) for one in shell("tasks", "list", "--json").json] == [
        ("send", 1, {})
    ]
    assert shell("tasks", "pause", "send").out == "task send is paused\n"
    assert app.task_rules() == {"send": TaskRules(paused=True)}
    head, line = shell("tasks").out.splitlines()
    assert head.startswith("TASK ")
    assert head.endswith("LAST FAILURE  RULES")
    assert line.split() == ["send", "1", "0", "0/h", "0", "-", "-", "-", "paused=true"]
    assert [(one["task"], one["paused"]) for one in shell("tasks", "--json").json] == [("send", True)]
    assert shell("tasks", "resume", "send").out == "task send is open\n"
    assert app.task_rules() == {}


BATCH = """
from headrace import Headrace

app = Headrace()

@app.task(batch=100, within=0.5)
def embed(texts: list[str]) -> None: ...
"""


def test_the_batches_of_a_task_are_listed(shell: Shell, app: Headrace) -> None:
    name = shell.module(BATCH)
    assert "batch 100 within 0.5 s" in shell("--app", name, "tasks").out
    found = next(one for one in shell("--app", name, "tasks", "--json").json if one["task"] == "embed")
    assert (found["batch"], found["within"]) == (100, 0.5)


def test_a_task_is_listed_with_its_numbers_and_its_newest_failure(shell: Shell, app: Headrace) -> None:
    @app.task(name="refuse")
    def refuse() -> None:
        raise PermanentError("no address")

    with app.worker():
        refuse.enqueue().wait(PATIENCE)
        shown = {one["task"]: one for one in shell("tasks", "--json").json}
    assert (shown["refuse"]["known"], shown["refuse"]["figures"]["errors"]) == (True, 1)
    assert shown["refuse"]["last_error"] == "PermanentError: no address"
    assert shown["send"]["last_failure"] is None
    line = next(line for line in shell("tasks").out.splitlines() if line.startswith("refuse"))
    assert line.split()[4:6] == ["1", "100.0%"]


def test_a_new_store_has_no_task(shell: Shell) -> None:
    with shell.app() as app:
        app.queue("mail").pause()
    assert shell("tasks").err == "no task is known yet: no worker runs, and no job was enqueued in the last hour\n"


def test_an_unknown_task_is_paused_with_a_warning(shell: Shell, app: Headrace) -> None:
    doubt = " (no worker knows it, and there is no job of it)"
    assert shell("tasks", "pause", "send", "sned").out == f"task send is paused\ntask sned is paused{doubt}\n"
    assert shell("tasks", "configure", "sned", "--concurrency", "1").out.endswith(f"concurrency=1{doubt}\n")
    app.task(name="known")(lambda: None)
    with app.worker():
        assert shell("tasks", "pause", "known").out == "task known is paused\n"


def test_the_strategy_of_a_task_is_set_and_removed(shell: Shell, app: Headrace) -> None:
    assert shell("tasks", "configure", "send", "--strategy", "lifo").out == "task send has strategy=lifo\n"
    assert app.task_rules() == {"send": TaskRules(strategy="lifo")}
    ran = shell("tasks", "configure", "send", "--strategy", "newest")
    assert ran.code == 2
    assert "expected one of priority, fifo, lifo, weighted_random, fresh_first, got 'newest'" in ran.err
    assert shell("tasks", "configure", "send", "--strategy", "none").out == "task send has no rules\n"


def test_one_wrong_name_leaves_every_task_as_it_was(shell: Shell, app: Headrace) -> None:
    ran = shell("tasks", "pause", "send", "no blanks")
    assert ran == (2, "", "error: task name: 'no blanks' must have 1 to 100 characters and no blanks\n")
    assert app.task_rules() == {}


def test_the_rules_of_a_task_are_set_shown_and_removed(shell: Shell, app: Headrace) -> None:
    assert shell("tasks", "configure", "send").out == "task send has no rules\n"
    ran = shell("tasks", "configure", "send", "--rate", "100/min", "--burst", "7", "--concurrency", "3")
    assert ran.out == "task send has rate=100/min burst=7 concurrency=3\n"
    assert app.task_rules() == {"send": TaskRules(rate=Rate(600_000, 7), concurrency=3)}
    assert shell("tasks", "configure", "send", "--rate", "none").out == "task send has concurrency=3\n"
    record = shell("tasks", "configure", "send", "--json").json
    assert record == {"task": "send", "rules": {"concurrency": 3}}
    shell("tasks", "pause", "send")
    assert shell("tasks", "configure", "send", "--clear").out == "task send has paused=true\n"
    assert shell("tasks", "configure", "send", "--clear", "--rate", "5/s").out.startswith(
        "task send has paused=true rate"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--rate", "often"], "'--rate': 'often' "),
        (["--rate", "10"], "'--rate': expected text such as '10/s'"),
        (["--rate", "0/s"], "'--rate': '0/s' must be"),
        (["--burst", "5"], "burst: it belongs to a rate; give that too"),
        (["--burst", "few"], "'--burst': expected a whole number"),
        (["--burst", "0"], "or 'none' for what starts in a second, got 0"),
        (["--concurrency", "0"], "'--concurrency': expected a whole number from 1 to 1,000,000,000, or 'none'"),
        (["--concurrency", "1.5"], "'--concurrency': expected a whole number"),
        (["--concurrency", "-1"], "'--concurrency': expected a whole number"),
        (["--weight", "5"], "no such option '--weight'"),
    ],
)
def test_a_wrong_rule_of_a_task_is_an_error_of_one_line(
    shell: Shell, app: Headrace, arguments: list[str], expected: str
) -> None:
    ran = shell("tasks", "configure", "send", *arguments)
    assert_one_line_error(ran.code, ran.out, ran.err, expected)
    assert app.task_rules() == {}


def assert_one_line_error(code: int, out: str, err: str, expected: str) -> None:
    """A usage error: one line with the error, perhaps one that names --help, and nothing else."""
    error, *more = err.splitlines()
    assert (code, out) == (2, "")
    assert error.startswith("error: ")
    assert expected in error
    assert [line.partition(" ")[0] for line in more] in ([], ["try:"])


# -- queues


def test_every_rule_of_a_queue_is_set_shown_and_removed(shell: Shell, app: Headrace) -> None:
    given = {
        "--max-length": "100",
        "--weight": "3",
        "--strategy": "fifo",
        "--ageing": "1.5",
        "--rate": "10/s",
        "--burst": "20",
        "--concurrency": "5",
        "--key-rate": "5 per hour",
        "--key-burst": "2",
        "--key-concurrency": "4",
    }
    ran = shell("queues", "configure", "mail", *(word for pair in given.items() for word in pair))
    assert ran.out == (
        "queue mail has max_length=100 weight=3 strategy=fifo ageing=1.5s rate=10/s burst=20 concurrency=5 "
        "key_rate=5/h key_burst=2 key_concurrency=4\n"
    )
    assert app.queue("mail").rules == QueueRules(
        max_length=100,
        weight=3,
        strategy="fifo",
        ageing=1500,
        rate=Rate(100_000, 20),
        concurrency=5,
        key_rate=Rate(720_000_000, 2),
        key_concurrency=4,
    )
    assert shell("queues", "configure", "mail", "--burst", "none").out.count("rate=10/s burst=10 ") == 1
    for option in given:
        assert shell("queues", "configure", "mail", option, "none").code == 0
    assert app.queue("mail").rules == QueueRules()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--rate", "fast"], "'--rate': 'fast' "),
        (["--rate", "10"], "'--rate': expected text such as '10/s'"),
        (["--key-rate", "inf"], "'--key-rate': expected text such as '10/s'"),
        (["--burst", "5"], "burst: it belongs to a rate; give that too"),
        (["--key-burst", "5"], "key_burst: it belongs to a key_rate; give that too"),
        (["--clear", "--burst", "5"], "burst: it belongs to a rate"),
        (
            ["--strategy", "fif"],
            "'--strategy': expected one of priority, fifo, lifo, weighted_random, fresh_first, got 'fif'",
        ),
        (["--ageing", "soon"], "'--ageing': 'soon' is not a time; use seconds or 500ms, 10m, 2h, 3d"),
        (["--ageing", "nan"], "'--ageing': 'nan' is not a time"),
        (["--ageing", "0"], "'--ageing': expected the seconds of waiting"),
        (["--weight", "0"], "'--weight': expected a whole number from 1 to 1,000, or 'none' for the usual weight"),
        (["--wieght", "2"], "no such option '--wieght'"),
    ],
)
def test_a_wrong_rule_of_a_queue_is_an_error_of_one_line(
    shell: Shell, app: Headrace, arguments: list[str], expected: str
) -> None:
    app.queue("mail").configure(concurrency=7)
    ran = shell("queues", "configure", "mail", *arguments)
    assert_one_line_error(ran.code, ran.out, ran.err, expected)
    assert app.queue("mail").rules == QueueRules(concurrency=7)


def test_why_names_the_rule_that_holds_a_job_back(shell: Shell, app: Headrace) -> None:
    app.task(name="send")(lambda: None)
    app.pause_task("send")
    with app.worker():
        assert shell("why", "letter-1").out == "Task 'send' is paused; resume it with `headrace tasks resume send`.\n"
        assert shell("tasks", "resume", "send").code == 0
        assert app.jobs.get("letter-1").wait(PATIENCE) == "completed"


# -- workers


def order_of(shell: Shell, calls: dict[str, dict[str, Any]], *arguments: str) -> str:
    """The order in which a drained worker process with one slot runs these calls."""
    name = shell.module(MARK)
    with shell.app() as app:
        app.enqueue_many([app.task_by_name("mark").using(**options).bind(call) for call, options in calls.items()])
    ran = shell.run("--app", name, "worker", "--drain", "-c", "1", *arguments)
    assert ran.code == 0, ran.err
    return (shell.folder / "order").read_text("utf-8")


@pytest.mark.parametrize(("strategy", "order"), [("priority", "bac"), ("fifo", "abc"), ("lifo", "cba")])
def test_a_worker_runs_jobs_by_the_strategy_it_is_given(shell: Shell, strategy: str, order: str) -> None:
    calls: dict[str, dict[str, Any]] = {"a": {}, "b": {"priority": 5}, "c": {}}
    assert order_of(shell, calls, "--strategy", strategy) == order


def test_a_worker_serves_queues_strictly_in_the_order_given(shell: Shell) -> None:
    calls: dict[str, dict[str, Any]] = {name: {"queue": name.lower() * 3} for name in "ABC"}
    assert order_of(shell, calls, "-q", "ccc,aaa,bbb", "--queue-order", "strict") == "CAB"


def test_a_worker_runs_only_jobs_whose_needs_it_has(shell: Shell) -> None:
    calls: dict[str, dict[str, Any]] = {
        "a": {"needs": ["gpu", "region:eu"]},
        "b": {"needs": ["gpu", "tpu"]},
        "c": {},
    }
    ran = order_of(shell, calls, "--needs", "gpu, region:eu", "--needs", "disk")
    assert sorted(ran) == ["a", "c"]


def test_a_worker_process_reports_its_capabilities(shell: Shell) -> None:
    worker = shell.start("--app", shell.module(MARK), "worker", "--needs", "gpu,region:eu")
    with shell.app() as app:
        eventually(lambda: [known.capabilities for known in app.workers()] == [["gpu", "region:eu"]], "it signs on")
    assert shell("workers", "--json").json[0]["capabilities"] == ["gpu", "region:eu"]
    head, row = shell("workers").out.splitlines()
    assert (head.split()[-1], row.split()[-1]) == ("HAS", "gpu,region:eu")
    ended = end(worker)
    assert ended.code == 0
    assert "capabilities gpu, region:eu, tasks mark" in ended.err
    assert "all queues, has gpu, region:eu" in ended.err


def test_one_worker_with_capabilities_gives_the_others_a_dash(shell: Shell) -> None:
    with shell.app() as app, app.worker(), app.worker(capabilities=["gpu"]):
        head, *rows = shell("workers").out.splitlines()
    assert head.split()[-1] == "HAS"
    assert sorted(row.split()[-1] for row in rows) == ["-", "gpu"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--strategy", "fif"],
            "'--strategy': 'fif' is not one of 'priority', 'fifo', 'lifo', 'weighted_random', 'fresh_first'",
        ),
        (["--strategy", "none"], "'--strategy': 'none' is not one of"),
        (["--queue-order", "first"], "'--queue-order': 'first' is not one of 'weighted', 'random', 'strict'"),
        (["--needs"], "'--needs' requires an argument"),
    ],
)
def test_a_wrong_option_of_a_worker_is_an_error_of_one_line(shell: Shell, arguments: list[str], expected: str) -> None:
    ran = shell("worker", *arguments)
    assert_one_line_error(ran.code, ran.out, ran.err, expected)
