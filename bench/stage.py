"""A child's side of the conversation with the run: ready, go, and one line with what came of it.

Small on purpose, and without packages: the memory of a worker process is one of the things that are measured, and a
peer's environment holds nothing but the peer.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable


def store() -> tuple[str, str, str]:
    """The URL of the store, its durability and what is told there. They come in the environment: everybody can read a
    command line."""
    return os.environ["BENCH_STORE"], os.environ["BENCH_DURABILITY"], os.environ["BENCH_TELLS"]


def wait_for_go() -> None:
    """Say that the preparations are over, and wait for the word."""
    print("ready", flush=True)
    if not sys.stdin.readline():
        sys.exit("the run is gone")


def report_time_of(work: Callable[[], int]) -> None:
    """Wait for the word, do the work, and report how many jobs it was and what time it took."""
    wait_for_go()
    started, used = time.perf_counter(), time.process_time()
    jobs = work()
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    print(f'{{"jobs": {jobs}, "seconds": {seconds}, "processor": {processor}}}', flush=True)
