"""The version of the layout in Redis: initializes an empty store, migrates an older one, refuses a newer one."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from headrace.engines.redis.script_loader import load
from headrace.engines.shared.decisions import newer_layout, unreleased_layout

if TYPE_CHECKING:
    from headrace.engines.redis.connections import RedisConnections

MIGRATIONS = ("0001_initial",)
CURRENT = len(MIGRATIONS)
_open = load("maintenance/open_store")


def version_of(connections: RedisConnections) -> int:
    """The version of the store, 0 if it is empty."""
    return int(connections.command("GET", f"{{{connections.address.prefix}}}:version") or 0)


def open_store(connections: RedisConnections, where: str) -> tuple[int, str]:
    """Migrate the store to our version; the version it had, and the store's random name."""
    args = (CURRENT, secrets.token_hex(16))
    version, name = connections.run(_open, *args, repeat=args)
    if name is None:
        raise newer_layout(where, version, CURRENT) if version else unreleased_layout(where, "a new prefix")
    return version, name.decode()


def names_since(version: int) -> list[str]:
    """The migrations that a store of this version lacks."""
    return list(MIGRATIONS[version:])
