"""The server to connect to: that of the URL, the current master, or the cluster node with our slot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import redis
from redis import cluster, sentinel
from redis.backoff import NoBackoff
from redis.retry import Retry

from headrace.engines.redis.store_url import RedisUrl

End: TypeAlias = "dict[str, Any]"  # one end of a connection: host and port, or a path


class Connection(Protocol):
    """The part of a redis-py connection that we use. Its client would cost as much again as the round trip."""

    _sock: Any  # the only way to wait for a message and another event at once

    def connect(self) -> None: ...
    def disconnect(self) -> None: ...
    def can_read(self, timeout: float) -> bool: ...
    def pack_command(self, *args: str | bytes | int) -> list[bytes]: ...
    def send_packed_command(self, command: list[bytes]) -> None: ...
    def read_response(self) -> Any: ...


class Topology:
    """The address of the server with our jobs. It is resolved when needed, and again after each loss."""

    def __init__(self, address: RedisUrl, tag: str) -> None:
        self._address = address
        self._tag = tag
        self._options = _options(address) | (address.tls or {})
        self._end: End | None = None

    def connection(self) -> Connection:
        """A new connection, not yet open."""
        end = self._end
        if end is None:
            end = self._end = _FINDERS[self._address.kind](self._address, self._tag)
        kind: Any = redis.Connection if self._address.tls is None else redis.SSLConnection
        if self._address.kind == "socket":
            kind = redis.UnixDomainSocketConnection
        made: Connection = kind(**end, **self._options)
        return made

    def lost(self) -> None:
        """Forget the address: the server may have changed."""
        self._end = None


def _options(address: RedisUrl) -> dict[str, Any]:
    return {
        "db": address.db,
        "username": address.username,
        "password": address.password,
        "socket_timeout": address.timeout,
        "socket_connect_timeout": address.connect_timeout,
        "health_check_interval": 30,
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),  # RedisConnections alone decides on retries
    }


def _find_socket(address: RedisUrl, _: str) -> End:
    return {"path": address.path}


def _find_server(address: RedisUrl, _: str) -> End:
    host, port = address.hosts[0]
    return {"host": host, "port": port}


def _find_master(address: RedisUrl, _: str) -> End:
    options = _options(address) | {
        "db": 0,
        "username": address.sentinel_username,
        "password": address.sentinel_password,
        "socket_timeout": address.connect_timeout,
    }
    kind: Any = sentinel.Sentinel
    sentinels = kind(list(address.hosts), sentinel_kwargs=options | _tls(address))
    try:
        host, port = sentinels.discover_master(address.service)
        return {"host": str(host), "port": int(port)}
    finally:
        for client in sentinels.sentinels:
            client.close()


def _find_node(address: RedisUrl, tag: str) -> End:
    """The node of our slot. All our keys are in one slot, so a cluster is one server to us."""
    options = {name: value for name, value in _options(address).items() if name != "db"}
    kind: Any = cluster.RedisCluster
    node_kind: Any = cluster.ClusterNode
    starts = [node_kind(host, port) for host, port in address.hosts]
    client = kind(startup_nodes=starts, require_full_coverage=False, **options, **_tls(address))
    try:
        node = client.get_node_from_key(tag)
        return {"host": str(node.host), "port": int(node.port)}
    finally:
        client.close()


def _tls(address: RedisUrl) -> dict[str, Any]:
    return {} if address.tls is None else {"ssl": True, **address.tls}


_FINDERS: dict[str, Callable[[RedisUrl, str], End]] = {
    "socket": _find_socket,
    "server": _find_server,
    "sentinel": _find_master,
    "cluster": _find_node,
}
