"""Where measures take place: the stores of one engine, a folder, the amount of work, and the peers beside it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from bench.environments import Environments
from bench.peers import Peer
from bench.places import Place
from bench.sizes import Sizes

Durability = Literal["normal", "full"]
Telling = Literal["nothing", "events", "metrics"]  # each with what is before it; an app by itself tells all
_numbers = itertools.count(1)


class Store(Struct, frozen=True):
    """A store, how safely it is written (only SQLite lets us choose), and what apps tell there of their jobs."""

    url: str
    durability: Durability
    tells: Telling = "metrics"

    def hide_password(self, text: str) -> str:
        """The text as it may be shown."""
        password = urlsplit(self.url).password
        return text.replace(password, "***") if password else text


class Ground:
    """The ground of one engine."""

    def __init__(
        self,
        place: Place,
        folder: Path,
        durability: Durability,
        sizes: Sizes,
        peers: Sequence[Peer],
        absences: Mapping[str, str],
        environments: Environments,
    ) -> None:
        self.place = place
        self.engine = place.engine
        self.folder = folder
        self.durability = durability
        self.sizes = sizes
        self.absences = dict(absences)
        self._peers = peers
        self._environments = environments
        self._kept: dict[str, Store] = {}

    def path(self, suffix: str) -> Path:
        """A fresh name."""
        return self.folder / f"{next(_numbers)}{suffix}"

    @contextlib.contextmanager
    def store(self, tells: Telling = "metrics") -> Iterator[Store]:
        """A new store, removed afterwards."""
        store = Store(self.place.new_store(), self.durability, tells)
        try:
            yield store
        finally:
            self.place.drop(store.url)

    def kept(self, name: str, build: Callable[[Store], None]) -> Store:
        """A store that is too large to build for every round: made once, removed at the end."""
        if name not in self._kept:
            store = Store(self.place.new_store(), self.durability)
            build(store)
            self._kept[name] = store
        return self._kept[name]

    @property
    def peers(self) -> list[Peer]:
        """Those that could be measured so far."""
        return [peer for peer in self._peers if peer.title not in self.absences]

    def rivals(self) -> list[Peer]:
        """Those among whom the best is sought; none if one of them is missing, because it might be the best."""
        rivals = [peer for peer in self._peers if peer.counts]
        return [] if any(peer.title in self.absences for peer in rivals) else rivals

    def python_of(self, peer: Peer) -> str:
        """The interpreter that has the peer."""
        return self._environments.python_of(peer)

    def leave_out(self, peer: Peer, why: Exception) -> None:
        """A peer that failed once is not asked again, and the report says why."""
        self.absences[peer.title] = f"{type(why).__name__}: {why}"

    def close(self) -> None:
        for store in self._kept.values():
            self.place.drop(store.url)
        self._kept.clear()
