"""Seals texts before they are stored, and opens them: AES-256-GCM under named keys, of which the first one seals.

A sealed text is a tag like others, {"$sealed": [key, nonce, ciphertext]}, so a store that holds JSON goes on holding
JSON. It is bound to what it is and whose it is: moved to another place, it does not open. The results that a sealed
call was promised stand beside it by their jobs' ids, where `promises` finds them.

This module knows neither where keys come from nor where texts go. What is bound to what, `runtime.sealing` says.
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

MARK = '{"$sealed"'  # how every sealed text begins, and no other: a user's own "$" is never written as a key
HOW = "a name, a colon and 32 bytes in base64, such as 2026a:$(openssl rand -base64 32)"
_KEY = re.compile(r"([A-Za-z0-9_.-]{1,40}):([A-Za-z0-9+/]{43}=?)")
_SALT, _NONCE = 16, 12
_OF_ONE_SALT = 65_536  # texts, more or less: threads don't wait for each other here
_KNOWN_SALTS = 1000


class _Encrypted(Struct, forbid_unknown_fields=True):
    content: tuple[str, str, str] = field(name="$sealed")
    promises: Any = None


_read = msgspec.json.Decoder(_Encrypted).decode


def complaint(keys: Sequence[str]) -> str | None:
    """What is wrong with these keys, without a word of what they are; None if nothing is."""
    found = [_KEY.fullmatch(key) for key in keys]
    for place, match in enumerate(found, 1):
        if match is None:
            return f"encryption_keys: number {place} is no key; write {HOW}"
    names = names_of(keys)
    if len({*names}) < len(names):
        return f"encryption_keys: two keys have the same name ({', '.join(names)}); give each its own"
    return None


def names_of(keys: Sequence[str]) -> list[str]:
    """What may be shown of keys."""
    return [key.partition(":")[0] for key in keys]


def key_of(text: str) -> str | None:
    """The name of the key that a text is sealed with; None if it is not sealed."""
    if not text.startswith(MARK):
        return None
    try:
        return _read(text).content[0]
    except msgspec.MsgspecError:
        return "?"


class Cipher:
    """The keys of an app at work."""

    def __init__(self, keys: Sequence[str]) -> None:
        wrong = complaint(keys)
        if wrong is not None or not keys:
            raise ConfigError(wrong or f"encryption_keys: give at least one; write {HOW}")
        try:
            # Deferred: an extra, and only those who have keys wait for it to load.
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
        # What is hashed must not be guessed by who has the store: a hash of few possible values tells which it was.
        self.hash_key = blake2b(b"hash", key=self._keys[self.key], digest_size=32).digest()

    def encrypted(self, text: str, what: str, whom: str) -> str:
        """The text, sealed as what it is and for whom."""
        salt, nonce = self._salt_now(), self._random(_NONCE)
        raw = self._cipher_of(self.key, salt).encrypt(nonce, text.encode("utf-8", "surrogatepass"), _place(what, whom))
        content = f'{MARK}:["{self.key}","{_as_text(salt + nonce)}","{_as_text(raw)}"]'
        promised = ids_in(text) if what == "call" else ()
        if not promised:
            return content + "}"
        listed = ",".join(f'{{"$result":"{job_id}"}}' for job_id in promised)
        return f'{content},"promises":[{listed}]}}'

    def opened(self, text: str, what: str, whom: str) -> str:
        """The text as it was; one that was stored in clear, as it is. CorruptPayload if it does not open."""
        if not text.startswith(MARK):
            return text
        try:
            name, nonce, content = _read(text).content
            head, raw = _as_bytes(nonce), _as_bytes(content)
        except (msgspec.MsgspecError, binascii.Error) as error:
            raise CorruptPayload(f"payload can't be read: its {what} is sealed, and damaged: {error}") from None
        if name not in self._keys:
            raise locked(name, [*self._keys])
        if len(head) != _SALT + _NONCE:
            raise CorruptPayload(f"payload can't be read: its {what} is sealed, and damaged: a nonce of {len(head)}")
        try:
            opened = self._cipher_of(name, head[:_SALT]).decrypt(head[_SALT:], raw, _place(what, whom))
        except self._invalid:
            raise CorruptPayload(
                f"payload can't be read: its {what} is encrypted with key {name!r} and does not open; it was changed, "
                f"or taken from another place, or another key has this name here"
            ) from None
        told: str = opened.decode("utf-8", "surrogatepass")
        return told

    def _salt_now(self) -> bytes:
        # Random nonces of 12 bytes are too few for one key: at thousands of jobs a second, it would have to be changed
        # every few days. So a named key is never used itself, but keys made of it and a salt, each for some time. A
        # counter in place of random nonces would be the same in a forked process, which must never happen.
        salt = self._salt
        if self._left <= 0:
            salt = self._salt = self._random(_SALT)
            self._left = _OF_ONE_SALT
        self._left -= 1
        return salt

    def _cipher_of(self, name: str, salt: bytes) -> Any:
        cipher = self._ciphers.get((name, salt))
        if cipher is None:
            if len(self._ciphers) >= _KNOWN_SALTS:
                self._ciphers.clear()
            derived = blake2b(salt, key=self._keys[name], digest_size=32, person=b"headrace seal").digest()
            cipher = self._ciphers[name, salt] = self._cipher(derived)
        return cipher

    def __repr__(self) -> str:
        return f"<Seal with {', '.join(self._keys)}>"


def opened(cipher: Cipher | None, text: str, what: str, whom: str) -> str:
    """The text as it was; CorruptPayload if it is sealed and there is nothing here to open it."""
    if cipher is not None:
        return cipher.opened(text, what, whom)
    if (key := key_of(text)) is not None:
        raise locked(key)
    return text


def locked(name: str, known: Sequence[str] = ()) -> CorruptPayload:
    """What to raise for a text whose key is not here."""
    here = f"there are only {', '.join(map(repr, known))}" if known else "there are none"
    return CorruptPayload(
        f"payload can't be read: it is encrypted with key {name!r}, and {here} here; add that key to "
        "encryption_keys again (HEADRACE_ENCRYPTION_KEYS), and retry the job"
    )


def _place(what: str, whom: str) -> bytes:
    return f"{what}\n{whom}".encode("utf-8", "surrogatepass")


def _as_text(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).decode()


def _as_bytes(text: str) -> bytes:
    return binascii.a2b_base64(text, strict_mode=True)
