"""What an operator should know of the Redis server: its facts, and what looks wrong with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headrace.engines.redis import schema
from headrace.engines.redis.scripts import load
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.engines.redis.wire import Wire

_OLDEST = (6, 2)
_NEARLY_FULL = 0.9
_strays = load("strays")


def refuse_old(wire: Wire) -> None:
    """ConfigError if the server lacks what the scripts use."""
    version = _info(wire, "server").get("redis_version", "")
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if found and found < _OLDEST:
        raise ConfigError(
            f"url {wire.address.shown}: the server is Redis {version}; headrace needs 6.2 or newer, or Valkey"
        )


def facts(wire: Wire) -> dict[str, str | int]:
    """Server, sizes, versions and settings."""
    info = _info(wire, "server") | _info(wire, "memory") | _info(wire, "persistence") | _info(wire, "replication")
    valkey = info.get("valkey_version")
    told: dict[str, str | int] = {
        "engine": "redis",
        "server": f"Valkey {valkey}" if valkey else f"Redis {info.get('redis_version', 'unknown')}",
        "mode": info.get("server_mode", info.get("redis_mode", "unknown")),
        "prefix": wire.address.prefix,
        "schema": schema.version_of(wire),
        "schema_expected": schema.CURRENT,
        "jobs": wire.ask("HLEN", f"{{{wire.address.prefix}}}:ids"),
        "role": info.get("role", "unknown"),
        "size": int(info.get("used_memory", 0)),
        "size_limit": int(info.get("maxmemory", 0)),
        "eviction": info.get("maxmemory_policy", "unknown"),
        "append_only_file": {"1": "on", "0": "off"}.get(info.get("aof_enabled", ""), "unknown"),
    }
    if fsync := _setting(wire, "appendfsync"):
        told["append_fsync"] = fsync
    return told


def is_replica(wire: Wire) -> bool:
    """Whether this server only repeats what another one is told."""
    return _info(wire, "replication").get("role") in ("slave", "replica")


def findings_of_server(wire: Wire) -> list[str]:
    """One sentence for each thing that looks wrong with the server; none if all is well."""
    found = ["this server is a replica and takes no jobs; use the URL of the primary, or redis+sentinel://"]
    info = _info(wire, "memory") | _info(wire, "persistence") | _info(wire, "stats")
    return [*_of_durability(wire, info), *_of_memory(info), *(found if is_replica(wire) else ())]


def _of_durability(wire: Wire, info: dict[str, str]) -> list[str]:
    found = []
    if info.get("aof_enabled") == "0":
        found.append(
            "the append-only file is off: a crash of Redis would lose accepted jobs; set appendonly yes (on a managed "
            "server: switch persistence on)"
        )
    elif "aof_enabled" not in info:
        found.append("whether Redis keeps an append-only file can't be told: INFO is not allowed to this user")
    else:
        fsync = _setting(wire, "appendfsync")
        if fsync == "no":
            found.append(
                "appendfsync is no: a power failure would lose accepted jobs of the last half minute; set everysec "
                "or always"
            )
        elif fsync is None:
            found.append("how often Redis writes to its disk can't be told: CONFIG GET is not allowed to this user")
    if info.get("aof_last_write_status", "ok") != "ok":
        found.append("Redis could not write its append-only file; is its disk full?")
    return found


def _of_memory(info: dict[str, str]) -> list[str]:
    found = []
    used, limit = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        found.append(f"maxmemory-policy is {policy}: Redis may throw jobs away when memory runs short; set noeviction")
    if limit and used > _NEARLY_FULL * limit:
        found.append(
            f"Redis uses {used // 2**20} of {limit // 2**20} MB: soon it will refuse new jobs; raise maxmemory or "
            "delete finished jobs"
        )
    if policy != "noeviction" and int(info.get("evicted_keys", 0)):
        found.append(f"Redis has thrown away {info['evicted_keys']} keys for want of memory, ours may be among them")
    return found


def findings_of_store(wire: Wire) -> list[str]:
    """The same for what is in it."""
    found = []
    stray, *sizes = wire.run(_strays, repeat=())
    if stray:
        found.append(f"{stray} jobs are running under workers that never signed on; their leases will run out")
    if len(set(sizes)) > 1:
        told = ", ".join(
            f"{name} {size}" for name, size in zip(("ids", "jobs", "bodies", "states"), sizes, strict=True)
        )
        found.append(f"the store is damaged, its parts do not have the same number of jobs: {told}; restore a backup")
    return found


def _info(wire: Wire, section: str) -> dict[str, str]:
    """What INFO tells; nothing where this user may not ask."""
    try:
        text = wire.ask("INFO", section).decode()
    except ConfigError:
        return {}
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("#"))


def _setting(wire: Wire, name: str) -> str | None:
    """A setting of the server; None where it does not tell, as managed ones do."""
    try:
        answer = wire.ask("CONFIG", "GET", name)
    except Exception:  # not allowed, or renamed away: each server refuses in words of its own
        return None
    return answer[1].decode() if len(answer) == 2 else None
