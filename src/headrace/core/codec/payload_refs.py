"""References to payloads: what a job holds in place of a call or a result that is in the payload store.

A reference is a tag like others, {"$stored": [path, size, sha256]}, so a store of JSON still holds JSON; a user's own
"$" is never written as a key. It says what is stored there, so a reader notices another file. The result references of
a call stand beside it by their jobs' ids, in `promises`, where `result_refs` finds and fills them.

This module knows neither stores nor ciphers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from headrace.core.codec.result_refs import MARK as RESULT_MARK
from headrace.core.codec.result_refs import filled, ids_in
from headrace.errors import CorruptPayload

NOT_SET = "payload_store is not set here: set it (HEADRACE_PAYLOAD_STORE), and retry the job"
What = Literal["call", "result"]
MARK = '{"$stored"'  # how every reference begins, and nothing else
_SLASH = "~"  # in place of a slash, which ids may have and file names may not
_PATH = r"[0-9a-f]{12}/[0-9]{10}/[A-Za-z0-9_.:@~=-]{1,128}\.(?:call|result)\.[0-9a-f]{16}"
_REFERENCE = re.compile(rf'\{{"\$stored":\["{_PATH}",[0-9]{{1,15}},"[0-9a-f]{{64}}"\]\}}')
_is_path = re.compile(_PATH).fullmatch
_FOLDER = "%Y%m%d%H"


class NotLoaded(CorruptPayload):
    """A page or a list does not read this payload from the payload store."""


class PayloadRef(Struct, frozen=True):
    """Where a payload is, relative to the payload store, and what it is: its size in bytes and its hash."""

    path: str
    size: int
    sha256: str

    def verify(self, data: bytes) -> None:
        """Refuse data that is not what was stored."""
        if len(data) != self.size:
            raise CorruptPayload(f"{self}: the file has {len(data):,} bytes")
        if sha256(data).hexdigest() != self.sha256:
            raise CorruptPayload(f"{self}: the file was changed; its checksum is another")

    def __str__(self) -> str:
        return f"payload {self.path} of {self.size:,} bytes"


class _Stored(Struct, forbid_unknown_fields=True):
    content: tuple[str, int, str] = field(name="$stored")
    promises: tuple[msgspec.Raw, ...] = ()
    given: Any = None


_read = msgspec.json.Decoder(_Stored).decode


def is_reference(text: str) -> bool:
    """Whether the payload is in the payload store."""
    return text.startswith(MARK)


def new_path(space: str, now: int, job_id: str, what: What, random: str) -> str:
    """The path of a payload: its folder is the hour in which it was stored."""
    hour = datetime.fromtimestamp(now / 1000, UTC).strftime(_FOLDER)
    return f"{space}/{hour}/{job_id.replace('/', _SLASH)}.{what}.{random}"


def job_of(path: str) -> str | None:
    """The id of the job that a payload belongs to; None for a file that is no payload."""
    if _is_path(path) is None:
        return None
    return path.rsplit("/", 1)[-1].rsplit(".", 2)[0].replace(_SLASH, "/")


def folder_before(now: int, age: int) -> str:
    """The name that the folders of all payloads older than `age` milliseconds have or precede."""
    return datetime.fromtimestamp((now - age) / 1000 - 3600, UTC).strftime(_FOLDER)


def made(path: str, data: bytes, text: str, what: What) -> str:
    """The reference to this text, stored at this path as these bytes."""
    content = f'{MARK}:["{path}",{len(data)},"{sha256(data).hexdigest()}"]'
    refs = ids_in(text) if what == "call" else ()
    if not refs:
        return content + "}"
    listed = ",".join(f'{{"$result":"{job_id}"}}' for job_id in refs)
    return f'{content},"promises":[{listed}]}}'


def reference_in(text: str) -> PayloadRef | None:
    """What the stored call or result refers to; None if it is not in the payload store."""
    return read(text)[0] if is_reference(text) else None


def refuse_large(text: str, most: int | None) -> None:
    """NotLoaded if the text refers to a payload of more than this many bytes."""
    if most is not None and (ref := reference_in(text)) is not None and ref.size > most:
        raise NotLoaded(f"not loaded: {ref} is in the payload store")


def read(text: str) -> tuple[PayloadRef, tuple[str, ...]]:
    """The reference, and the texts that stand in place of its result references."""
    try:
        stored = _read(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CorruptPayload(f"payload can't be read: its reference is damaged: {error}") from None
    ref = PayloadRef(*stored.content)
    if _is_path(ref.path) is None:  # it must not lead to another file
        raise CorruptPayload("payload can't be read: its reference is damaged: it names no payload")
    return ref, tuple(bytes(each).decode() for each in stored.promises)


def with_promises(text: str, promises: tuple[str, ...]) -> str:
    """The call with the results that its reference was given, if it was: see `results`."""
    if not promises or promises[0].startswith(RESULT_MARK):
        return text
    ids = ids_in(text)
    if len(ids) != len(promises):
        raise CorruptPayload("payload can't be read: its reference is damaged: it has other parents")
    return filled(text, dict(zip(ids, promises, strict=True)).__getitem__)


def replaced(text: str, load: Callable[[str, str], str]) -> str:
    """The call with a text in place of each reference to a result in it: `load` gets the reference and the job's id."""

    def of(match: re.Match[str]) -> str:
        ref, _ = read(match[0])
        return load(match[0], job_of(ref.path) or "")

    return _REFERENCE.sub(of, text) if MARK in text else text
