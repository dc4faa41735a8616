"""How an app stores calls and results, and reads them: encrypted if it has keys, and large ones in the payload store.

A file is written before the job refers to it, under a name of its own, so whatever a job refers to is complete. Files
that no job refers to are left to the sweep. Each store has its own folder there, the key of a document of the store.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from headrace.core.clock import Clock
from headrace.core.codec import payload_refs
from headrace.core.codec.encryption import Cipher, decrypted
from headrace.core.codec.payload_refs import PayloadRef, What
from headrace.core.documents import Document
from headrace.core.text import why
from headrace.engines.protocol.engine import Engine
from headrace.errors import ConfigError, CorruptPayload, EngineUnavailable, PayloadStoreUnavailable
from headrace.runtime.payloads.files import PayloadFiles, open_files
from headrace.runtime.payloads.memory_files import MemoryFiles

if TYPE_CHECKING:
    from headrace.core.settings.settings import Settings

log = logging.getLogger("headrace.payloads")
KIND = "payloads"  # documents of the store: their keys are its folders in the payload store
_MARKER = "headrace.txt"
_MARKER_TEXT = b"""Payloads of jobs of headrace, one folder for each hour. Keep this file: a payload store without it is
taken for one that is away, such as a file system that is not mounted.
"""


class Payloads:
    """The calls and results of one app."""

    def __init__(self, engine: Engine, clock: Clock, settings: Settings, cipher: Cipher | None) -> None:
        self.cipher = cipher
        self._inline = settings.max_payload
        self._threshold = settings.payload_threshold
        self._home = engine
        self._home_files = open_files(settings.payload_store) if settings.payload_store is not None else None
        self.limit = settings.max_payload if self._home_files is None else settings.payload_limit
        self.attach(engine, clock)

    def attach(self, engine: Engine, clock: Clock) -> None:
        """Use this store from now on. That of a test has a payload store of its own, in memory."""
        self._engine = engine
        self._clock = clock
        self._space: str | None = None
        self.files: PayloadFiles | None = self._home_files
        if self.files is not None and engine is not self._home:
            self.files = MemoryFiles()

    # -- storing

    def stored(self, text: str, what: What, owner: str, job_id: str) -> str:
        """What the job holds of this text: see `outside`. `owner` is what encryption binds it to."""
        return self.outside(text if self.cipher is None else self.cipher.encrypted(text, what, owner), what, job_id)

    def is_large(self, text: str) -> bool:
        """Whether this text belongs in the payload store."""
        if self.files is None:
            return False
        return len(text) > self._threshold or (not text.isascii() and len(text.encode()) > self._threshold)

    def outside(self, text: str, what: What, job_id: str) -> str:
        """A reference to the text, which is now in the payload store; the text itself if it is short.

        While the payload store is unavailable, the text itself up to `max_payload`, else PayloadStoreUnavailable.
        """
        if self.files is None or not self.is_large(text):
            return text
        data = text.encode()
        try:
            path = payload_refs.new_path(self.space(), self._clock.now(), job_id, what, os.urandom(8).hex())
            self._write(self.files, path, data)
        except EngineUnavailable as error:
            if len(data) > self._inline:
                raise
            log.warning("job %s: its %s is stored in the job: %s", job_id, what, error)
            return text
        return payload_refs.made(path, data, text, what)

    def _write(self, files: PayloadFiles, path: str, data: bytes) -> None:
        try:
            files.write(path, data)
        except FileNotFoundError as error:
            self.ensure_reachable(path.partition("/")[0])
            raise away(error) from error
        except OSError as error:
            raise away(error) from error

    def _mark(self, files: PayloadFiles, space: str) -> None:
        try:
            files.add_folder(space)
            files.write(f"{space}/{_MARKER}", _MARKER_TEXT)
        except OSError as error:
            raise away(error) from error

    def space(self) -> str:
        """The folder of this store in the payload store; the first call of a store creates it."""
        if self._space is None:
            assert self.files is not None
            if not (spaces := self.spaces()):
                created = os.urandom(6).hex()
                self._mark(self.files, created)
                self._engine.document_store.put([Document(KIND, created, 0, "{}")])
                spaces = self.spaces()  # another process may have done the same
            self.ensure_reachable(spaces[0])
            self._space = spaces[0]
        return self._space

    def spaces(self) -> list[str]:
        """All folders of this store: a copy of two stores has two."""
        return [document.key for document in self._engine.document_store.get(KIND)]

    def ensure_reachable(self, space: str) -> None:
        """Raise PayloadStoreUnavailable unless the payload store has the marker of this folder."""
        assert self.files is not None
        try:
            has_marker = self.files.exists(f"{space}/{_MARKER}")
        except OSError as error:
            raise away(error) from error
        if not has_marker:
            raise PayloadStoreUnavailable(
                f"the payload store has no file {space}/{_MARKER}: it is another one, or its file system is not "
                "mounted; if its files are gone for good, create this file, empty"
            )

    # -- reading

    def loaded(self, text: str, purpose: str, owner: str) -> str:
        """What was stored as this text, with references resolved; CorruptPayload if it can't be read."""
        if payload_refs.is_reference(text):
            text = self._fetched(text, purpose, owner)
        else:
            text = decrypted(self.cipher, text, purpose, owner)
        if purpose != "call":
            return text
        return payload_refs.replaced(text, lambda each, job_id: self._fetched(each, "result", job_id))

    def _fetched(self, reference: str, purpose: str, owner: str) -> str:
        ref, promises = payload_refs.read(reference)
        data = self._data(ref)
        ref.verify(data)
        return payload_refs.with_promises(decrypted(self.cipher, data.decode(), purpose, owner), promises)

    def _data(self, ref: PayloadRef) -> bytes:
        if self.files is None:
            raise not_set(ref)
        try:
            return self.files.read(ref.path)
        except FileNotFoundError:
            self.ensure_reachable(ref.path.partition("/")[0])
            raise CorruptPayload(f"{ref} is missing from the payload store") from None
        except OSError as error:
            raise away(error) from error

    def has(self, ref: PayloadRef) -> bool:
        """Whether the file of this payload exists."""
        assert self.files is not None
        try:
            return self.files.exists(ref.path)
        except OSError as error:
            raise away(error) from error

    # -- deleting

    def delete_of(self, jobs: Collection[str]) -> int:
        """Delete all payloads of these jobs at once, young ones too; how many there were."""
        assert self.files is not None
        deleted = 0
        try:
            for space in self.spaces():
                self.ensure_reachable(space)
                for hour in filter(str.isdigit, self.files.list(space)):
                    paths = [f"{space}/{hour}/{name}" for name in self.files.list(f"{space}/{hour}")]
                    gone = [path for path in paths if payload_refs.job_of(path) in jobs]
                    self.files.delete(gone)
                    deleted += len(gone)
        except OSError as error:
            raise away(error) from error
        return deleted


