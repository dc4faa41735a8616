"""A program that is killed between writing a payload and inserting its job leaves a file, which the sweep deletes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.runtime.retention.payload_sweep import PayloadSweep
from headrace.testing import VirtualClock, drain
from tests.faults.conftest import ROOT

pytestmark = pytest.mark.slow

BIG = "x" * 5000
DAY = 86_400
PROGRAM = """
import os, signal, sys
from headrace import Headrace
app = Headrace(os.environ["HEADRACE_URL"], payload_store=sys.argv[1], payload_threshold=1024)
print(app.enqueue("echo", "x" * 5000).id, flush=True)
app.engine.insert = app.submitter._insert = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
app.submitter.attach(app.engine, app.clock)
app.enqueue("echo", "y" * 5000)
"""


def test_the_file_of_a_job_that_was_never_inserted_is_swept(url: str, tmp_path: Path) -> None:
    root = tmp_path / "payloads"
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(root)],
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        timeout=60,
    )
    assert ran.returncode == -signal.SIGKILL
    assert len([*root.rglob("*.call.*")]) == 2
    clock = VirtualClock()
    with Headrace(url, clock=clock, payload_store=str(root), payload_threshold=1024) as app:
        app.task(name="echo")(lambda text: text)
        assert app.services.payloads is not None
        task = PayloadSweep(app.engine, app.services.payloads, DAY, lambda: app.services.archive)
        clock.advance(DAY + 3600)
        while task.do() == 0.0:
            pass
        assert len([*root.rglob("*.call.*")]) == 1
        drain(app)
        [job] = app.jobs.find()
        assert (job.id, job.outcome()) == (ran.stdout.decode().strip(), BIG)
