"""Finds settings in the environment and in files, and the engine a URL names."""

from __future__ import annotations

import functools
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from msgspec import structs

from headrace.core.clock import Clock
from headrace.core.settings.settings import ResolvedSettings, Settings, resolve
from headrace.core.urls import redacted_url
from headrace.engines.protocol.engine import Engine
from headrace.engines.sqlite.engine import SqliteEngine
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.runtime.spool.spool import Spool


def find_settings(arguments: Mapping[str, Any], folder: Path | None = None) -> ResolvedSettings:
    """Arguments over HEADRACE_* over headrace.toml or [tool.headrace] in pyproject.toml of the folder."""
    values, name = _file_settings(folder or Path.cwd())
    return resolve(arguments, os.environ, values, name, cpus=_cpus())


def _cpus() -> int:
    """How many of them this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _file_settings(folder: Path) -> tuple[Mapping[str, Any], str]:
    own, shared = folder / "headrace.toml", folder / "pyproject.toml"
    if own.is_file():
        return _read(own), own.name
    if shared.is_file():
        return _read(shared).get("tool", {}).get("headrace", {}), f"[tool.headrace] of {shared.name}"
    return {}, ""


def _read(path: Path) -> Mapping[str, Any]:
    try:
        return _parsed(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path.name}: {error}") from None


@functools.lru_cache(maxsize=4)
def _parsed(text: str) -> Mapping[str, Any]:
    # Every app and every worker asks, and to parse the file of a project takes milliseconds.
    return tomllib.loads(text)


def open_engine(settings: Settings, clock: Clock | None = None) -> Engine:
    """The engine for the URL. A named store is not touched until it is used."""
    try:
        return _open(settings, clock)
    except ConfigError as error:
        error.concerns("url", redacted_url(settings.url))
        raise


def _open(settings: Settings, clock: Clock | None) -> Engine:
    scheme = settings.url.partition(":")[0].lower()
    if scheme == "memory":
        return SqliteEngine(None, clock=clock, tells=settings.events)
    if scheme == "sqlite":
        return SqliteEngine(
            _sqlite_path(settings.url),
            durability=settings.durability,
            auto_migrate=settings.auto_migrate,
            clock=clock,
            tells=settings.events,
        )
    if scheme in ("postgresql", "postgres"):
        return _open_postgres(settings, clock)
    if scheme in _REDIS:
        return _open_redis(settings, clock)
    raise ConfigError(
        f"url: {redacted_url(settings.url)!r} is not known; use sqlite:///file.db, memory://, postgresql://… or redis://…"
    )


def open_archive(settings: Settings) -> Engine | None:
    """The store that has the archive, if another one than that of the jobs is to have it."""
    if settings.archive_url is None:
        return None
    return open_engine(structs.replace(settings, url=settings.archive_url, spool=None))


def open_spool(settings: Settings, engine: Engine, archive: Engine | None = None) -> Spool | None:
    """Where jobs go while the server is away, if they may; `archive` is the store that has their archive."""
    if settings.spool is None:
        return None
    # Deferred, with logging and the file's own needs: most programs have none.
    from headrace.runtime.spool.spool import Spool

    return Spool(Path(settings.spool).absolute(), engine, settings.spool_limit, archive)


_REDIS = (
    *("redis", "rediss", "valkey", "valkeys", "unix", "redis+unix"),
    *("redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"),
)

# The servers' engines are loaded when a URL asks for them: their drivers are extras, and take time to load.


def _open_postgres(settings: Settings, clock: Clock | None) -> Engine:
    try:
        from headrace.engines.postgres.engine import PostgresEngine
    except ImportError as error:
        raise _missing(settings.url, "postgres", error) from None
    return PostgresEngine(settings.url, auto_migrate=settings.auto_migrate, clock=clock, tells=settings.events)


def _open_redis(settings: Settings, clock: Clock | None) -> Engine:
    try:
        from headrace.engines.redis.engine import RedisEngine
    except ImportError as error:
        raise _missing(settings.url, "redis", error) from None
    return RedisEngine(settings.url, clock=clock, tells=settings.events)


def _missing(url: str, extra: str, error: ImportError) -> ConfigError:
    return ConfigError(
        f"url: {redacted_url(url)!r} needs a driver ({error}); install it: pip install 'headrace[{extra}]'"
    )


def _sqlite_path(url: str) -> Path:
    rest = url.removeprefix("sqlite://")
    if not rest.startswith("/") or "?" in rest:
        raise ConfigError(f"url: {url!r} should look like sqlite:///relative.db or sqlite:////absolute/path.db")
    path = unquote(rest[1:])
    if not path.strip("/"):
        raise ConfigError(f"url: {url!r} names no file; use memory:// for a store without one")
    if "\x00" in path:
        raise ConfigError(f"url: {url!r} has a NUL (%00) in it, which no file name can have")
    return Path(path).absolute()