def ensure_deletable(payloads: Payloads | None, engine: Engine) -> None:
    """Raise ConfigError if the store has payloads in a payload store that is not set here."""
    if (payloads is None or payloads.files is None) and engine.document_store.get(KIND, limit=1):
        raise ConfigError("payloads of this store are in a payload store; set payload_store", field="payload_store")


def limit_of(payloads: Payloads | None, settings: Settings) -> int:
    """The largest call, and the largest result, in bytes."""
    return settings.max_payload if payloads is None else payloads.limit


def loaded(payloads: Payloads | None, text: str, purpose: str, owner: str) -> str:
    """What was stored as this text; CorruptPayload if that needs a key or a payload store that is not set here."""
    if payloads is not None:
        return payloads.loaded(text, purpose, owner)
    if (ref := payload_refs.reference_in(text)) is not None:
        raise not_set(ref)
    return decrypted(None, text, purpose, owner)


def not_set(ref: PayloadRef) -> CorruptPayload:
    """The error for a payload that can't be looked for."""
    return CorruptPayload(f"{ref} can't be read: {payload_refs.NOT_SET}")


def away(error: OSError) -> PayloadStoreUnavailable:
    """The error for a payload store that can't be used now."""
    return PayloadStoreUnavailable(f"the payload store is unavailable: {why(error)}")
