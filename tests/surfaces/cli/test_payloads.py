"""Jobs with large payloads on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.testing import drain
from tests.support.command_line import Shell

BIG = "n33dle" * 1000


def test_a_job_is_shown_by_reference_and_loaded_with_an_option(
    shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_PAYLOAD_STORE", f"file://{folder}/payloads")
    monkeypatch.setenv("HEADRACE_PAYLOAD_THRESHOLD", "1024")
    with shell.app() as app:
        app.task(name="echo")(lambda text: text)
        job = app.enqueue("echo", BIG)
        drain(app)
        shown = shell("jobs", "show", job.id).out
        assert "not loaded: payload" in shown
        assert "n33dle" not in shown
        assert "n33dle" in shell("jobs", "show", job.id, "--payloads").out
        assert shell("jobs", "show", job.id, "--payloads", "--json").json["result"] == BIG
        assert shell("jobs", "show", job.id, "--json").json["stored_call"]["size"] == 6025
        assert "n33dle" not in shell("jobs", "list").out
        settings = shell("doctor", "--json").json["settings"]
        assert settings["payload_store"]["origin"] == "HEADRACE_PAYLOAD_STORE"
        for path in (folder / "payloads").rglob("*.call.*"):
            path.unlink()
        assert "1 payload of the newest jobs is missing" in shell("doctor").out
