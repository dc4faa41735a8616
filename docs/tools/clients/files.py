"""The generated clients by their files. A test compares; it never writes."""

from __future__ import annotations

import sys
from pathlib import Path

from docs.tools.clients.document import read_api
from docs.tools.clients.python import python_client
from docs.tools.clients.typescript import typescript_client
from docs.tools.page import ROOT

PYTHON = ROOT / "clients" / "python" / "headrace_client.py"
TYPESCRIPT = ROOT / "clients" / "typescript" / "headrace.ts"


def clients() -> dict[Path, str]:
    """The text that each file should have now."""
    api = read_api()
    return {PYTHON: python_client(api), TYPESCRIPT: typescript_client(api)}


def write_clients() -> None:
    """Write the files that are out of date."""
    for path, wanted in clients().items():
        if not path.exists() or path.read_text("utf-8") != wanted:
            path.write_text(wanted, "utf-8")
            sys.stdout.write(f"{path.name} written\n")
