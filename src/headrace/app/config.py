"""Reads settings from the environment and files, and opens the engine of a URL."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from msgspec import structs

from headrace.core.clock import Clock
from headrace.core.settings.settings import ResolvedSettings, Settings, resolve
from headrace.core.urls import redacted_url
from headrace.engines.protocol.engine import Engine
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.runtime.spool.spool import Spool


_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def find_settings(arguments: Mapping[str, Any], folder: Path | None = None) -> ResolvedSettings:
    """Arguments over HEADRACE_* over headrace.toml or [tool.headrace] in pyproject.toml of the folder."""
    values, name = _file_settings(folder or Path.cwd())
    return resolve(arguments, os.environ, values, name, cpus=_cpus())


def unused_urls(origin: Mapping[str, str], url: str) -> list[str]:
    """A sentence for each store that the environment names and nothing uses, if nobody has chosen a store."""
    if "url" in origin:
        return []
    found = [name for name in _COMMON_URLS if os.environ.get(name, "").partition(":")[0].lower() in _SERVERS]
    return [
        f"{name} is set and not used: the jobs are in {redacted_url(url)}; to keep them there, set HEADRACE_URL=${name}"
        for name in found
    ]


def _cpus() -> int:
    """The number of CPUs this process may use: its affinity, and the quota of its container."""
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _CPU_QUOTA.read_text("utf-8").split()
        return max(min(mine, math.ceil(int(quota) / int(period))), 1)
    except (OSError, ValueError, ZeroDivisionError):  # no cgroups of version 2, or no quota ("max")
        return mine


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
    except ValueError as error:  # not TOML, or not UTF-8
        raise ConfigError(f"{path.name}: {error}") from None


@functools.lru_cache(maxsize=4)
def _parsed(text: str) -> Mapping[str, Any]:
    # Cached: every app and worker reads it, and parsing takes milliseconds.
    import tomllib  # deferred: most apps have no file with settings

    return tomllib.loads(text)


def open_engine(settings: Settings, clock: Clock | None = None) -> Engine:
    """The engine of the URL. It does not connect until it is used."""
    try:
        return _open(settings, clock)
    except ConfigError as error:
        error.concerns("url", redacted_url(settings.url))
        raise


def _open(settings: Settings, clock: Clock | None) -> Engine:
    scheme = settings.url.partition(":")[0].lower()
    if scheme in ("memory", "sqlite"):
        return _open_sqlite(settings, clock, None if scheme == "memory" else _sqlite_path(settings.url))
    if scheme in ("postgresql", "postgres"):
        return _open_postgres(settings, clock)
    if scheme in _REDIS:
        return _open_redis(settings, clock)
    raise ConfigError(
        f"url: {redacted_url(settings.url)!r} is not known; use sqlite:///file.db, memory://, postgresql://… or redis://…"
    )


def open_archive(settings: Settings) -> Engine | None:
    """The engine of the archive, if it is a separate store."""
    if settings.archive_url is None:
        return None
    return open_engine(structs.replace(settings, url=settings.archive_url, spool=None))


def open_spool(settings: Settings, engine: Engine, archive: Engine | None = None) -> Spool | None:
    """The spool for jobs while the server is unavailable, if enabled; `archive` is the store of the archive."""
    if settings.spool is None:
        return None
    # Deferred, with its imports: most programs have no spool.
    from headrace.runtime.spool.spool import Spool

    return Spool(Path(settings.spool).absolute(), engine, settings.spool_limit, archive)


_REDIS = (
    *("redis", "rediss", "valkey", "valkeys", "unix", "redis+unix"),
    *("redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"),
)

_SERVERS = ("postgres", "postgresql", *_REDIS)
_COMMON_URLS = ("DATABASE_URL", "REDIS_URL")  # names that hosts and other programs give to the URL of a server

# An engine is imported when a URL asks for it: it is slow to import, and the driver of a server is an extra.


def _open_sqlite(settings: Settings, clock: Clock | None, path: Path | None) -> Engine:
    from headrace.engines.sqlite.engine import SqliteEngine

    return SqliteEngine(
        path,
        durability=settings.durability,
        auto_migrate=settings.auto_migrate,
        clock=clock,
        record_events=settings.events,
    )


def _open_postgres(settings: Settings, clock: Clock | None) -> Engine:
    try:
        from headrace.engines.postgres.engine import PostgresEngine
    except ImportError as error:
        raise _missing(settings.url, "postgres", error) from None
    return PostgresEngine(settings.url, auto_migrate=settings.auto_migrate, clock=clock, record_events=settings.events)


def _open_redis(settings: Settings, clock: Clock | None) -> Engine:
    try:
        from headrace.engines.redis.engine import RedisEngine
    except ImportError as error:
        raise _missing(settings.url, "redis", error) from None
    return RedisEngine(settings.url, clock=clock, record_events=settings.events)


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
