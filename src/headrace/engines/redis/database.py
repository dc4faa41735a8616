"""What the parts of the Redis engine see of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.engines.redis.connections import RedisConnections
    from headrace.engines.redis.damaged_records import Damaged


class RedisDatabase(Protocol):
    """A store in Redis, and the connections to it.

    Every key begins with the prefix in braces: so all of them are in one hash slot of a cluster.
    """

    connections: RedisConnections
    prefix: str
    damaged: Damaged

    def prepare(self) -> None:
        """Check, once, that the store exists and has our version. To be called before every operation."""
        ...

    def at(self, now: int | None) -> int:
        """The given time, or the store's."""
        ...
