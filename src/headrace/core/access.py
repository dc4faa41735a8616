"""Roles and credentials for HTTP, as written in a setting. Pure.

A credential is `[ROLE=][NAME:]SECRET`: "ann:s3cret" is Ann, an admin; "viewer=grafana:5f2a" may only read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from msgspec import Struct

from headrace.errors import ConfigError

Role = Literal["viewer", "worker", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
_GRANTS: dict[Role, frozenset[Role]] = {
    "viewer": frozenset({"viewer"}),
    "worker": frozenset({"worker"}),
    "admin": frozenset(ROLES),
}
_MIN_SECRET_CHARS = 4


def grants(held: Role, needed: Role) -> bool:
    """Whether the held role includes the needed one."""
    return needed in _GRANTS[held]


class Credential(Struct, frozen=True):
    """One user with a role and a secret."""

    name: str
    secret: str
    role: Role

    def __str__(self) -> str:
        return f"{self.role}={self.name}:***"

    __repr__ = __str__


def credentials(setting: str, texts: Iterable[str], *, named: bool) -> tuple[Credential, ...]:
    """The credentials of a setting, or ConfigError that shows no secret. With `named`, each must have a name."""
    parsed = []
    for number, text in enumerate(texts, 1):
        role, rest = _role_of(text)
        name, colon, secret = rest.partition(":")
        if not colon and not named:
            name, secret = f"token {number}", rest
        if not name or len(secret) < _MIN_SECRET_CHARS:
            form = "[ROLE=]USER:PASSWORD" if named else "[ROLE=][NAME:]TOKEN"
            raise ConfigError(
                f"{setting}: its entry {number} should look like {form}, with a secret of at least {_MIN_SECRET_CHARS} "
                f"characters; a role is one of {', '.join(ROLES)}"
            )
        parsed.append(Credential(name, secret, role))
    return tuple(parsed)


def _role_of(text: str) -> tuple[Role, str]:
    prefix, equals, rest = text.partition("=")
    role = next((role for role in ROLES if equals and role == prefix), None)
    return ("admin", text) if role is None else (role, rest)
