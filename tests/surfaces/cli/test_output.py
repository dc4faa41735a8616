"""Output fits a terminal, a pipe and a program, and no text breaks it."""

from __future__ import annotations

import os
import pty
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fcntl import ioctl
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.options import parse_moment, parse_seconds
from headrace.cli.output import Column, ago, clean, fit, one_line, span, stamp
from tests.support.command_line import Shell, _environment, finish
from tests.support.waiting import PATIENCE


@pytest.fixture
def filled(shell: Shell) -> Iterator[Shell]:
    with shell.app() as app:
        app.task_by_name("add").using(job_id="first").enqueue("[red]x[/red]")
        app.task_by_name("a.task.with.quite.a.long.name").using(job_id="second", delay=60).enqueue()
        app.jobs.get("first").cancel()
        yield shell


def at_terminal(shell: Shell, *arguments: str, width: int = 80, env: dict[str, str] | None = None) -> str:
    """The output of the command on a terminal of this width."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = {**_environment(), "TERM": "xterm", **(env or {})}
    for name in {"NO_COLOR", "FORCE_COLOR", "COLUMNS"} - (env or {}).keys():
        environment.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace", *arguments], cwd=shell.folder, env=environment, stdout=theirs, stdin=theirs
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            chunk = os.read(ours, 4096)
        except OSError:  # the end of a pseudo-terminal on Linux
            break
        if not chunk:
            break
        seen += chunk
    os.close(ours)
    assert process.wait(PATIENCE) == 0
    return seen.decode().replace("\r\n", "\n")


@pytest.mark.slow
def test_colors_are_for_terminals_that_want_them(filled: Shell) -> None:
    assert "\x1b[" in at_terminal(filled, "jobs")
    assert "\x1b[" in at_terminal(filled, "jobs", "show", "first")
    assert "\x1b[" not in filled.run("jobs").out
    plain = at_terminal(filled, "jobs", "show", "first", env={"NO_COLOR": "1"})
    assert "\x1b[" not in plain
    assert "\x1b[3" not in at_terminal(filled, "jobs", env={"NO_COLOR": "1"}), "bold may stay, colors may not"


@pytest.mark.parametrize("widths", [(40, 120), pytest.param((60, 80), marks=pytest.mark.slow)])
def test_a_table_is_as_wide_as_the_terminal_and_keeps_the_ids_whole(filled: Shell, widths: tuple[int, ...]) -> None:
    for width in widths:
        lines = click.unstyle(at_terminal(filled, "jobs", width=width)).splitlines()
        assert all(len(line) <= width for line in lines)
        assert [line.split()[0] for line in lines] == ["ID", "second", "first"]


def test_what_looks_like_markup_is_shown_as_it_is(filled: Shell) -> None:
    assert "add('[red]x[/red]')" in at_terminal(filled, "jobs", "show", "first", env={"NO_COLOR": "1"})


@pytest.mark.slow
def test_a_closed_pipe_causes_no_error_message(shell: Shell) -> None:
    with shell.app() as app:
        task = app.task_by_name("add")
        app.enqueue_many([task.bind(number, "x" * 100) for number in range(5000)])
    for form in ((), ("--json",)):
        process = shell.start("jobs", "--limit", "5000", *form)
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        process.stdout = None
        assert finish(process).err == ""


ONE_BY_ONE = [pytest.param(closed, marks=pytest.mark.slow) for closed in (">&-", "<&-", "2>&-")]


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", *ONE_BY_ONE])
def test_a_command_runs_with_closed_streams(shell: Shell, closed: str) -> None:
    def run(arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", "-c", f"{shlex.quote(sys.executable)} -m headrace {arguments} {closed}"],
            cwd=shell.folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    for arguments in ("enqueue add '[1]'", "enqueue add '[2]' --json", "jobs", "worker --help"):
        done = run(arguments)
        assert (done.returncode, "error" in done.stderr) == (0, False), done.stderr
    with shell.app() as app:
        assert app.jobs.count(task="add") == 2
    assert run("jobs cancel --all").returncode == 2, "no terminal to confirm on"


def test_a_full_disk_is_an_error_of_one_line(filled: Shell) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "headrace", "jobs"],
            cwd=filled.folder,
            env=_environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode != 0
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_without_the_characters_gets_escapes_and_no_crash(shell: Shell) -> None:
    with shell.app() as app:
        app.task_by_name("größe").using(job_id="wide").enqueue("日本")
    ran = shell.run("jobs", "show", "wide", env={"PYTHONIOENCODING": "latin-1"}, encoding="latin-1")
    assert ran.code == 0
    assert "größe('\\u65e5\\u672c')" in ran.out


@given(st.text())
def test_no_text_can_control_a_terminal(text: str) -> None:
    assert all(char.isprintable() or char in "\n\t" for char in clean(text))
    assert one_line(text).isprintable()


@given(
    st.lists(st.tuples(st.integers(1, 60), st.none() | st.integers(1, 20)), min_size=1, max_size=10),
    st.integers(1, 200),
)
def test_columns_fit_the_width_or_are_left_out(wished: list[tuple[int, int | None]], room: int) -> None:
    columns = [Column("x", min_width=least) for _, least in wished]
    natural = [width for width, _ in wished]
    widths = fit(columns, natural, room)
    assert 1 <= len(widths) <= len(columns)
    assert len(widths) == 1 or sum(widths) + 2 * (len(widths) - 1) <= room
    for width, (wish, least) in zip(widths, wished, strict=False):
        assert width <= wish
        assert width == wish or (least is not None and width >= min(least, wish))
    if sum(natural) + 2 * (len(natural) - 1) <= room:
        assert widths == natural


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("1.5", 1.5),
        ("0", 0.0),
        ("500ms", 0.5),
        ("10m", 600.0),
        ("1h30m", 5400.0),
        ("2d", 172_800.0),
        ("1w", 604_800.0),
        ("1.5h", 5400.0),
        ("", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1h 30m", None),
        ("m", None),
        ("10x", None),
        ("h1", None),
    ],
)
def test_lengths_of_time_are_read_exactly_or_not_at_all(text: str, seconds: float | None) -> None:
    assert parse_seconds(text) == seconds


@given(st.text(max_size=20))
def test_no_text_breaks_the_reading_of_times(text: str) -> None:
    seconds, moment = parse_seconds(text), parse_moment(text)
    assert seconds is None or seconds >= 0
    assert moment is None or moment.tzinfo is not None


def test_durations_are_printed_in_one_fitting_unit() -> None:
    now = datetime(2026, 3, 1, 12, 0, 0, 123_000, tzinfo=UTC)
    assert [span(seconds) for seconds in (0.25, 1, 119, 120, 7199, 7200, 172_800)] == [
        "250ms",
        "1s",
        "119s",
        "2m",
        "119m",
        "2h",
        "2d",
    ]
    assert ago(now - timedelta(minutes=5), now) == "5m"
    assert ago(now + timedelta(hours=3), now) == "in 3h"
    assert (ago(None, now), stamp(None)) == ("-", "-")
    assert stamp(now) == "2026-03-01 12:00:00.123 UTC"
