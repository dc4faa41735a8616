"""`headrace web`: it refuses an unsafe start, and ends on SIGTERM despite open streams."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.command_line import Shell
from tests.support.waiting import PATIENCE
from tests.surfaces.rest.live_stream import Listening

COMMAND = [sys.executable, "-m", "headrace", "web"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "jobs.example.com"])
def test_it_does_not_start_open_to_others_without_credentials(shell: Shell, host: str) -> None:
    done = shell("web", "--host", host)
    assert (done.code, done.out) == (2, "")
    assert "no credentials are set" in done.err
    assert "HEADRACE_WEB_AUTH" in done.err


def test_a_bad_credential_is_named_and_not_shown(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "can't be read" in shell("web", "--token-file", "nowhere").err
    monkeypatch.setenv("HEADRACE_WEB_AUTH", "annashouldhaveacolon")
    done = shell("web")
    assert done.code == 2
    assert "web_auth: its entry 1 should look like [ROLE=]USER:PASSWORD" in done.err
    assert "annashould" not in done.err


def test_a_port_that_is_taken_is_a_failure(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = shell("web", "--port", str(taken.getsockname()[1]))
    assert done.code == 1
    assert "address already in use" in done.err


def test_it_logs_its_address_and_ends_despite_an_open_stream(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("viewer=grafana:5f2a91\n")
    command = [*COMMAND, "--port", "0", "--token-file", str(tokens)]
    served = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        assert served.stderr is not None
        match = re.search(r"serving on http://127\.0\.0\.1:(\d+)", served.stderr.readline())
        assert match is not None
        with Listening(int(match[1]), authorization="Bearer 5f2a91") as listening:
            assert listening.response.status == 200
            assert listening.response.readline() == b"retry: 2000\n"
            served.send_signal(signal.SIGTERM)
            assert listening.frame() == {}
        assert served.wait(PATIENCE) == 0
    finally:
        served.kill()
        served.communicate()


@pytest.mark.parametrize(("proxies", "last"), [("127.0.0.0/8", 401), pytest.param("none", 429, marks=pytest.mark.slow)])
def test_a_proxy_is_trusted_only_if_it_is_configured(tmp_path: Path, proxies: str, last: int) -> None:
    environment = {**os.environ, "HEADRACE_WEB_TOKENS": "5f2a91", "HEADRACE_WEB_TRUSTED_PROXIES": proxies}
    served = subprocess.Popen(
        [*COMMAND, "--port", "0"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        assert served.stderr is not None
        match = re.search(r"serving on http://127\.0\.0\.1:(\d+)", served.stderr.readline())
        assert match is not None
        with closing(http.client.HTTPConnection("127.0.0.1", int(match[1]), timeout=PATIENCE)) as connection:
            for n in range(15):
                headers = {"authorization": "Bearer wrong", "x-forwarded-for": f"203.0.113.{n}"}
                connection.request("GET", "/api/v1/queues", headers=headers)
                answer = connection.getresponse()
                answer.read()
        assert answer.status == last
    finally:
        served.kill()
        served.communicate()
