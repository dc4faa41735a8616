"""`headrace worker --health-file --health-port` as real processes, and `headrace workers alive`."""

from __future__ import annotations

import json
import os
import signal
import socket
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from headrace.cli.commands.workers.alive import alive_by_file, alive_in_store
from headrace.core.health.probes import HealthReport, json_line
from tests.support.command_line import Shell, finish
from tests.support.waiting import PATIENCE, eventually


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def ask(port: int, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())
    except OSError:
        return 0, None


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_worker_process_shows_its_health_until_it_ends(shell: Shell, processes: str) -> None:
    port, file = free_port(), shell.folder / "worker.health"
    options = ("--health-port", str(port), "--health-file", str(file), "--processes", processes)
    worker = shell.start("--app", shell.module(), "worker", *options)
    eventually(lambda: ask(port, "/ready")[0] == 200, "all processes are ready")
    assert ask(port, "/live")[0] == 200
    eventually(
        lambda: shell.run("workers", "alive", "--ready", "--health-file", str(file)).code == 0, "so says the file"
    )
    with shell.app() as app:
        assert len(app.workers()) == int(processes)
        for each in app.workers():
            app.pause_worker(each.id)
        eventually(lambda: ask(port, "/ready")[0] == 503, "a paused worker is not ready")
        assert "the worker is paused" in ask(port, "/ready")[1]["reason"]
        assert ask(port, "/live")[0] == 200
    worker.send_signal(signal.SIGTERM)
    assert finish(worker).code == 0
    assert not file.exists()
    assert ask(port, "/live") == (0, None)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_suspended_process_makes_the_whole_fail(shell: Shell) -> None:
    port = free_port()
    options = ("--health-port", str(port), "--processes", "2", "--lease", "1s")
    worker = shell.start("--app", shell.module(), "worker", *options)
    eventually(lambda: ask(port, "/ready")[0] == 200, "all processes are ready")
    with shell.app() as app:
        pid = app.workers()[0].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: ask(port, "/live")[0] == 503, "the suspended process does not report")
        assert "has not reported for" in ask(port, "/live")[1]["reason"]
    finally:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: ask(port, "/live")[0] == 200, "it reports again")
    worker.send_signal(signal.SIGTERM)
    assert finish(worker).code == 0


@pytest.mark.slow
def test_a_bad_port_or_file_ends_the_worker_with_a_reason(shell: Shell) -> None:
    name = shell.module()
    ran = shell.run("--app", name, "worker", "--once", "--health-port", "web")
    assert (ran.code, "health_port: 'web' is not an address" in ran.err) == (2, True)
    (shell.folder / "plain").write_text("")
    ran = shell.run("--app", name, "worker", "--once", "--health-file", str(shell.folder / "plain" / "x"))
    assert (ran.code, "can't be written" in ran.err) == (2, True)


def test_alive_reads_the_heartbeats_of_this_host_or_of_one_worker(shell: Shell) -> None:
    with shell.app() as app:
        app.queues()  # makes the store
        ran = shell("workers", "alive")
        assert (ran.code, ran.out) == (1, f"no worker of host {socket.gethostname()} is registered\n")
        with app.worker(concurrency=1) as worker:
            assert shell("workers", "alive").code == 0
            found = shell("workers", "alive", worker.id[:-2], "--json")
            assert (found.code, found.json["alive"], found.json["workers"]) == (0, True, [worker.id])
            assert shell("workers", "alive", "--ready").code == 0
            worker.pause()
            eventually(lambda: app.workers()[0].state == "paused", "the heartbeat reports it")
            assert shell("workers", "alive").code == 0
            ran = shell("workers", "alive", "--ready", "--json")
            assert (ran.code, "is paused" in ran.json["reason"]) == (1, True)
            assert shell("workers", "alive", "nobody").code == 1
        ran = shell("workers", "alive", "x", "--health-file", "y")
        assert (ran.code, "either an ID or --health-file" in ran.err) == (2, True)


def test_a_worker_of_another_host_or_a_silent_one_does_not_count(app: Headrace) -> None:
    with app.worker(concurrency=1):
        [row] = app.workers()
    silent = type(row)(**{**{name: getattr(row, name) for name in row.__struct_fields__}, "silent": True})
    assert alive_in_store([row], None, row.host, ready=False).alive
    assert not alive_in_store([row], None, "elsewhere", ready=False).alive
    found = alive_in_store([silent], row.id, "elsewhere", ready=False)
    assert (found.alive, f"{row.id} is silent" in found.reason) == (False, True)
    stalled = type(row)(**{**{name: getattr(row, name) for name in row.__struct_fields__}, "stalled": ["loop"]})
    assert not alive_in_store([stalled], None, row.host, ready=False).alive


def test_an_old_file_is_no_sign_of_life(tmp_path: Path) -> None:
    now, path = datetime(2026, 3, 1, tzinfo=UTC), tmp_path / "x"
    assert "there is no health file" in alive_by_file(path, now, ready=False).reason
    path.write_bytes(json_line(HealthReport(live=True, ready=False, reason="paused", pid=7, at=now, fresh_for=20.0)))
    assert alive_by_file(path, now, ready=False).alive
    assert alive_by_file(path, now, ready=True).reason == "process 7 is not ready: paused"
    late = alive_by_file(path, now + timedelta(seconds=30), ready=False)
    assert (late.alive, late.reason) == (False, f"process 7 has not written {path} for 30 s")
