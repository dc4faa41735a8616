"""Connections to addresses that users have chosen: only to allowed networks.

The name is resolved once, and the connection uses the checked address: a name that resolves differently the next time
can't bypass the check. Imported only by senders, as http and TLS take memory.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import urllib.request
from collections.abc import Sequence
from typing import Any

from headrace.core.networks import may_reach


class NotAllowed(OSError):
    """The address is in no allowed network."""


def opener(scheme: str, host: str, networks: Sequence[str]) -> urllib.request.OpenerDirector:
    """An opener for one message. It follows no redirects.

    A proxy of the environment resolves names itself and decides where they may lead: then only a literal address is
    checked here. Made for each message: they are rare, and the environment may have changed.
    """
    made = urllib.request.OpenerDirector()
    if urllib.request.getproxies().get(scheme) and not urllib.request.proxy_bypass(host):
        _refuse_literal(host, networks)
        made.add_handler(urllib.request.ProxyHandler())
        made.add_handler(urllib.request.HTTPHandler())
        made.add_handler(urllib.request.HTTPSHandler())
    else:
        made.add_handler(_Plain(networks))
        made.add_handler(_Secured(networks))
    made.add_handler(urllib.request.HTTPErrorProcessor())
    made.add_handler(urllib.request.HTTPDefaultErrorHandler())
    return made


def _refuse_literal(host: str, networks: Sequence[str]) -> None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return
    _checked([address.compressed], networks)


class _Checked(http.client.HTTPConnection):
    """A connection to a checked address."""

    networks: Sequence[str] = ()

    def connect(self) -> None:
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        allowed = _checked([str(where[0]) for *_, where in found], self.networks)
        self.sock = _connected(allowed, self.port, self.timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _CheckedTLS(http.client.HTTPSConnection, _Checked):
    """The same with TLS, which verifies the name."""


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, networks: Sequence[str]) -> None:
        super().__init__()
        self._networks = networks

    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_maker(_Checked, self._networks), req)


class _Secured(urllib.request.HTTPSHandler):
    def __init__(self, networks: Sequence[str]) -> None:
        super().__init__()
        self._networks = networks

    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_maker(_CheckedTLS, self._networks), req)


def _maker(kind: type[_Checked], networks: Sequence[str]) -> Any:
    def make(*where: Any, **how: Any) -> _Checked:
        made = kind(*where, **how)
        made.networks = networks
        return made

    return make


def _checked(addresses: Sequence[str], networks: Sequence[str]) -> list[str]:
    """The allowed ones of these addresses, or NotAllowed."""
    found = list(dict.fromkeys(addresses))
    allowed = [one for one in found if may_reach(ipaddress.ip_address(one.partition("%")[0]), networks)]
    if not allowed:
        raise NotAllowed(f"{found[0]} is not on the public internet; allow its network with webhook_networks")
    return allowed


def _connected(addresses: Sequence[str], port: int, timeout: float | None) -> socket.socket:
    for address in addresses[:-1]:
        try:
            return socket.create_connection((address, port), timeout)
        except OSError:
            continue
    return socket.create_connection((addresses[-1], port), timeout)
