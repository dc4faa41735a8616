"""Writes the clients in `clients/` from the OpenAPI document: `python -m docs.tools.clients`."""

from __future__ import annotations

from docs.tools.clients.files import write_clients

if __name__ == "__main__":
    write_clients()
