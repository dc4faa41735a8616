"""Authentication by password, token or session cookie, or by being a local client.

Independent of requests. A session is a signed cookie without server state: its key derives from the credentials, so it
is valid in every process with the same ones, and ends when they change.
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
    """An authenticated caller. `how` shows whether a browser may have sent the credentials automatically."""

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
    """Checks passwords, tokens and sessions."""

    def __init__(self, users: Iterable[Credential], tokens: Iterable[Credential]) -> None:
        self._users = tuple(users)
        self._tokens = tuple(tokens)
        self.tries = LoginAttempts()
        told = "\0".join(f"{known.role}\0{known.name}\0{known.secret}" for known in (*self._users, *self._tokens))
        # Slow by intent: prevents guessing passwords offline against a cookie's signature.
        key = hashlib.scrypt(told.encode(), salt=b"headrace.web.session", n=2**14, r=8, p=1) if told else b""
        self._key = key or secrets.token_bytes(32)

    @property
    def has_credentials(self) -> bool:
        """Whether credentials are configured. Without any, only local clients are allowed."""
        return bool(self._users or self._tokens)

    def by_secret(self, name: str | None, secret: str, how: How) -> Caller | None:
        """The caller with this name and password; without a name, with this token."""
        return _matching(self._tokens if name is None else self._users, name, secret, how)

    # -- sessions

    def session(self, caller: Caller, now: float) -> str:
        """The cookie of a new session."""
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
        """The anti-forgery token of forms."""
        return self._signed("form", f"{caller.how}\0{caller.name}")

    def is_form_token(self, caller: Caller, token: str) -> bool:
        return _same(token, self.form_token(caller))

    def _signed(self, what: str, text: str) -> str:
        return hmac.new(self._key, f"{what}\0{text}".encode(), "sha256").hexdigest()


def credentials_in(authorization: str) -> tuple[str | None, str, How]:
    """Name, secret and kind from an Authorization header; an unreadable header is a wrong token."""
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return None, rest.strip(), "bearer"
    try:
        name, _, password = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None, "", "basic"
    return (name, password, "basic") if scheme.lower() == "basic" else (None, "", "basic")


def _matching(known: tuple[Credential, ...], name: str | None, secret: str, how: How) -> Caller | None:
    """Compares all credentials, so that timing does not reveal a near match."""
    found = None
    for one in known:
        if _same(secret, one.secret) and (name is None or _same(name, one.name)):
            found = Caller(one.name, one.role, how)
    return found


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode("utf-8", "surrogatepass"))
