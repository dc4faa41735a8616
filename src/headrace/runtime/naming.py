"""What a worker is called: where it runs, and something that no other has."""

from __future__ import annotations

import os
import secrets
import socket


def new_worker_id() -> str:
    host = "".join(char if char.isalnum() or char in "-_" else "-" for char in socket.gethostname())[:40]
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"
