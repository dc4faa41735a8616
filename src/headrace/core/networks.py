"""Lists of networks in settings: membership, and the public internet."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

ANY = "any"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def find_error(name: str, networks: Iterable[str]) -> str | None:
    """The error in the setting of this name; None if there is none."""
    for text in networks:
        try:
            _ = text == ANY or ipaddress.ip_network(text)
        except ValueError as error:
            return f"{name}: {error}; write networks such as 10.0.0.0/8, or {ANY}"
    return None


def is_in(address: Address, networks: Iterable[str]) -> bool:
    """Whether the address is in one of these."""
    return any(text == ANY or address in ipaddress.ip_network(text) for text in networks)


def may_reach(address: Address, networks: Iterable[str]) -> bool:
    """Whether a message may be sent there: on the public internet, or in one of these networks."""
    effective = _effective(address)
    return (effective.is_global and not effective.is_multicast) or is_in(effective, networks)


def _effective(address: Address) -> Address:
    """The IPv4 address that an IPv6 address maps to, if it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address
