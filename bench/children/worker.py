"""A headrace worker process.

worker serve PATH DURABILITY CONCURRENCY              as in production, until SIGTERM
worker watch PATH DURABILITY CONCURRENCY BOARD ROWS ROW   chalks up on a board what it has completed
"""

from __future__ import annotations

import select
import sys
from pathlib import Path

from bench.board import Board
from bench.stage import wait_for_go
from bench.tasks import open_subject
from headrace import Headrace

_LOOK = 0.005


def serve(app: Headrace, concurrency: int) -> None:
    """Run as `headrace worker` does."""
    print("ready", flush=True)
    app.run_worker(concurrency=concurrency)


def watch(app: Headrace, concurrency: int, board: Board, row: int) -> None:
    """Work until the run has seen enough."""
    wait_for_go()
    board.start(row)
    with app.worker(concurrency=concurrency) as worker:
        while not select.select([sys.stdin], [], [], _LOOK)[0]:
            board.chalk_up(row, worker.completed)


def main(mode: str, path: str, durability: str, concurrency: str, *of_board: str) -> None:
    with open_subject(path, durability).app as app:
        if mode == "serve":
            serve(app, int(concurrency))
        else:
            board, rows, row = of_board
            watch(app, int(concurrency), Board(Path(board), int(rows)), int(row))


if __name__ == "__main__":
    main(*sys.argv[1:])
