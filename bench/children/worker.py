"""A headrace worker process.

worker serve CONCURRENCY NAMES [QUEUE]         as in production, until SIGTERM
worker watch CONCURRENCY NAMES BOARD ROWS ROW  chalks up on a board what it has completed

NAMES is how many more tasks its app has.
"""

from __future__ import annotations

import select
import sys
from pathlib import Path

from bench.chalk import Chalk
from bench.stage import store, wait_for_go
from bench.tasks import open_subject
from headrace import Headrace

_LOOK = 0.005
_FEW = 4  # processes; more of them look less often, or looking takes a core of its own


def serve(app: Headrace, concurrency: int, queues: list[str] | None) -> None:
    """Run as `headrace worker` does."""
    print("ready", flush=True)
    app.run_worker(concurrency=concurrency, queues=queues)


def watch(app: Headrace, concurrency: int, chalk: Chalk, processes: int) -> None:
    """Work until the run has seen enough."""
    pause = _LOOK * max(1, processes // _FEW)
    wait_for_go()
    chalk.start()
    with app.worker(concurrency=concurrency) as worker:
        while not select.select([sys.stdin], [], [], pause)[0]:
            chalk.chalk_up(worker.completed)


def main(mode: str, concurrency: str, names: str, *more: str) -> None:
    with open_subject(*store(), int(names)).app as app:
        if mode == "serve":
            serve(app, int(concurrency), list(more) or None)
        else:
            board, rows, row = more
            watch(app, int(concurrency), Chalk(Path(board), int(rows), int(row)), int(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
