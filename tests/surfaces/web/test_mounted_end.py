"""A server with a mounted dashboard ends on SIGTERM despite an open event stream."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.engines("sqlite")

_SERVER = """
import socket, sys
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from headrace import Headrace

app = Headrace(sys.argv[1])
site = Starlette(routes=[Mount("/background", app.asgi())])
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(site, log_config=None)).run([listening])
"""


def test_a_server_with_a_mounted_dashboard_ends_despite_an_open_page(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", _SERVER, f"sqlite:///{tmp_path}/jobs.db"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            there = http.client.HTTPConnection("localhost", int(server.stdout.readline()), timeout=PATIENCE)
            there.request("GET", "/background/live")
            stream = there.getresponse()
            assert stream.readline() == b"retry: 2000\n", "it listens"
            server.send_signal(signal.SIGTERM)
            assert stream.read().endswith(b"\n\n"), "the stream was ended by the server"
            there.close()
            assert server.wait(PATIENCE) in (0, -signal.SIGTERM)
        finally:
            server.kill()
