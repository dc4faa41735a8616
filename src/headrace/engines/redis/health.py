"""Facts about the Redis server, and findings of problems with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.health.findings import CRITICAL, WARNED, Finding
from headrace.engines.redis import schema
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.engines.redis.connections import RedisConnections

_OLDEST = (6, 2)


def refuse_old(connections: RedisConnections) -> None:
    """ConfigError if the server is too old for the scripts."""
    version = _info(connections, "server").get("redis_version", "")
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if found and found < _OLDEST:
        raise ConfigError(
            f"url {connections.address.shown}: the server is Redis {version}; headrace needs 6.2 or newer, or Valkey"
        )


def facts(connections: RedisConnections) -> dict[str, str | int]:
    """Server, sizes, versions and settings."""
    info = (
        _info(connections, "server")
        | _info(connections, "memory")
        | _info(connections, "persistence")
        | _info(connections, "replication")
    )
    valkey = info.get("valkey_version")
    found: dict[str, str | int] = {
        "engine": "redis",
        "server": f"Valkey {valkey}" if valkey else f"Redis {info.get('redis_version', 'unknown')}",
        "mode": info.get("server_mode", info.get("redis_mode", "unknown")),
        "prefix": connections.address.prefix,
        "schema": schema.version_of(connections),
        "schema_expected": schema.CURRENT,
        "jobs": connections.command("HLEN", f"{{{connections.address.prefix}}}:ids"),
        "role": info.get("role", "unknown"),
        "size": int(info.get("used_memory", 0)),
        "size_limit": int(info.get("maxmemory", 0)),
        "eviction": info.get("maxmemory_policy", "unknown"),
        "append_only_file": {"1": "on", "0": "off"}.get(info.get("aof_enabled", ""), "unknown"),
    }
    if fsync := _setting(connections, "appendfsync"):
        found["append_fsync"] = fsync
    return found


def size(connections: RedisConnections) -> int:
    """The server's used memory in bytes; 0 where this user may not read it."""
    return int(_info(connections, "memory").get("used_memory", 0))


def clients(connections: RedisConnections) -> int | None:
    """The number of connections to the server; None where this user may not read it."""
    text = _info(connections, "clients").get("connected_clients")
    return None if text is None else int(text)


def is_replica(connections: RedisConnections) -> bool:
    """Whether this server is a replica."""
    return _info(connections, "replication").get("role") in ("slave", "replica")


def findings_of_server(connections: RedisConnections) -> list[Finding]:
    """Problems of the server."""
    info = _info(connections, "memory") | _info(connections, "persistence") | _info(connections, "stats")
    found = [*_of_durability(connections, info), *_of_memory(info)]
    if is_replica(connections):
        found.append(
            Finding(
                code="replica",
                sentence="this server is a replica and takes no jobs",
                advice="use the URL of the primary, or redis+sentinel://",
            )
        )
    return found


def _of_durability(connections: RedisConnections, info: dict[str, str]) -> Iterator[Finding]:
    if info.get("aof_enabled") == "0":
        yield Finding(
            code="no_append_only_file",
            sentence="the append-only file is off: a crash of Redis would lose accepted jobs",
            advice="set appendonly yes (on a managed server: switch persistence on)",
        )
    elif "aof_enabled" not in info:
        yield Finding(
            code="append_only_file_unknown",
            sentence="it is unknown whether Redis keeps an append-only file",
            advice="INFO is not allowed to this user; allow it",
        )
    else:
        yield from _of_fsync(_setting(connections, "appendfsync"))
    if info.get("aof_last_write_status", "ok") != "ok":
        yield Finding(
            code="append_only_file_failed",
            sentence="Redis could not write its append-only file",
            advice="is its disk full? Make room",
        )


def _of_fsync(fsync: str | None) -> Iterator[Finding]:
    if fsync == "no":
        yield Finding(
            code="appendfsync",
            sentence="appendfsync is no: a power failure would lose accepted jobs of the last half minute",
            advice="set everysec or always",
        )
    elif fsync is None:
        yield Finding(
            code="appendfsync_unknown",
            sentence="it is unknown how often Redis writes to its disk",
            advice="CONFIG GET is not allowed to this user; allow it",
        )


def _of_memory(info: dict[str, str]) -> Iterator[Finding]:
    used, limit = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        yield Finding(
            code="eviction",
            sentence=f"maxmemory-policy is {policy}: Redis may delete jobs when memory runs short",
            advice="set noeviction",
        )
    if limit and used >= WARNED * limit:
        yield Finding(
            code="memory",
            sentence=f"Redis uses {used // 2**20} of {limit // 2**20} MB: soon it will refuse new jobs",
            advice="raise maxmemory or delete finished jobs",
            note=used < CRITICAL * limit,
        )
    if policy != "noeviction" and int(info.get("evicted_keys", 0)):
        yield Finding(
            code="evicted",
            sentence=f"Redis has evicted {info['evicted_keys']} keys to free memory; ours may be among them",
            advice="set maxmemory-policy noeviction, and look for what is missing with `headrace check`",
            count=int(info["evicted_keys"]),
        )


def _info(connections: RedisConnections, section: str) -> dict[str, str]:
    """The answer of INFO; empty where this user may not read it."""
    try:
        text = connections.command("INFO", section).decode()
    except ConfigError:
        return {}
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("#"))


def _setting(connections: RedisConnections, name: str) -> str | None:
    """A setting of the server; None where the server refuses, as managed ones do."""
    try:
        answer = connections.command("CONFIG", "GET", name)
    except Exception:  # not allowed, or renamed: each server has its own error
        return None
    return answer[1].decode() if len(answer) == 2 else None
