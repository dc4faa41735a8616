"""A module of tasks as one writes it for Celery, with another import."""

from __future__ import annotations

import threading
import time

from headrace.contrib.celery import Celery, SoftTimeLimitExceeded, Task

app = Celery("shop", broker="memory://")
gate = threading.Event()
reported = threading.Event()


@app.task(bind=True)
def import_rows(self: Task, count: int) -> int:
    self.update_state(state="IMPORT", meta={"done": 2})
    reported.set()
    gate.wait(30)
    return count


@app.task(soft_time_limit=0.2, time_limit=20)
def patient() -> str:
    try:
        time.sleep(15)
    except SoftTimeLimitExceeded:
        return "cleaned up"
    return "slept"


@app.task(time_limit=0.5)
def stubborn() -> None:
    time.sleep(15)
