"""What a worker is called: where it runs, and something that no other has."""

from __future__ import annotations

import os
import secrets
import socket

from headrace.core.settings import Settings


def new_worker_id() -> str:
    host = "".join(char if char.isalnum() or char in "-_" else "-" for char in socket.gethostname())[:40]
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


def what_it_serves(settings: Settings) -> str:
    """How many jobs a worker runs at a time, of which queues, and what it has: in words."""
    queues, has = settings.queues, settings.capabilities
    told = "all queues" if queues is None else ", ".join(f"{name} ({weight})" for name, weight in queues.items())
    return f"concurrency {settings.concurrency}, {told}" + (f", has {', '.join(has)}" if has else "")
