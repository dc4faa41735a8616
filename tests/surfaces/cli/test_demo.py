"""`headrace demo` completes on this machine; newcomers run it first, and it is a check, too."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.command_line import Shell, finish

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


def _source() -> str:
    return str(Path(__file__).parents[3] / "src")
