"""`headrace demo` completes on this machine; newcomers run it first, and it is a check, too."""

from __future__ import annotations

import os
import signal
import socket
import time
import urllib.request
from pathlib import Path

import pytest

from headrace import Headrace
from tests.support.command_line import Shell, finish
from tests.support.waiting import PATIENCE, eventually

LONGEST = 40.0  # seconds; about 20 on an idle machine


@pytest.mark.slow
def test_the_demo_shows_all_its_steps_and_leaves_nothing_behind(shell: Shell) -> None:
    scratch = shell.folder / "tmp"
    scratch.mkdir()
    (shell.folder / "pyproject.toml").write_text('[tool.headrace]\nqueues = "elsewhere"\napp = "nobody"\n')
    ran = shell.run("demo", env={"TMPDIR": str(scratch), "HEADRACE_CONCURRENCY": "64"})
    assert ran.code == 0, ran.out + ran.err
    assert ran.err == ""
    assert "\x1b" not in ran.out, "no colors in a pipe"
    for promise in (
        "5, from another process",
        "20 results",
        "attempt 2 failed: ConnectionError",
        "got through at attempt 3",
        "its dead letter is kept",
        "never before",
        "3 jobs, the latest",
        "Monday",
        "finished at attempt 2 by the other worker",
        "jobs a second",
        "5,028 completed, 1 failed, 0 lost",
        "What to try next",
    ):
        assert promise in ran.out
    assert list(scratch.iterdir()) == []
    assert [path.name for path in shell.folder.iterdir() if path.name.startswith("headrace")] == []


@pytest.mark.slow
def test_the_store_of_a_kept_demo_can_be_read_as_it_says(shell: Shell) -> None:
    began = time.monotonic()
    ran = shell.run("demo", "--keep", env={"TMPDIR": str(shell.folder)})
    assert ran.code == 0
    assert time.monotonic() - began < LONGEST
    (line,) = (line for line in ran.out.splitlines() if line.strip().endswith("jobs --state failed"))
    (dead,) = shell(*line.split()[1:], "--json").json["jobs"]
    assert dead["task"] == "doomed"


@pytest.mark.slow
def test_a_step_with_an_unexpected_outcome_ends_the_demo_with_1(shell: Shell) -> None:
    broken = shell.folder / "sitecustomize.py"
    broken.write_text(
        "import headrace.cli.demo.demo as demo\n"
        "demo._PAGES = 20\n"
        "demo._expect = lambda found, promised, what: (_ for _ in ()).throw(demo.DemoFailed(f'{what}: bad'))\n"
    )
    ran = shell.run("demo", env={"PYTHONPATH": os.pathsep.join([str(shell.folder), _source()])})
    assert ran.code == 1
    assert ran.err.splitlines()[-1] == "error: the sum: bad"
    assert "headrace.worker" in ran.err, "the log tail of the worker is printed"


def test_ctrl_c_ends_the_demo_and_its_workers(shell: Shell) -> None:
    scratch = shell.folder / "tmp"
    scratch.mkdir()
    process = shell.start("demo", env={"TMPDIR": str(scratch)}, start_new_session=True)
    assert process.stdout is not None
    pid = next(line for line in process.stdout if "has registered" in line).split()[1]
    os.killpg(process.pid, signal.SIGINT)
    ran = finish(process)
    assert ran.code == 1
    assert ran.err.split() == ["stopped"]
    assert list(scratch.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_shop_takes_orders_until_a_signal_and_leaves_nothing_behind(shell: Shell, number: signal.Signals) -> None:
    scratch = shell.folder / "tmp"
    scratch.mkdir()
    env = {"TMPDIR": str(scratch), "HEADRACE_WEB_AUTH": "ann:s3cret"}
    # Side by side, only one may look for a free port: another test could take it before it listens.
    port = [] if number is signal.SIGINT else ["--port", str(_free_port())]
    process = shell.start("demo", "--web", *port, env=env, start_new_session=True)
    try:
        assert process.stdout is not None
        url = next(line for line in process.stdout if "A shop is open" in line).split()[-1]
        store = next(line for line in process.stdout if line.endswith(" top\n")).split()[-2]
        with Headrace(store) as app:
            eventually(lambda: app.jobs.count(task="ship", state="completed"), "an order is shipped")
            eventually(lambda: app.dead.count(task="charge"), "a card is declined")
            eventually(lambda: app.schedules.get("customers").fired, "a customer comes")
            (waiting,) = app.jobs.find(task="train")
            assert "gpu" in waiting.why()
            assert len({worker.pid for worker in app.workers()}) == 2
            pids = {worker.pid for worker in app.workers()}
            (charged, *_) = app.jobs.find(task="charge", state="completed")
            assert "4000-" not in str(charged.redacted_call())
            assert {stats.queue for stats in app.queues() if stats.paused} == {"images"}
        assert b"Dead letters" in (eventually(lambda: _page(url), "the dashboard answers") or b"")
    finally:
        # Ctrl-C reaches the whole group, SIGTERM one process.
        (os.killpg if number is signal.SIGINT else os.kill)(process.pid, number)
        ran = finish(process)
    assert (ran.code, ran.err) == (0, "")
    assert list(scratch.iterdir()) == []
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _page(url: str) -> bytes | None:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return bytes(answer.read())
    except OSError:  # not yet
        return None


@pytest.mark.slow
def test_a_port_is_only_for_the_shop_and_a_taken_one_is_named(shell: Shell) -> None:
    ran = shell("demo", "--port", "8081")
    assert (ran.code, ran.err.splitlines()[0]) == (2, "error: --port is for --web")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = shell.run("demo", "--web", "--port", str(port), env={"TMPDIR": str(shell.folder)})
    assert ran.code == 1
    assert f"can't listen on 127.0.0.1:{port}" in ran.err
    assert [path.name for path in shell.folder.iterdir()] == []


def _source() -> str:
    return str(Path(__file__).parents[3] / "src")
