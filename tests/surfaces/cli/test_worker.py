"""`headrace worker` as a real process: run, drain, signals, logs, reload, memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from headrace import Headrace, Job, State
from tests.support.command_line import SHOP, Shell, end, finish, wait_for_line
from tests.support.measuring import unless_measured
from tests.support.waiting import PATIENCE, eventually

MOST_MEGABYTES = 40


def signed_on(app: Headrace, count: int = 1) -> None:
    eventually(lambda: len(app.workers()) == count, f"{count} workers sign on")


def hold(app: Headrace, marker: Path) -> Job[str]:
    """A job that runs until its marker is removed."""
    return app.task_by_name("hold").using(job_id=marker.name, retry=0).enqueue(str(marker))


def test_drain_runs_what_is_due_and_ends(shell: Shell) -> None:
    with shell.app() as app:
        app.enqueue_many([app.task_by_name("add").bind(n, n) for n in range(50)])
        app.task_by_name("add").using(delay=3600).enqueue(1, 1)
        ran = shell.run("--app", shell.module(), "worker", "--drain")
        assert ran.code == 0
        assert app.jobs.count(state=State.COMPLETED) == 50
        assert app.jobs.count(state=State.SCHEDULED) == 1


@pytest.mark.slow
def test_drain_continues_in_a_fresh_process_after_a_recycle(shell: Shell) -> None:
    with shell.app() as app:
        app.enqueue_many([app.task_by_name("add").bind(n, n) for n in range(3)])
        ran = shell.run("--app", shell.module(), "worker", "--drain", "--max-jobs", "1", "--prefetch", "0", "-c", "1")
        assert ran.code == 0
        assert app.jobs.count(state=State.COMPLETED) == 3
        assert ran.err.count("is recycled") >= 1


def test_once_runs_one_job_and_none_if_there_is_none(shell: Shell) -> None:
    name = shell.module()
    with shell.app() as app:
        app.enqueue_many([app.task_by_name("add").bind(n, n) for n in range(3)])
        for left in (2, 1, 0, 0):
            assert shell.run("--app", name, "worker", "--once").code == 0
            assert app.queue("default").length() == left


def test_the_first_line_says_what_runs_here(shell: Shell) -> None:
    name = shell.module()
    first = shell.run("--app", name, "worker", "--once", "-q", "mail=3,default", "-c", "7").err.splitlines()[0]
    for part in (
        f"app {name}",
        "headrace.db",
        "mail=3, default=1",
        "concurrency 7",
        "capabilities none",
        "add, hold, login, talk",
    ):
        assert part in first


def test_an_app_without_tasks_or_in_memory_is_warned_about(shell: Shell) -> None:
    name = shell.module("from headrace import Headrace\napp = Headrace('memory://')\n")
    err = shell.run("--app", name, "worker", "--once").err
    assert "the app has no tasks" in err
    assert "no other process can submit" in err


def test_other_queues_are_not_served(shell: Shell) -> None:
    with shell.app() as app:
        app.task_by_name("add").using(queue="mail").enqueue(1, 1)
        other = app.task_by_name("add").using(queue="other").enqueue(1, 1)
        assert shell.run("--app", shell.module(), "worker", "--drain", "-q", "mail", "-q", "more=2").code == 0
        assert other.refresh().state == State.PENDING
        assert app.jobs.count(state=State.COMPLETED) == 1


def test_sigterm_lets_the_running_job_finish_and_starts_no_other(shell: Shell) -> None:
    marker = shell.folder / "held"
    with shell.app() as app:
        job = hold(app, marker)
        worker = shell.start("--app", shell.module(), "worker", "-c", "1")
        eventually(marker.exists, "the job runs")
        later = app.task_by_name("add").enqueue(1, 1)
        worker.send_signal(signal.SIGTERM)
        wait_for_line(worker, "stops: 1 job is running")
        marker.unlink()
        assert job.result(PATIENCE) == "let go"
        assert finish(worker).code == 0
        assert later.refresh().state == State.PENDING
        assert app.workers() == []


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once_and_releases_the_job(shell: Shell, first: signal.Signals) -> None:
    marker = shell.folder / "held"
    with shell.app() as app:
        job = hold(app, marker)
        worker = shell.start("--app", shell.module(), "worker", "--shutdown-timeout", "1h")
        eventually(marker.exists, "the job runs")
        worker.send_signal(first)
        wait_for_line(worker, "stops: 1 job is running")
        worker.send_signal(signal.SIGTERM)
        assert finish(worker).code == 0
        assert job.refresh().state == State.PENDING
        assert job.attempt == 0, "a released run does not count as an attempt"


@pytest.mark.slow
def test_several_processes_are_kept_alive_and_end_together(shell: Shell) -> None:
    with shell.app() as app:
        parent = shell.start("--app", shell.module(), "worker", "--processes", "2")
        signed_on(app, 2)
        victim = app.workers()[0]
        os.kill(victim.pid, signal.SIGKILL)
        eventually(lambda: len({w.pid for w in app.workers()} - {victim.pid}) == 2, "the killed one is replaced")
        ran = end(parent)
        assert ran.code == 0
        assert "was killed by signal 9" in ran.err
        assert {w.id for w in app.workers()} <= {victim.id}, "only the killed worker failed to unregister"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--drain", "--once"), "exclude each other"),
        (("--drain", "--processes", "2"), "leave --processes out"),
        (("--once", "--processes", "2"), "leave --processes out"),
        (("--reload", "--drain"), "leave --drain and --once out"),
        (("-q", "mail=many"), "NAME=WEIGHT"),
        (("-q", "mail=0", "--once"), "weight of 1 or more"),
        (("-c", "0", "--once"), "concurrency: 0 must be at least 1"),
        (("--lease", "forever"), "--lease"),
        (("--heartbeat", "90", "--once"), "shorter than the lease"),
        (("--max-memory", "1", "--once"), "max_memory"),
        (("--prefetch", "-1", "--once"), "prefetch"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(
    shell: Shell, arguments: tuple[str, ...], expected: str
) -> None:
    ran = shell("--app", shell.module(), "worker", *arguments)
    assert ran.code == 2
    assert expected in ran.err


# -- logs


LOGGING = (
    SHOP
    + """
