"""Checks before a copy: the stores differ, exist, and have current tables."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.jobs.records import Filter
from headrace.core.text import counted
from headrace.engines.protocol.engine import Engine
from headrace.errors import ConfigError, SchemaMismatch


def file_of(engine: Engine) -> Path | None:
    """The file of an SQLite store, else None."""
    scheme, _, path = engine.url.partition(":///")
    return Path(path) if scheme == "sqlite" else None


def has_tables(engine: Engine) -> bool:
    """Whether the store has tables of headrace. It does not create a file."""
    path = file_of(engine)
    return (path is None or path.exists()) and engine.migrate(dry_run=True).found > 0


def refuse_used(engine: Engine, advice: str) -> None:
    """Refuse a store that has jobs or dead letters already."""
    if engine.queries.find(Filter(), 1, light=True).jobs or engine.dead_letters.find(DeadLetterFilter(), 1):
        raise ConfigError(
            f"{engine.url} is in use: it has {counted(engine.queries.count(Filter()).jobs, 'job')}. {advice}"
        )


def refuse_old_tables(engine: Engine) -> None:
    found, needed, _ = engine.migrate(dry_run=True)
    if found < needed:
        raise SchemaMismatch(
            f"{engine.url} has tables of version {found}, this headrace needs {needed}, and a dry run changes nothing; "
            f"run `headrace --url {engine.url} migrate` first"
        )


def refuse_same_address(source: Engine, target: Engine) -> None:
    """A first check by URL. A server may have several URLs; the store status finds those."""
    if "memory://" in (source.url, target.url):
        raise ConfigError("a memory:// store is gone when its process ends, so it can't be copied")
    source_file, target_file = file_of(source), file_of(target)
    both_exist = source_file is not None and target_file is not None and source_file.exists() and target_file.exists()
    if source.url == target.url or (both_exist and os.path.samefile(str(source_file), str(target_file))):
        raise ConfigError(f"{source.url} and {target.url} are the same store")
