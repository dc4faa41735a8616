"""A server with a mounted dashboard ends on SIGTERM despite an open event stream."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from headrace import Headrace
from tests.support.waiting import PATIENCE, eventually

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.engines("sqlite")

_SERVER = """
import socket, sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount, Route
from headrace import Headrace

app = Headrace(sys.argv[1])

@app.task
def add(a, b):
    return a + b

async def upload(request):  # a request of the site that goes on after the signal
    await request.body()
    job = await add.aenqueue(1, 2)
    return Response(job.id)

lifespan = {"bare": None, "worker": app.lifespan(worker=True)}[sys.argv[2]]
site = Starlette(
    routes=[Mount("/background", app.asgi()), Route("/upload", upload, methods=["POST"])], lifespan=lifespan
)
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(site, log_config=None)).run([listening])
"""


@contextmanager
def serving(url: str, kind: str) -> Iterator[tuple[subprocess.Popen[str], http.client.HTTPConnection]]:
    """A uvicorn, and a connection to it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", _SERVER, url, kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            with closing(http.client.HTTPConnection("localhost", port, timeout=PATIENCE)) as there:
                yield server, there
        finally:
            server.kill()


def open_stream(there: http.client.HTTPConnection) -> http.client.HTTPResponse:
    there.request("GET", "/background/live")
    stream = there.getresponse()
    assert stream.readline() == b"retry: 2000\n", "it listens"
    return stream


def test_a_server_with_a_mounted_dashboard_ends_despite_an_open_page(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/jobs.db", "bare") as (server, there):
        stream = open_stream(there)
        server.send_signal(signal.SIGTERM)
        assert stream.read().endswith(b"\n\n"), "the stream was ended by the server"
        there.close()
        assert server.wait(PATIENCE) in (0, -signal.SIGTERM)


@pytest.mark.slow
def test_an_embedded_worker_claims_nothing_after_the_signal(tmp_path: Path) -> None:
    """Although a request, which began before, keeps the server alive."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    with serving(url, "worker") as (server, there), Headrace(url) as app:
        assert app.enqueue("add", 1, 2).result(timeout=PATIENCE) == 3
        stream = open_stream(there)
        with closing(http.client.HTTPConnection("localhost", there.port, timeout=PATIENCE)) as slow:
            slow.putrequest("POST", "/upload")
            slow.putheader("Content-Length", "2")
            slow.putheader("Expect", "100-continue")
            slow.endheaders()
            assert slow.sock.recv(100).startswith(b"HTTP/1.1 100"), "the site reads the body"
            server.send_signal(signal.SIGTERM)
            assert stream.read().endswith(b"\n\n"), "the stream was ended by the server"
            there.close()
            eventually(lambda: app.workers() == [], "the worker has stopped, before the lifespan ends")
            assert server.poll() is None, "the server waits for the request"
            slow.send(b"ab")
            job_id = slow.getresponse().read().decode()
        assert server.wait(PATIENCE) in (0, -signal.SIGTERM)
        assert app.jobs.get(job_id).state == "pending"
