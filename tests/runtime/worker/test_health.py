"""A worker process shows its health over HTTP and in a file; nothing a client does can hold it up."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import Headrace
from headrace.core.health.probes import Health
from headrace.core.settings.settings import Settings
from headrace.errors import ConfigError
from headrace.runtime.process import health_endpoints, health_server
from headrace.runtime.process.health_endpoints import HealthEndpoints, HealthFile, read_report
from headrace.runtime.process.health_pipe import HealthPipe
from headrace.runtime.process.health_server import HealthServer
from tests.support.waiting import PATIENCE, eventually


class Patient:
    """The health that a server shows, and a thread that polls it."""

    def __init__(self) -> None:
        self.health = Health(True, True)
        self.server = HealthServer(("127.0.0.1", 0), lambda: self.health)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.is_set():
            self.server.poll(PATIENCE)

    def close(self) -> None:
        self._ends.set()
        self.server.wake()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        self.server.close()

    def ask(self, path: str, method: str = "GET") -> tuple[int, Any]:
        with closing(HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE)) as connection:
            connection.request(method, path)
            answer = connection.getresponse()
            body = answer.read()
            return answer.status, json.loads(body) if body else None

    def send(self, text: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=PATIENCE) as client:
            client.sendall(text)
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(4096), b""))


@pytest.fixture
def patient() -> Iterator[Patient]:
    with closing(Patient()) as patient:
        yield patient


def test_live_and_ready_differ(patient: Patient) -> None:
    assert patient.ask("/live") == (200, {"live": True, "ready": True, "reason": "", "worker": ""})
    assert patient.ask("/ready")[0] == 200
    patient.health = Health(True, reason="the store is not available")
    assert patient.ask("/live?verbose=1")[0] == 200
    status, body = patient.ask("/ready")
    assert (status, body["reason"]) == (503, "the store is not available")
    patient.health = Health(False, reason="hung")
    assert patient.ask("/live")[0] == 503
    assert patient.ask("/live", "HEAD") == (503, None)


def test_another_request_is_refused_with_a_hint(patient: Patient) -> None:
    assert patient.ask("/") == (404, {"reason": "ask for /live or /ready"})
    assert patient.ask("/live", "POST") == (405, {"reason": "use GET"})
    assert b" 400 " in patient.send(b"hello\r\n\r\n")
    assert b" 400 " in patient.send(b"x" * 9000)
    assert patient.send(b"GET /live HTTP/1.1\r\n") == b"", "a request without an end gets no answer"


def test_silent_clients_delay_nobody(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = [socket.create_connection(("127.0.0.1", patient.server.port)) for _ in range(20)]
    try:
        assert patient.ask("/live")[0] == 200
        monkeypatch.setattr(health_server, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 10))
        patient.server.wake()
        assert silent[0].recv(1) == b"", "its time is over"
    finally:
        for client in silent:
            client.close()


def test_a_port_in_use_is_an_error_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"health_port: can't listen on 127.0.0.1:{port}"):
            HealthServer(("127.0.0.1", port), lambda: Health(True))


def test_a_file_is_rewritten_only_while_the_process_is_live(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "worker.health"
    file = HealthFile(path, 5.0)
    file.create(Health(True, reason="the worker is starting"))
    first = read_report(path)
    assert first is not None
    assert (first.ready, first.reason, first.pid, first.fresh_for) == (False, "the worker is starting", os.getpid(), 20)
    file.write(Health(False, reason="hung"))
    assert read_report(path) == first
    file.write(Health(True, True))
    later = read_report(path)
    assert later is not None
    assert later.ready
    assert list(path.parent.iterdir()) == [path], "no temporary file is left"
    file.remove()
    file.remove()
    assert read_report(path) is None


def test_a_file_that_cannot_be_written_is_an_error_at_the_start_and_a_log_line_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "plain").write_text("")
    with pytest.raises(ConfigError, match=r"health_file: .*plain/x can't be written"):
        HealthEndpoints(Settings(health_file=str(tmp_path / "plain" / "x"), health_port=0), lambda: Health(True))
    file = HealthFile(tmp_path / "gone" / "x", 5.0)
    file.write(Health(True))
    file.write(Health(True))
    assert caplog.text.count("can't be written") == 1
    with pytest.raises(ConfigError, match="is not a readable health file"):
        read_report(tmp_path / "plain")


def test_the_file_soon_says_that_the_process_has_become_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(health_endpoints, "time", SimpleNamespace(monotonic=lambda: now))
    health, path = Health(True, reason="the worker is starting"), tmp_path / "x"
    endpoints = HealthEndpoints(Settings(health_file=str(path)), lambda: health)

    def is_ready(seconds: float) -> bool:
        nonlocal now
        now += seconds
        endpoints.poll(0)
        report = read_report(path)
        return report is not None and report.ready

    assert not is_ready(0)
    health = Health(True, True)
    assert not is_ready(0.9)
    assert is_ready(0.1)
    health = Health(True, reason="the worker is paused")
    assert is_ready(4.9), "a ready process is written every five seconds"
    assert not is_ready(0.1)
    endpoints.close()
    assert not path.exists()


def test_a_pipe_holds_the_last_report_and_never_blocks() -> None:
    pipe = HealthPipe()
    try:
        assert pipe.last()[0] is None
        with pipe.reporting(lambda: Health(True, True, worker="w")):
            eventually(lambda: pipe.last()[0] == Health(True, True, worker="w"), "the report arrives")
        with contextlib.suppress(BlockingIOError):  # nobody reads: it gets full
            while True:
                os.write(pipe._writer, b'{"live": false, "reason": "hung"}\n')
        with pipe.reporting(lambda: Health(True, True)):
            pass
        assert pipe.last()[0] == Health(False, reason="hung"), "a report that does not fit is dropped"
    finally:
        pipe.close()


def test_a_worker_says_what_it_does(app: Headrace) -> None:
    worker = app.worker(concurrency=1)
    assert worker.health.reason == "the worker is starting"
    with worker:
        assert worker.health == Health(True, True, worker=worker.id)
        worker.pause()
        assert (worker.health.live, worker.health.reason) == (True, "the worker is paused")
        worker.resume()
        worker._heartbeat._store_answers = False
        assert (worker.health.live, worker.health.reason) == (True, "the store is not available")
        worker._worker_state.loop_liveness._due = time.monotonic() - 1000
        assert not worker.health.live
    assert worker.health.reason == "the worker is stopping"
