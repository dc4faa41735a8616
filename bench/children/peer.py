"""A peer doing the same work, in an environment of its own.

peer MODULE OPTION fill JOBS               makes the tables and stores waiting jobs
peer MODULE OPTION enqueue JOBS            one at a time, timed
peer MODULE OPTION work BOARD ROWS ROW     one worker process, which chalks up on a board what it has run
peer MODULE OPTION settle JOBS             timed until the store knows that all is over; answers with what it kept
peer MODULE OPTION send SAMPLES WARM_UP    enqueues the time, at random moments
peer MODULE OPTION serve FILE              one worker process, which writes down how long each of those was under way
"""

from __future__ import annotations

import importlib
import os
import random
import select
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bench.chalk import Chalk
from bench.children.peers import Act, Side
from bench.stage import report_time_of, store, wait_for_go

_LOOK = 0.005
_LOOK_AT_STORE = 0.002
_PATIENCE = 30.0
_WARM_UP = 100
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1


def fill(side: Side, jobs: int) -> int:
    side.prepare()
    side.fill(range(jobs))
    return jobs


def enqueue(side: Side, numbers: Iterable[int], count: int) -> int:
    side.enqueue(numbers)
    return count


def settle(side: Side, jobs: int) -> int:
    """A job counts as run when it begins; this waits for the last ones to be over."""
    deadline = time.monotonic() + _PATIENCE
    kept = -1
    while (side.left() or (kept := side.kept()) < jobs) and time.monotonic() < deadline:
        time.sleep(_LOOK_AT_STORE)
    return kept


def times_of_sending(count: int) -> Iterator[int]:
    """Random pauses, so that no timer of the worker can be in step with them."""
    pauses = random.Random(20)
    for _ in range(count):
        time.sleep(pauses.uniform(_SHORTEST_PAUSE, _LONGEST_PAUSE))
        yield time.time_ns()


def send(side: Side, samples: int, warm_up: int) -> None:
    side.prepare()
    wait_for_go()
    side.enqueue(times_of_sending(warm_up))
    report_time_of(lambda: enqueue(side, times_of_sending(samples), samples))


def work_until_told(open_side: Callable[[Act], Side], look: Callable[[list[int]], None], act: Act) -> None:
    """Run a worker in the main thread, and end the process when the run closes the pipe: nothing is left to save."""
    seen: list[int] = []  # its append needs no lock, whichever threads run the jobs

    def job(number: int) -> int:
        seen.append(act(number))
        return number

    def watch() -> None:
        while not select.select([sys.stdin], [], [], _LOOK)[0]:
            look(seen)
        os._exit(0)

    side = open_side(job)
    wait_for_go()
    threading.Thread(target=watch, daemon=True).start()
    side.work()


def work(open_side: Callable[[Act], Side], board: str, rows: str, row: str) -> None:
    chalk = Chalk(Path(board), int(rows), int(row))
    chalk.start()
    work_until_told(open_side, lambda seen: chalk.chalk_up(len(seen)), lambda number: number)


def serve(open_side: Callable[[Act], Side], file: str) -> None:
    written = 0
    with Path(file).open("a") as log:

        def write_down(seen: list[int]) -> None:
            nonlocal written
            for delay in seen[written:]:
                log.write(f"{delay}\n")
                written += 1
            log.flush()

        work_until_told(open_side, write_down, lambda sent: time.time_ns() - sent)


def main(module: str, option: str, mode: str, *more: str) -> None:
    program = importlib.import_module(f"bench.children.peers.{module}")
    url = store()[0]

    def open_side(act: Act = lambda number: number) -> Side:
        side: Side = program.open_side(url, option, act)
        return side

    if mode == "work":
        work(open_side, *more)
    elif mode == "serve":
        serve(open_side, *more)
    elif mode == "send":
        send(open_side(), *map(int, more))
    elif mode == "settle":
        side = open_side()
        report_time_of(lambda: settle(side, *map(int, more)))
    elif mode == "fill":
        side = open_side()
        report_time_of(lambda: fill(side, *map(int, more)))
    else:
        side = open_side()
        fill(side, _WARM_UP)
        jobs = int(more[0])
        report_time_of(lambda: enqueue(side, range(jobs), jobs))


if __name__ == "__main__":
    main(*sys.argv[1:])
