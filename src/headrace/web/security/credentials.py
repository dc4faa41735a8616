"""Who somebody is: by password, token or session cookie; and on a machine of one's own, by being there.

A door knows credentials and nothing of requests. A session is a signed cookie and is kept nowhere: its key is made of
the credentials, so it holds in every process that has the same ones, and ends when they change.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct

from headrace.core.access import Credential, Role
from headrace.web.security.rate_limit import LoginAttempts

SESSION_SECONDS = 12 * 3600
How = Literal["local", "basic", "bearer", "session"]


class Caller(Struct, frozen=True):
    """Somebody who was let in. `how` tells whether a browser may have sent the credentials by itself."""

    name: str
    role: Role
    how: How


class _Session(Struct, frozen=True, array_like=True):
    name: str
    role: Role
    until: int


LOCAL = Caller("local", "admin", "local")
_sessions = msgspec.json.Decoder(_Session)


class Credentials:
    """Knows users with passwords and holders of tokens."""

    def __init__(self, users: Iterable[Credential], tokens: Iterable[Credential]) -> None:
        self._users = tuple(users)
        self._tokens = tuple(tokens)
        self.tries = LoginAttempts()
        told = "\0".join(f"{known.role}\0{known.name}\0{known.secret}" for known in (*self._users, *self._tokens))
        # Slow by intent: who has a cookie must not be able to try passwords against its signature.
        key = hashlib.scrypt(told.encode(), salt=b"headrace.web.session", n=2**14, r=8, p=1) if told else b""
        self._key = key or secrets.token_bytes(32)

    @property
    def has_credentials(self) -> bool:
        """Whether anybody can prove who they are. Without, only who is on this very machine comes in."""
        return bool(self._users or self._tokens)

    def by_secret(self, name: str | None, secret: str, how: How) -> Caller | None:
        """Who has this name and this password; without a name, who has this token."""
        return _matching(self._tokens if name is None else self._users, name, secret, how)

    # -- sessions

    def session(self, caller: Caller, now: float) -> str:
        """The cookie of a session that begins now."""
        told = msgspec.json.encode(_Session(caller.name, caller.role, int(now) + SESSION_SECONDS))
        text = base64.urlsafe_b64encode(told).decode()
        return f"{text}.{self._signed('session', text)}"

    def by_session(self, cookie: str, now: float) -> Caller | None:
        text, _, signature = cookie.partition(".")
        if not _same(signature, self._signed("session", text)):
            return None
        known = _sessions.decode(base64.urlsafe_b64decode(text))
        return Caller(known.name, known.role, "session") if now < known.until else None

    def form_token(self, caller: Caller) -> str:
        """What a form of ours carries, to tell it from one that somebody else's page has sent in the same name."""
        return self._signed("form", f"{caller.how}\0{caller.name}")

    def is_form_token(self, caller: Caller, token: str) -> bool:
        return _same(token, self.form_token(caller))

    def _signed(self, what: str, text: str) -> str:
        return hmac.new(self._key, f"{what}\0{text}".encode(), "sha256").hexdigest()


def credentials_in(authorization: str) -> tuple[str | None, str, How]:
    """The name, the secret and the way that an Authorization header tells; what can't be read is a token, and wrong."""
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return None, rest.strip(), "bearer"
    try:
        name, _, password = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None, "", "basic"
    return (name, password, "basic") if scheme.lower() == "basic" else (None, "", "basic")


def _matching(known: tuple[Credential, ...], name: str | None, secret: str, how: How) -> Caller | None:
    """Every credential is compared, so that the time taken does not tell which of them was nearly right."""
    found = None
    for one in known:
        if _same(secret, one.secret) and (name is None or _same(name, one.name)):
            found = Caller(one.name, one.role, how)
    return found


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode("utf-8", "surrogatepass"))
