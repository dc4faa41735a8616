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
AuthMethod = Literal["local", "basic", "bearer", "session", "site"]


class Caller(Struct, frozen=True):
    """An authenticated caller. `method` shows whether a browser may have sent the credentials automatically."""

    name: str
    role: Role
    method: AuthMethod


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
        self.login_attempts = LoginAttempts()
        text = "\0".join(
            f"{credential.role}\0{credential.name}\0{credential.secret}" for credential in (*self._users, *self._tokens)
        )
        # Slow by intent: prevents guessing passwords offline against a cookie's signature.
        key = hashlib.scrypt(text.encode(), salt=b"headrace.web.session", n=2**14, r=8, p=1) if text else b""
        self._key = key or secrets.token_bytes(32)

    @property
    def has_credentials(self) -> bool:
        """Whether credentials are configured. Without any, only local clients are allowed."""
        return bool(self._users or self._tokens)

    def by_secret(self, name: str | None, secret: str, method: AuthMethod) -> Caller | None:
        """The caller with this name and password; without a name, with this token."""
        return _matching(self._tokens if name is None else self._users, name, secret, method)

    # -- sessions

    def session(self, caller: Caller, now: float) -> str:
        """The cookie of a new session."""
        payload = msgspec.json.encode(_Session(caller.name, caller.role, int(now) + SESSION_SECONDS))
        text = base64.urlsafe_b64encode(payload).decode()
        return f"{text}.{self._signed('session', text)}"

    def by_session(self, cookie: str, now: float) -> Caller | None:
        text, _, signature = cookie.partition(".")
        if not _equal(signature, self._signed("session", text)):
            return None
        session = _sessions.decode(base64.urlsafe_b64decode(text))
        return Caller(session.name, session.role, "session") if now < session.until else None

    def form_token(self, caller: Caller) -> str:
        """The anti-forgery token of forms."""
        return self._signed("form", f"{caller.method}\0{caller.name}")

    def is_form_token(self, caller: Caller, token: str) -> bool:
        return _equal(token, self.form_token(caller))

    def _signed(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}\0{text}".encode(), "sha256").hexdigest()


def credentials_in(authorization: str) -> tuple[str | None, str, AuthMethod]:
    """Name, secret and kind from an Authorization header; an unreadable header is a wrong token."""
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return None, rest.strip(), "bearer"
    try:
        name, _, password = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None, "", "basic"
    return (name, password, "basic") if scheme.lower() == "basic" else (None, "", "basic")


def _matching(known: tuple[Credential, ...], name: str | None, secret: str, method: AuthMethod) -> Caller | None:
    """Compares all credentials, so that timing does not reveal a near match."""
    found = None
    for credential in known:
        if _equal(secret, credential.secret) and (name is None or _equal(name, credential.name)):
            found = Caller(credential.name, credential.role, method)
    return found


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode("utf-8", "surrogatepass"))
