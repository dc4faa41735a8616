"""huey doing the same work.

huey_side enqueue PATH DURABILITY JOBS
huey_side drain   PATH DURABILITY JOBS     with one worker thread, which is its fastest on SQLite
huey_side serve   PATH DURABILITY          until SIGTERM
"""

from __future__ import annotations

import sys
import time
from typing import Any

from huey.consumer import Consumer

from bench.peer import Peer, open_peer
from bench.stage import report_time_of

_LOOK = 0.005


def enqueue(peer: Peer, jobs: int) -> int:
    """One call and one commit after the other."""
    for number in range(jobs):
        peer.noop(number)
    return jobs


def drain(peer: Peer, consumer: Any, jobs: int) -> int:
    """Have a consumer run everything. A job counts as it is begun, so the last one is not timed to its end."""
    consumer.start()
    worker = consumer.worker_threads[0][0]
    while worker.task_count < jobs:
        time.sleep(_LOOK)
    return jobs


def main(mode: str, path: str, durability: str, jobs: str = "0") -> None:
    with open_peer(path, durability) as peer:
        if mode == "enqueue":
            enqueue(peer, 100)
            report_time_of(lambda: enqueue(peer, int(jobs)))
            return
        consumer = Consumer(peer.huey, workers=1, periodic=False)
        if mode == "drain":
            report_time_of(lambda: drain(peer, consumer, int(jobs)))
            consumer.stop(graceful=True)
        else:
            print("ready", flush=True)
            consumer.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
