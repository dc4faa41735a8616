"""`headrace top` shows the current state in a small terminal and in a pipe, also after the store was unavailable."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from headrace import Headrace, HeadraceError, PermanentError
from headrace.cli.top.data import AlertSample, FailureSample, QueueSample, StoreSample, StoreSampler, WorkerSample
from headrace.cli.top.top import Poller
from headrace.cli.top.view import ViewState, screen
from headrace.testing import VirtualClock, drain
from tests.support.command_line import Shell, _environment
from tests.support.servers import RedisServer
from tests.support.waiting import PATIENCE

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]")


# -- a terminal


class Terminal:
    """A pseudo-terminal that runs `headrace top`; it reads the screen and types keys."""

    def __init__(self, shell: Shell, *arguments: str, rows: int = 24, columns: int = 80) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self._theirs = theirs
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "top", *arguments],
            cwd=shell.folder,
            env={**_environment(), "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        self.seen = ""

    def wait_for(self, text: str) -> None:
        """Read until the text appears, after the text of the last call."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} did not appear:\n{self.seen[-3000:]}"
            if select.select([self._ours], [], [], 0.2)[0]:
                self.seen += ESCAPES.sub("", os.read(self._ours, 65536).decode("utf-8", "replace"))
        self.seen = self.seen.partition(text)[2]

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        """Wait for the end, check that the terminal is restored, and return the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            if select.select([self._ours], [], [], 0.1)[0]:
                os.read(self._ours, 65536)
        assert termios.tcgetattr(self._theirs)[3] == self.before[3]
        return self.process.wait(0.1)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@contextlib.contextmanager
def watching(shell: Shell, *arguments: str) -> Iterator[Terminal]:
    terminal = Terminal(shell, *arguments)
    try:
        yield terminal
    finally:
        terminal.close()


def test_keys_choose_a_queue_pause_it_and_quit(shell: Shell) -> None:
    with shell.app() as app:
        app.enqueue("send")
        app.task_by_name("send").using(queue="mail").enqueue()
        with watching(shell) as terminal:
            terminal.wait_for("mail")
            terminal.type("s")
            terminal.wait_for("sort: pending")
            terminal.type("\x1b[Bjp")
            terminal.wait_for("pause mail? y/n")
            terminal.type("n")
            terminal.wait_for("q quit")
            assert not app.queue("mail").paused
            terminal.type("p")
            terminal.wait_for("pause mail? y/n")
            terminal.type("y")
            terminal.wait_for("paused")
            assert app.queue("mail").paused
            assert not app.queue("default").paused
            terminal.type("q")
            assert terminal.end() == 0


@pytest.mark.slow
@pytest.mark.engines("redis")
def test_it_reports_an_unavailable_store_and_continues_afterwards(shell: Shell, engine_name: str) -> None:
    with RedisServer() as server:
        with Headrace(server.url) as app:
            app.task_by_name("send").using(queue="mail").enqueue()
        with watching(shell, "--url", server.url) as terminal:
            terminal.wait_for("1 pending")
            server.stop()
            terminal.wait_for("the store is unavailable")
            terminal.wait_for("mail")
            server.start()
            terminal.wait_for("1 pending")
            terminal.process.send_signal(signal.SIGINT)
            assert terminal.end() == 0


# -- a pipe


def test_in_a_pipe_it_prints_one_snapshot(shell: Shell) -> None:
    with shell.app() as app:

        @app.task(queue="mail", retry=0)
        def send() -> None:
            raise PermanentError("no \x1b[31mroute")

        send.enqueue()
        drain(app)
        app.enqueue("other")
    ran = shell("top", "--interval", "0")
    assert ran.code == 0
    assert "1 pending, 0 running, 0 workers" in ran.out
    assert re.search(r"default +unserved +1 +0 ", ran.out)
    assert re.search(r"send +mail +PermanentError: no \\x1b\[31mroute", ran.out)
    assert "\x1b" not in ran.out


def test_json_has_rates_between_the_two_samples(shell: Shell) -> None:
    with shell.app() as app:
        app.task_by_name("send").using(queue="mail").enqueue()
    found = shell("top", "--json", "--interval", "50ms").json
    (mail,) = found["queues"]
    assert (mail["queue"], mail["pending"], mail["arriving"], mail["leaving"]) == ("mail", 1, 0.0, 0.0)
    assert (found["workers"], found["failures"], found["alerts"]) == ([], [], [])
    (mail,) = shell("top", "--json", "--interval", "0").json["queues"]
    assert mail["arriving"] is None


def test_a_missing_store_is_an_error(shell: Shell) -> None:
    ran = shell("top", "--once")
    assert ran.code == 2
    assert "there is no store" in ran.err


# -- samples and views


def test_rates_are_what_changed_over_the_last_seconds() -> None:
    clock = iter([0.0, 2.0, 4.0, 20.0])
    with Headrace("memory://") as app:
        sampler = StoreSampler(app, lambda: next(clock))

        @app.task(queue="mail")
        def send() -> None: ...

        app.enqueue_many([send.bind() for _ in range(10)])
        assert sampler.sample().queues[0].leaving is None
        with contextlib.suppress(HeadraceError):  # it has not run all of them
            drain(app, limit=8)
        app.enqueue_many([send.bind() for _ in range(4)])
        (mail,) = sampler.sample().queues
        assert (mail.pending, mail.arriving, mail.leaving, mail.empty_in) == (6, 2.0, 4.0, 3.0)
        app.jobs.delete(state="completed")
        (mail,) = sampler.sample().queues
        assert (mail.arriving, mail.leaving) == (0.0, 0.0)
        (mail,) = sampler.sample().queues
        assert mail.empty_in is None


def test_a_queue_that_is_never_empty_says_so(shell: Shell) -> None:
    with shell.app() as app:
        app.task_by_name("send").using(queue="mail").enqueue()
        assert "never" in shell("top", "--once", "--interval", "50ms").out
        app.jobs.delete(queue="mail")
        assert "never" not in shell("top", "--once", "--interval", "50ms").out


def test_the_rate_of_a_worker_goes_by_its_heartbeats() -> None:
    times = iter([0.0, 1.0, 2.0])
    clock = VirtualClock()
    with Headrace("memory://", clock=clock) as app:
        sampler = StoreSampler(app, lambda: next(times))
        described = app.worker(heartbeat=10)
        described._worker_state = SimpleNamespace(running=0)  # type: ignore[assignment]
        described._exchange = SimpleNamespace(completed=100, failed=0)  # type: ignore[assignment]
        app.engine.renew(described.describe(), [], 1000)
        assert sampler.sample().workers[0].rate is None
        clock.advance(10)
        described._exchange.completed = 220
        app.engine.renew(described.describe(), [], 1000)
        assert sampler.sample().workers[0].rate == 12.0
        assert sampler.sample().workers[0].rate == 12.0, "no heartbeat came meanwhile"


def test_a_failed_poll_sets_the_error_and_the_last_sample_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with Headrace("memory://") as app:
        app.enqueue("send")
        poller = Poller(app, 1.0, lambda: None)
        poller.poll()
        with monkeypatch.context() as patch:
            patch.setattr(app, "queues", broken)
            poller.poll()
        assert poller.error == "gone"
        assert poller.sample is not None
        poller.poll()
        assert poller.error is None


def broken() -> None:
    raise OSError("gone")


def sample(queues: int = 3, workers: int = 2, failures: int = 2, alerts: int = 0) -> StoreSample:
    return StoreSample(
        at=NOW,
        store="postgresql://***@db.example/shop",
        queues=[
            QueueSample(
                queue=f"queue-{n:02d}-{'long' * 6}",
                state="open",
                pending=1_234_567 - n,
                running=n,
                retrying=0,
                scheduled=2,
                waiting=3,
                failed=4,
                oldest=5.0,
                arriving=1.5,
                leaving=1234.0,
            )
            for n in range(queues)
        ],
        workers=[
            WorkerSample(
                id=f"host.example.net-4711-a1b2c{n}",
                state="running",
                running=4,
                concurrency=8,
                completed=10_000,
                failed=1,
                rate=120.0,
                up=3600.0,
                jobs=["mail.send", "mail.send", "report"],
                calls=["mail.send(to=1)", "mail.send(to=2)", "report()"],
            )
            for n in range(workers)
        ],
        failures=[
            FailureSample(
                at=NOW - timedelta(seconds=n),
                task="mail.send",
                arguments="to=1",
                queue="mail",
                job_id="j",
                error="E: x\ny" * 40,
            )
            for n in range(failures)
        ],
        alerts=[AlertSample(severity="critical", summary=f"too much of it {n}") for n in range(alerts)],
    )


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 10), (200, 60), (80, 6)])
@pytest.mark.parametrize("store_sample", [sample(), sample(0, 0, 0), sample(40, 30, 10, 5), sample(1, 50, 0), None])
def test_it_fills_the_screen_and_no_more(store_sample: StoreSample | None, width: int, height: int) -> None:
    out = StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=False, highlight=False)
    view = ViewState("pending", "queue-39-" + "long" * 6, error=None if store_sample else "no route to host")
    console.print(screen(store_sample, view, width, height))
    lines = out.getvalue().splitlines()
    assert len(lines) == height
    assert max(map(len, lines)) <= width
    assert "q quit" in lines[-1]
    if store_sample is None:
        assert "the store is unavailable: no route" in lines[0]
    elif len(store_sample.queues) > height:
        assert "more" in out.getvalue()
        assert "queue-39" in out.getvalue() or height < 10


def test_at_80_columns_the_figures_that_matter_are_there() -> None:
    out = StringIO()
    Console(file=out, width=80, height=24, highlight=False).print(screen(sample(), ViewState(), 80, 24))
    for needed in ("PENDING", "OLDEST", "OUT/s", "1,234", "BUSY", "4/8", "ERROR", "E: x y", "3 running"):
        assert needed in out.getvalue()
