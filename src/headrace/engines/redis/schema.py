"""The version of the layout in Redis: initializes an empty store, migrates an older one, refuses a newer one."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from headrace.engines.redis.script_loader import load
from headrace.errors import SchemaMismatch

if TYPE_CHECKING:
    from headrace.engines.redis.connections import RedisConnections

MIGRATIONS = ("0001_foundation",)
CURRENT = len(MIGRATIONS)
_open = load("maintenance/open_store")


def version_of(connections: RedisConnections) -> int:
    """The version of the store, 0 if it is empty."""
    return int(connections.ask("GET", f"{{{connections.address.prefix}}}:schema") or 0)


def open_store(connections: RedisConnections, where: str) -> tuple[int, str]:
    """Migrate the store to our version; the version it had, and the store's random name."""
    args = (CURRENT, secrets.token_hex(16))
    version, name = connections.run(_open, *args, repeat=args)
    if name is None:
        raise SchemaMismatch(
            f"{where} has a layout of version {version}, written by a newer headrace; this one knows up to "
            f"{CURRENT}. Upgrade headrace here; nothing was changed."
        )
    return version, name.decode()


def names_since(version: int) -> list[str]:
    """The migrations that a store of this version lacks."""
    return list(MIGRATIONS[version:])
