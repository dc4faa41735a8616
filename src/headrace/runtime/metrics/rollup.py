"""Folds new pages of events into metric buckets, a bounded piece at a time. Any process may, at any time.

The fold position is a document that is put together with the buckets, by its version: a process that comes second
begins anew, and each page counts once. Other workers' maintenance then skips folding for some seconds: two at once
would do no harm, but twice the work.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from headrace.core.damaged_records import read, read_or
from headrace.core.documents import Document
from headrace.core.metrics import buckets
from headrace.core.metrics.buckets import ALL, MARKS, Resolution
from headrace.core.metrics.cells import MetricCell, added
from headrace.core.metrics.rollup import Folded, fold, widened
from headrace.core.settings.settings import Settings
from headrace.engines.protocol.engine import Engine

_OTHERS_REST_MS = 12_000
# A piece is so many pages; a page may be one job or ten thousand, so their number follows the time they took.
_MIN_PAGES, _MAX_PAGES = 8, 1024
_QUICK, _SLOW = 0.01, 0.04  # seconds

_cells_of = msgspec.json.Decoder(dict[str, MetricCell]).decode


class RollupMark(Struct, frozen=True, array_like=True):
    """The fold position: how far, when, and by which process."""

    cursor: str | None = None
    at: int = 0
    by: str = ""


_mark_of = msgspec.json.Decoder(RollupMark).decode


class Rollup:
    """The folding of one process."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._name = uuid.uuid4().hex[:12]
        self._pages = 64
        self.left_to_others = False  # at the last call

    def fold(self, *, if_idle: bool = False, now: int | None = None) -> bool:
        """Fold the next pages; whether there are more. With `if_idle`, not if another process did so a moment ago."""
        now = self._engine.clock.now() if now is None else now
        version, mark = self._read_mark()
        self.left_to_others = if_idle and mark.by != self._name and now - _OTHERS_REST_MS < mark.at <= now
        if self.left_to_others:
            return False
        began = time.perf_counter()
        pages = self._engine.events.read(mark.cursor, self._pages)
        if not pages:
            return False
        folded = fold(group for _, groups in pages for group in groups)
        reached = msgspec.json.encode(RollupMark(pages[-1][0], now, self._name)).decode()
        is_stored = self._engine.document_store.put(
            [Document(MARKS, "fold", version, reached), *self._added(folded, now)]
        )
        is_all = is_stored and len(pages) < self._pages
        self._adapt(time.perf_counter() - began)
        return not is_all

    def _read_mark(self) -> tuple[int, RollupMark]:
        for document in self._engine.document_store.get(MARKS, ["fold"]):
            return document.version, read_or(_mark_of, document.value, RollupMark())
        return 0, RollupMark()

    def _adapt(self, took: float) -> None:
        if took > _SLOW:
            self._pages = max(self._pages // 2, _MIN_PAGES)
        elif took < _QUICK:
            self._pages = min(self._pages * 2, _MAX_PAGES)

    def _added(self, folded: Folded, now: int) -> Iterator[Document]:
        """The documents of all buckets that these cells belong to, added to their present contents."""
        kept = dict(buckets.kept_since(self._settings, now))
        for width in ALL:
            folded = widened(folded, width)
            since = kept.get(width) or 0
            yield from self._added_to(width, {where: cell for where, cell in folded.items() if where[0] >= since})

    def _added_to(self, width: Resolution, folded: Folded) -> Iterator[Document]:
        fresh: defaultdict[str, dict[str, MetricCell]] = defaultdict(dict)
        for (start, (section, queue, name)), cell in folded.items():
            fresh[buckets.key(start, section, queue)][name] = cell
        known = (
            {document.key: document for document in self._engine.document_store.get(width.kind, list(fresh))}
            if fresh
            else {}
        )
        for key, cells in fresh.items():
            document = known.get(key)
            before = {} if document is None else read(_cells_of, document.value) or {}
            text = msgspec.json.encode(added(before, cells)).decode()
            yield Document(width.kind, key, 0 if document is None else document.version, text)
