"""Where a connection leads: to the server of the URL, to whoever is the master now, or to the node with our slot.

It is asked anew for each connection, so a failover or a move needs nothing but that the old connections are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from headrace.engines.redis.address import Address

Route: TypeAlias = "Callable[[], Connection]"
Find: TypeAlias = "Callable[[], tuple[str, int]]"


class Connection(Protocol):
    """What we use of a connection of redis-py. Its client above would cost as much again as the round trip."""

    def connect(self) -> None: ...
    def disconnect(self) -> None: ...
    def can_read(self, timeout: float) -> bool: ...
    def pack_command(self, *args: str | bytes | int) -> list[bytes]: ...
    def send_packed_command(self, command: list[bytes]) -> None: ...
    def read_response(self) -> Any: ...


def route_of(address: Address, tag: str) -> Route:
    """Makes connections, not yet open, to where the address leads now."""
    options = _options(address)
    if address.kind == "socket":
        socket: Any = redis.UnixDomainSocketConnection
        return lambda: _typed(socket(path=address.path, **options))
    kind: Any = redis.Connection if address.tls is None else redis.SSLConnection
    options |= address.tls or {}
    find = _FINDERS[address.kind](address, tag)

    def make() -> Connection:
        host, port = find()
        return _typed(kind(host=host, port=port, **options))

    return make


def _options(address: Address) -> dict[str, Any]:
    return {
        "db": address.db,
        "username": address.username,
        "password": address.password,
        "socket_timeout": address.timeout,
        "socket_connect_timeout": address.connect_timeout,
        "health_check_interval": 30,
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),  # what is tried again, and when, is decided in one place
    }


def _typed(connection: Any) -> Connection:
    made: Connection = connection
    return made


def _the_server(address: Address, _: str) -> Find:
    return lambda: address.hosts[0]


def _the_master(address: Address, _: str) -> Find:
    from redis import sentinel

    sentinels: Any = sentinel.Sentinel
    options = _options(address) | {
        "db": 0,
        "username": address.sentinel_username,
        "password": address.sentinel_password,
        "socket_timeout": address.connect_timeout,
    }

    def find() -> tuple[str, int]:
        watchers = sentinels(list(address.hosts), sentinel_kwargs=options | _tls(address))
        try:
            host, port = watchers.discover_master(address.service)
            return str(host), int(port)
        finally:
            for client in watchers.sentinels:
                client.close()

    return find


def _the_node(address: Address, tag: str) -> Find:
    """Every key of ours is in one slot, so a cluster is one server to us."""
    from redis import cluster

    clusters, nodes = (cluster.RedisCluster, cluster.ClusterNode)  # type: tuple[Any, Any]
    options = {name: value for name, value in _options(address).items() if name != "db"}

    def find() -> tuple[str, int]:
        starts = [nodes(host, port) for host, port in address.hosts]
        client = clusters(startup_nodes=starts, require_full_coverage=False, **options, **_tls(address))
        try:
            node = client.get_node_from_key(tag)
            return str(node.host), int(node.port)
        finally:
            client.close()

    return find


def _tls(address: Address) -> dict[str, Any]:
    return {} if address.tls is None else {"ssl": True, **address.tls}


_FINDERS: dict[str, Callable[[Address, str], Find]] = {
    "server": _the_server,
    "sentinel": _the_master,
    "cluster": _the_node,
}
