"""The app that the fault tests' worker processes run; its store is named by HEADRACE_URL."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from headrace import Headrace, current_job

app = Headrace()


@app.task
def touch(n: int) -> int:
    """A short job with a trace of each run outside of the store."""
    time.sleep(0.001)
    return n * 2


@app.task(retry=5)
def hold(folder: str) -> str:
    """Tells that it began, then works until it is allowed to go on."""
    ctx = current_job()
    Path(folder, f"began-{ctx.attempt}").write_text(str(os.getpid()))
    while not Path(folder, f"go-{ctx.attempt}").exists():
        time.sleep(0.01)
    return f"attempt {ctx.attempt}"


@app.task(retry=2)
def poison() -> None:
    """Kills its worker."""
    os.kill(os.getpid(), 9)


@app.task(isolation="process", timeout=60)
def boxed(folder: str) -> str:
    Path(folder, "child").write_text(str(os.getpid()))
    while not Path(folder, "go").exists():
        time.sleep(0.01)
    return "done"


if __name__ == "__main__":
    sys.exit(app.run_worker())