import logging

@app.task
def speak() -> None:
    logging.getLogger("shop").info("in the task", extra={"worker": "me"})
    logging.getLogger("shop").debug("too quiet")
    try:
        1 / 0
    except ZeroDivisionError:
        logging.getLogger("shop").exception("oh")

@app.task(isolation="process")
def apart() -> None:
    logging.getLogger("shop").info("in a process of its own")
"""
)


def test_json_logs_are_one_object_a_line_and_name_the_job(shell: Shell) -> None:
    with shell.app() as app:
        app.task_by_name("speak").using(job_id="mine").enqueue()
        err = shell.run("--app", shell.module(LOGGING), "worker", "--drain", "--log-format", "json").err
    lines = [json.loads(line) for line in err.splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    assert all(datetime.fromisoformat(line["time"]).utcoffset() == timedelta(0) for line in lines)
    line_of_task = next(line for line in lines if line["message"] == "in the task")
    about = {"job": "mine", "task": "speak", "queue": "default", "attempt": 1, "worker": "me"}
    about["correlation_id"] = "mine"
    assert about.items() <= line_of_task.items()
    assert (line_of_task["level"], line_of_task["logger"]) == ("INFO", "shop")
    assert "ZeroDivisionError" in next(line for line in lines if line["message"] == "oh")["exception"]
    assert not any(line["message"] == "too quiet" for line in lines)


def test_a_job_in_a_process_of_its_own_logs_as_all_others_do(shell: Shell) -> None:
    with shell.app() as app:
        app.task_by_name("apart").using(job_id="mine").enqueue()
        err = shell.run("--app", shell.module(LOGGING), "worker", "--drain", "--log-format", "json").err
    (line_of_task,) = (line for line in map(json.loads, err.splitlines()) if "of its own" in line["message"])
    assert {"job": "mine", "task": "apart", "correlation_id": "mine", "logger": "shop"}.items() <= line_of_task.items()
    assert line_of_task["worker"]


def test_human_logs_name_the_job_and_follow_the_settings(shell: Shell) -> None:
    with shell.app() as app:
        app.task_by_name("speak").using(job_id="mine").enqueue()
        err = shell.run("--app", shell.module(LOGGING), "worker", "--drain", env={"HEADRACE_LOG_LEVEL": "debug"}).err
    (line,) = (line for line in err.splitlines() if "in the task" in line)
    assert line.endswith("INFO    shop: in the task [job=mine task=speak queue=default attempt=1 worker=me]")
    assert "too quiet" in err
    assert "Traceback" in err


@pytest.mark.slow
def test_an_app_that_sets_up_logging_keeps_its_own_unless_an_option_is_given(shell: Shell) -> None:
    name = shell.module("import logging\nlogging.basicConfig(format='OWN %(message)s', level='INFO')\n" + SHOP)
    own = shell.run("--app", name, "worker", "--once").err
    assert all(line.startswith("OWN ") for line in own.splitlines())
    ran = shell.run("--app", name, "worker", "--once", "--log-level", "warning")
    assert (ran.code, ran.err) == (0, "")


def test_a_wrong_level_in_the_settings_is_named(shell: Shell) -> None:
    ran = shell.run("--app", shell.module(), "worker", "--once", env={"HEADRACE_LOG_LEVEL": "loud"})
    assert ran.code == 2
    assert "log_level: 'loud'" in ran.err


# -- development


@pytest.mark.slow
def test_reload_runs_the_new_code_after_a_change_and_survives_a_broken_one(shell: Shell) -> None:
    name = shell.module()
    source = shell.folder / f"{name}.py"
    with shell.app() as app:
        parent = shell.start("--app", name, "worker", "--reload")
        signed_on(app)
        first = app.workers()[0].pid
        source.write_text("this is not python\n")
        wait_for_line(parent, "waiting for a change")
        source.write_text(SHOP.replace("return a + b", "return a * b"))
        assert app.task_by_name("add").enqueue(3, 4).result(PATIENCE) == 12
        assert app.workers()[-1].pid != first
        parent.send_signal(signal.SIGINT)
        assert finish(parent).code == 0
        assert app.workers() == []


# -- cost


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell the memory of a process")
@unless_measured
def test_an_idle_worker_process_stays_small(shell: Shell) -> None:
    with shell.app() as app:
        worker = shell.start("--app", shell.module(), "worker")
        try:
            signed_on(app)
            pages = int(Path(f"/proc/{worker.pid}/statm").read_text().split()[1])
            assert pages * os.sysconf("SC_PAGE_SIZE") / 1e6 < MOST_MEGABYTES
        finally:
            assert end(worker).code == 0


def test_the_installed_command_and_the_module_are_the_same(shell: Shell) -> None:
    code = "import sys; from headrace.cli import main; sys.argv = ['headrace', '--version']; sys.exit(main())"
    source = str(Path(__file__).parents[3] / "src")
    by_function = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert (by_function.returncode, by_function.stdout) == (0, shell.run("--version").out)


# -- an unavailable store at the start


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--processes", "2")])
def test_a_worker_waits_for_an_unavailable_store_and_ends_on_sigterm(shell: Shell, more: tuple[str, ...]) -> None:
    name = shell.module("from headrace import Headrace\napp = Headrace('redis://127.0.0.1:1/0')\n")
    worker = shell.start("--app", name, "worker", *more)
    try:
        wait_for_line(worker, "the store is not available")
        worker.send_signal(signal.SIGTERM)
        assert finish(worker).code == 0
    finally:
        worker.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "word", "how"),
    [
        ("sqlite:///text.db", "choose another file", ()),
        ("postgresql://127.0.0.1:x/shop", "connection option", ()),
        ("redis://127.0.0.1:1/0", "refused", ("--drain",)),
    ],
)
def test_a_wrong_setting_ends_a_worker_at_once_and_so_does_an_absent_store_with_drain(
    shell: Shell, url: str, word: str, how: tuple[str, ...]
) -> None:
    (shell.folder / "text.db").write_text("no database " * 1000)
    name = shell.module(f"from headrace import Headrace\napp = Headrace({url!r})\n")
    ran = shell.run("--app", name, "worker", *how)
    assert ran.code == 1
    assert word in ran.err
    assert "trying again" not in ran.err
