"""Encrypts texts before they are stored, and decrypts them: AES-256-GCM with named keys; the first one encrypts.

An encrypted text is a tag like others, {"$sealed": [key, nonce, ciphertext]}, so a store of JSON still holds JSON. It
is bound to its purpose and its owner: moved elsewhere, it does not decrypt. The result references of an encrypted call
stand beside it by their jobs' ids, where `result_refs` finds them.

This module knows neither where keys come from nor where texts go. `runtime.jobs.encryption` defines the bindings.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct, field

from headrace.core.codec.result_refs import ids_in
from headrace.errors import ConfigError, CorruptPayload

MARK = '{"$sealed"'  # how every encrypted text begins, and no other: a user's own "$" is never written as a key
KEY_FORMAT = "a name, a colon and 32 bytes in base64, such as 2026a:$(openssl rand -base64 32)"
_KEY = re.compile(r"([A-Za-z0-9_.-]{1,40}):([A-Za-z0-9+/]{43}=?)")
_SALT, _NONCE = 16, 12
_TEXTS_PER_SALT = 65_536  # texts, more or less: threads don't wait for each other here
_MAX_CACHED_SALTS = 1000


class _Encrypted(Struct, forbid_unknown_fields=True):
    content: tuple[str, str, str] = field(name="$sealed")
    promises: Any = None


_read = msgspec.json.Decoder(_Encrypted).decode


def find_error(keys: Sequence[str]) -> str | None:
    """The error in these keys, without any part of them; None if there is none."""
    matches = [_KEY.fullmatch(key) for key in keys]
    for number, match in enumerate(matches, 1):
        if match is None:
            return f"encryption_keys: number {number} is no key; write {KEY_FORMAT}"
    names = names_of(keys)
    if len({*names}) < len(names):
        return f"encryption_keys: two keys have the same name ({', '.join(names)}); give each its own"
    return None


def names_of(keys: Sequence[str]) -> list[str]:
    """The names of keys, which may be shown."""
    return [key.partition(":")[0] for key in keys]


def key_of(text: str) -> str | None:
    """The name of the key that a text is encrypted with; None if it is not encrypted."""
    if not text.startswith(MARK):
        return None
    try:
        return _read(text).content[0]
    except (msgspec.MsgspecError, RecursionError):
        return "?"


class Cipher:
    """The keys of an app in use."""

    def __init__(self, keys: Sequence[str]) -> None:
        error = find_error(keys)
        if error is not None or not keys:
            raise ConfigError(error or f"encryption_keys: give at least one; write {KEY_FORMAT}")
        try:
            # Deferred: an extra, and only apps with keys wait for it to load.
            from secrets import token_bytes

            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise ConfigError(
                f"encryption_keys: they need the package cryptography ({error}); "
                "install it: pip install 'headrace[crypto]'"
            ) from None
        self._random = token_bytes
        self._salt, self._left = b"", 0
        self._ciphers: dict[tuple[str, bytes], Any] = {}
        self._cipher = AESGCM
        self._invalid = InvalidTag
        parts = [key.split(":", 1) for key in keys]
        self._keys = {name: binascii.a2b_base64(secret + "=" * (-len(secret) % 4)) for name, secret in parts}
        self.key = parts[0][0]
        # A plain hash of few possible values reveals which one it was to a reader of the store.
        self.hash_key = blake2b(b"hash", key=self._keys[self.key], digest_size=32).digest()

    def encrypted(self, text: str, purpose: str, owner: str) -> str:
        """The text, encrypted for this purpose and owner."""
        salt, nonce = self._salt_now(), self._random(_NONCE)
        raw = self._cipher_of(self.key, salt).encrypt(
            nonce, text.encode("utf-8", "surrogatepass"), _associated_data(purpose, owner)
        )
        content = f'{MARK}:["{self.key}","{_as_text(salt + nonce)}","{_as_text(raw)}"]'
        refs = ids_in(text) if purpose == "call" else ()
        if not refs:
            return content + "}"
        listed = ",".join(f'{{"$result":"{job_id}"}}' for job_id in refs)
        return f'{content},"promises":[{listed}]}}'

    def decrypted(self, text: str, purpose: str, owner: str) -> str:
        """The decrypted text; a plain one as it is. CorruptPayload if it does not decrypt."""
        if not text.startswith(MARK):
            return text
        try:
            name, nonce, content = _read(text).content
            head, raw = _as_bytes(nonce), _as_bytes(content)
        except (msgspec.MsgspecError, RecursionError, binascii.Error) as error:
            raise CorruptPayload(f"payload can't be read: its {purpose} is encrypted, and damaged: {error}") from None
        if name not in self._keys:
            raise locked(name, [*self._keys])
        if len(head) != _SALT + _NONCE:
            raise CorruptPayload(
                f"payload can't be read: its {purpose} is encrypted, and damaged: a nonce of {len(head)}"
            )
        try:
            decrypted = self._cipher_of(name, head[:_SALT]).decrypt(head[_SALT:], raw, _associated_data(purpose, owner))
        except self._invalid:
            raise CorruptPayload(
                f"payload can't be read: its {purpose} is encrypted with key {name!r} and does not open; "
                f"it was changed, or taken from another place, or another key has this name here"
            ) from None
        plain: str = decrypted.decode("utf-8", "surrogatepass")
        return plain

    def _salt_now(self) -> bytes:
        # Random nonces of 12 bytes are too few for one key: at thousands of jobs a second, a key would last a few days.
        # So keys derived from the named key and a salt encrypt, each for some time. A counter in place of random nonces
        # would repeat in a forked process, which must never happen.
        salt = self._salt
        if self._left <= 0:
            salt = self._salt = self._random(_SALT)
            self._left = _TEXTS_PER_SALT
        self._left -= 1
        return salt

    def _cipher_of(self, name: str, salt: bytes) -> Any:
        cipher = self._ciphers.get((name, salt))
        if cipher is None:
            if len(self._ciphers) >= _MAX_CACHED_SALTS:
                self._ciphers.clear()
            derived = blake2b(salt, key=self._keys[name], digest_size=32, person=b"headrace seal").digest()
            cipher = self._ciphers[name, salt] = self._cipher(derived)
        return cipher

    def __repr__(self) -> str:
        return f"<Cipher with {', '.join(self._keys)}>"


def decrypted(cipher: Cipher | None, text: str, purpose: str, owner: str) -> str:
    """The decrypted text; CorruptPayload if it is encrypted and there is no key here."""
    if cipher is not None:
        return cipher.decrypted(text, purpose, owner)
    if (key := key_of(text)) is not None:
        raise locked(key)
    return text


def locked(name: str, known: Sequence[str] = ()) -> CorruptPayload:
    """The error for a text whose key is not here."""
    available = f"there are only {', '.join(map(repr, known))}" if known else "there are none"
    return CorruptPayload(
        f"payload can't be read: it is encrypted with key {name!r}, and {available} here; add that key to "
        "encryption_keys again (HEADRACE_ENCRYPTION_KEYS), and retry the job"
    )


def _associated_data(purpose: str, owner: str) -> bytes:
    return f"{purpose}\n{owner}".encode("utf-8", "surrogatepass")


def _as_text(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).decode()


def _as_bytes(text: str) -> bytes:
    return binascii.a2b_base64(text, strict_mode=True)
