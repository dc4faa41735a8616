"""A process that enqueues without end, and writes down each id once its enqueue has returned."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace import chain
from tests.faults.worker_app import app, touch


def main(path: str) -> None:
    with Path(path).open("w", buffering=1) as told, app:
        number = 0
        while True:
            number += 1
            if number % 50:
                jobs = [touch.enqueue(number)]
            elif number % 100:
                jobs = app.enqueue_many([touch.bind(number) for _ in range(100)])
            else:
                jobs = list(chain(touch.bind(number), touch.bind(), touch.bind()).enqueue().jobs)
            told.write("".join(f"{job.id}\n" for job in jobs))


if __name__ == "__main__":
    main(sys.argv[1])
