"""The version of the layout in Redis: initializes an empty store, migrates an older one, refuses a newer one."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from headrace.core.damaged_records import read_or
from headrace.engines.redis.script_loader import load
from headrace.engines.shared.decisions import newer_layout, unreleased_layout
from headrace.errors import SchemaMismatch

if TYPE_CHECKING:
    from headrace.engines.redis.connections import RedisConnections

MIGRATIONS = ("0001_initial",)
CURRENT = len(MIGRATIONS)
DAMAGED = -1
_open = load("maintenance/open_store")


def _key(connections: RedisConnections) -> str:
    return f"{{{connections.address.prefix}}}:version"


def version_of(connections: RedisConnections) -> int:
    """The version of the store, 0 if it is empty, DAMAGED if it is no number."""
    found = connections.command("GET", _key(connections))
    return 0 if found is None else read_or(int, found, DAMAGED)


def open_store(connections: RedisConnections, where: str) -> tuple[int, str]:
    """Migrate the store to our version; the version it had, and the store's random name."""
    args = (CURRENT, secrets.token_hex(16))
    version, name = connections.run(_open, *args, repeat=args)
    if version == DAMAGED:
        raise SchemaMismatch(
            f"{where}: the key {_key(connections)} is damaged; it should be the version of the layout. If this "
            f"headrace has used the store before, set it to {CURRENT}; nothing was changed."
        )
    if name is None:
        raise newer_layout(where, version, CURRENT) if version else unreleased_layout(where, "a new prefix")
    return version, name.decode()


def names_since(version: int) -> list[str]:
    """The migrations that a store of this version lacks."""
    return list(MIGRATIONS[version:])
