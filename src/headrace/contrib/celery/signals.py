"""Celery's signals: functions that are called around the tasks of this process.

They run in the process and the thread of the task, in the order they were connected. An error in a receiver is logged
and does not change the job. For other processes use `@app.headrace.on("job.failed")`, which sees the events of all.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

log = logging.getLogger("headrace.celery")
Receiver = Callable[..., Any]


class Signal:
    """A signal with its receivers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.receivers: list[tuple[Any, Any, Receiver]] = []  # the id, the sender, the function

    def connect(self, *args: Any, sender: Any = None, dispatch_uid: Any = None, **_: Any) -> Any:
        """Connect a receiver: `@signal.connect`, `@signal.connect(sender=...)` or `signal.connect(function)`."""
        if args and callable(args[0]):
            return self._add(args[0], args[1] if len(args) > 1 else sender, dispatch_uid)
        return lambda receiver: self._add(receiver, sender, dispatch_uid)

    def _add(self, receiver: Receiver, sender: Any, uid: Any) -> Receiver:
        key = uid if uid is not None else (id(receiver), id(sender))
        if all(known != key for known, _, _ in self.receivers):
            self.receivers.append((key, sender, receiver))
        return receiver

    def disconnect(self, receiver: Receiver | None = None, sender: Any = None, dispatch_uid: Any = None) -> bool:
        """Remove a receiver; whether it was connected."""
        key = dispatch_uid if dispatch_uid is not None else (id(receiver), id(sender))
        before = len(self.receivers)
        self.receivers = [known for known in self.receivers if known[0] != key]
        return len(self.receivers) < before

    def send(self, sender: Any, **named: Any) -> list[tuple[Receiver, Any]]:
        """Call the receivers of this sender, each with its answer or its error."""
        answers: list[tuple[Receiver, Any]] = []
        for _, wanted, receiver in list(self.receivers):
            if wanted is None or wanted is sender or wanted == getattr(sender, "name", object()):
                try:
                    answers.append((receiver, receiver(signal=self, sender=sender, **named)))
                except Exception as error:
                    log.exception("a receiver of the signal %s raised", self.name)
                    answers.append((receiver, error))
        return answers

    def __repr__(self) -> str:
        return f"<Signal {self.name}>"


task_prerun = Signal("task_prerun")
task_postrun = Signal("task_postrun")
task_success = Signal("task_success")
task_failure = Signal("task_failure")
task_retry = Signal("task_retry")
worker_init = Signal("worker_init")
worker_process_init = Signal("worker_process_init")
worker_ready = Signal("worker_ready")
worker_shutdown = Signal("worker_shutdown")

_INSTEAD = {
    "before_task_publish": 'there is no message to change; use @app.headrace.on("job.enqueued")',
    "after_task_publish": 'use @app.headrace.on("job.enqueued")',
    "task_received": 'use @app.headrace.on("job.started")',
    "task_revoked": 'use @app.headrace.on("job.cancelled")',
    "task_rejected": 'use @app.headrace.on("dead.entered")',
    "task_unknown": "a worker never takes a job of an unknown task; `headrace doctor` names it",
    "task_internal_error": 'use @app.headrace.on("worker.error")',
    "beat_init": "there is no Beat: every worker fires schedules",
    "beat_embedded_init": "there is no Beat: every worker fires schedules",
    "celeryd_init": "use worker_ready",
    "celeryd_after_setup": "use worker_ready",
    "worker_process_shutdown": "use worker_shutdown",
    "worker_shutting_down": "use worker_shutdown",
    "heartbeat_sent": "there is no such message; use headrace.current_job().heartbeat()",
    "setup_logging": "headrace leaves logging that the app has set up as it is",
    "after_setup_logger": "headrace leaves logging that the app has set up as it is",
    "after_setup_task_logger": "headrace leaves logging that the app has set up as it is",
}

_lock = threading.Lock()
_begun_in: list[int] = []  # the process in which worker_process_init was sent


def begin_process(app: Any) -> None:
    """Send worker_init and worker_process_init before the first task of this process."""
    if _begun_in == [os.getpid()]:
        return
    with _lock:
        if _begun_in != [os.getpid()]:
            worker_init.send(app)
            worker_process_init.send(app)
            _begun_in[:] = [os.getpid()]


def __getattr__(name: str) -> Any:
    if name in _INSTEAD:
        raise AttributeError(f"Celery's signal {name} does not carry over: {_INSTEAD[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
