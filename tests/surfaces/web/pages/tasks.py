"""Tasks for the dashboard's tests. They wait for events that a test sets, and never for a time."""

from __future__ import annotations

import threading
from typing import Any

from headrace import Headrace, PermanentError, Retry, current_job

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def register(app: Headrace) -> dict[str, Any]:
    gate = threading.Event()

    @app.task(name="add", queue="sums")
    def add(a: int, b: int) -> int:
        return a + b

    @app.task(name="refuse", queue="orders")
    def refuse(order: int) -> None:
        raise PermanentError(f"order {order} has no address")

    @app.task(name="stumble", queue="orders", retry=Retry(limit=3, backoff="fixed", base=3600))
    def stumble() -> None:
        raise ConnectionError("the line was busy")

    @app.task(name="hold", queue="slow")
    def hold(text: str = "") -> str:
        """Runs until the test lets it go."""
        job = current_job()
        job.progress(0.25)
        job.log("has begun", step=1)
        while not gate.wait(0.05) and not job.cancel_requested:
            pass
        return text

    @app.task(name="chat", queue="slow")
    def chat(lines: int) -> None:
        """Logs some lines, and one more when the test lets it go."""
        for line in range(lines):
            current_job().log(f"line {line}")
        gate.wait(20)
        current_job().log("the last line")

    @app.task(name="sign", queue="sums", redact=("password",))
    def sign(user: str, password: str) -> str:
        return f"{user}:{len(password)}"

    return {
        "add": add,
        "refuse": refuse,
        "stumble": stumble,
        "hold": hold,
        "sign": sign,
        "chat": chat,
        "gate": gate,
    }


def populate(app: Headrace, tasks: dict[str, Any]) -> dict[str, str]:
    """Jobs in every state, with hostile texts; returns ids by state."""
    add, refuse = tasks["add"], tasks["refuse"]
    done = [add.enqueue(n, 1) for n in range(3)]
    failed = refuse.enqueue(7)
    hostile = app.task_by_name("refuse").using(tags=(HOSTILE,), metadata={HOSTILE: HOSTILE}).enqueue(9)
    retrying = tasks["stumble"].enqueue()
    with app.worker(concurrency=2, queues=["sums", "orders"]):
        for job in (*done, failed, hostile):
            job.wait(10)
        while retrying.refresh().state != "retrying":
            pass
    cancelled = add.enqueue(1, 1)
    cancelled.cancel()
    later = add.using(delay=3600, priority=5).enqueue(2, 2)
    parent = add.using(delay=3600).enqueue(3, 3)
    waiting = add.using(after=[parent]).enqueue(4, 4)
    pending = app.task_by_name(HOSTILE[:60].replace(" ", "")).using(queue="strange").enqueue(HOSTILE)
    return {
        "completed": done[0].id,
        "failed": failed.id,
        "hostile": hostile.id,
        "retrying": retrying.id,
        "cancelled": cancelled.id,
        "scheduled": later.id,
        "waiting": waiting.id,
        "pending": pending.id,
    }
