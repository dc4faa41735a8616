"""Functions that tests run in a process of their own, which has to import them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from headrace import CancelJob, Headrace, JobInterrupted, LeaseLost, PermanentError, RetryLater, Snooze, current_job


def pid() -> int:
    return os.getpid()


async def async_pid() -> int:
    await asyncio.sleep(0)
    return os.getpid()


def sleep_for_ever(started: str) -> None:
    Path(started).write_text(str(os.getpid()))
    while True:
        time.sleep(60)


def ignore_everything_for_ever(started: str) -> None:
    """As stubborn as code can be."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    Path(started).write_text(str(os.getpid()))
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(60)


def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def speak(word: str) -> None:
    print("prints", word)
    logging.getLogger("shop").error("logs %s", word)


async def aspeak(word: str) -> None:
    print("prints", word, end="")
    await asyncio.sleep(0)
    print()
    logging.getLogger("shop").error("logs %s", word)


def refuse(card: str, pin: str) -> None:
    raise PermanentError(f"no money on {card} with {pin}")


def leave(code: int) -> None:
    sys.exit(code)


def die_later(file: str) -> int:
    """Answers, and leaves behind a child process that kills this one afterwards."""
    parent = os.getpid()
    if os.fork() == 0:
        while not Path(file).exists():
            time.sleep(0.005)
        os.kill(parent, signal.SIGKILL)
        os._exit(0)
    return parent


def fork_and_return(number: int) -> int:
    """Comes back twice: in the process of the job, and in a copy of it."""
    return number if os.fork() else -number


def leave_a_child_behind(file: str) -> None:
    """Forks a child that never ends, and does not end either."""
    if os.fork() == 0:
        Path(file).write_text(str(os.getpid()))
    time.sleep(3600)


def steer(how: str) -> None:
    raise {
        "snooze": Snooze(3600, "not now"),
        "later": RetryLater("busy", delay=3600),
        "cancel": CancelJob("no longer wanted \ud800"),
        "permanent": PermanentError("broken"),
        "error": OSError("away"),
        "timeout": TimeoutError("the server did not answer"),
    }[how]


def report() -> dict[str, Any]:
    ctx = current_job()
    ctx.progress({"step": 1})
    ctx.log("hello from the sandbox", level="warning", pid=os.getpid())
    ctx.heartbeat()
    return {"id": ctx.id, "attempt": ctx.attempt, "deadline": ctx.deadline, "metadata": dict(ctx.metadata)}


def unstorable() -> Any:
    return sys


def noisy() -> str:
    print("to stdout")
    print("to stderr", file=sys.stderr)
    return "quiet"


def fork_and_die(path: str) -> None:
    """Leaves a child behind that holds whatever this process held, and dies."""
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    Path(path).write_text(str(child))
    os.kill(os.getpid(), 9)


def in_steps(folder: str) -> list[Any]:
    """Two steps, a sleep and an event; each step leaves a line, and the process dies once between them."""
    job = current_job()

    def done(name: str) -> str:
        with Path(folder, "done").open("a") as file:
            file.write(f"{name}\n")
        return name

    first = job.step("first", done, "first")
    if job.attempt == 1:
        crash()
    job.sleep(0.02)
    return [first, job.step("second", done, "second"), job.wait_event("go", timeout=60)]


async def async_in_steps() -> Any:
    await current_job().asleep(0.01)
    return await current_job().astep("pid", async_pid)


def lingering_step(folder: str) -> str:
    """Ends, and leaves a thread behind that does a step when the next job runs in this process."""
    job = current_job()

    def linger() -> None:
        while not Path(folder, "go").exists():
            time.sleep(0.005)
        try:
            job.step("late", lambda: "late")
        except LeaseLost:
            Path(folder, "refused").touch()

    threading.Thread(target=linger, daemon=True).start()
    return "ended"


def let_go(folder: str) -> None:
    Path(folder, "go").touch()
    while not Path(folder, "refused").exists():
        time.sleep(0.005)


# -- tasks of an app, which a sandbox finds by the names of this module

family = Headrace("memory://")


@family.task
def grown(number: int) -> int:
    return number + 1


@family.task(isolation="process")
def spawning(number: int) -> str:
    first = current_job().spawn(grown.bind(number))
    return current_job().spawn(grown.bind(first)).id


@family.task(isolation="process", retry=0)
def spawning_at_once() -> None:
    current_job().spawn(grown.bind(1), at_once=True)


def chatter(count: int) -> None:
    for _ in range(count):
        current_job().stream("x" * 300)


def sleep_and_clean_up(started: str, cleaned: str) -> None:
    try:
        Path(started).touch()
        time.sleep(60)
    finally:
        Path(cleaned).write_text(str(current_job().cancel_reason))


async def asleep_and_clean_up(started: str, cleaned: str) -> None:
    try:
        Path(started).touch()
        await asyncio.sleep(60)
    finally:
        Path(cleaned).write_text(str(current_job().cancel_reason))


def return_what_there_is() -> str:
    try:
        time.sleep(60)
    except JobInterrupted:
        return "partial"
    return "all"


def report_until_interrupted() -> None:
    number = 0
    while True:
        number += 1
        current_job().log(f"line {number}")
        current_job().step(f"step {number}", int)


def return_after(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def report_thirty() -> None:
    """Reports more than its budget has."""
    current_job().report_cost(30)
