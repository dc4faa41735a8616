"""Translates Redis' errors into ours, with advice. No other module does."""

from __future__ import annotations

from redis.exceptions import (
    AuthenticationError,
    DataError,
    NoPermissionError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TimeoutError,
)

from headrace.errors import ConfigError, EngineUnavailable

_MEMORY = "Redis is out of memory and nothing was changed: raise maxmemory, or delete finished jobs"
_REPLICA = "this server is a replica: use the URL of the primary, or redis+sentinel://"
_RESHARDING = "our slot of the cluster is being moved to another node; don't reshard it while jobs run"
# By class of the error, or by the server's code where an older client has no class for it.
_BY_KIND = {
    "OutOfMemoryError": _MEMORY,
    "ReadOnlyError": _REPLICA,
    "BusyLoadingError": "Redis is reading its data after a start; it will be there in a moment",
    "MasterDownError": "the replica has lost its primary",
    **dict.fromkeys(("ClusterDownError", "CLUSTERDOWN"), "the cluster is not whole; see CLUSTER INFO"),
    **dict.fromkeys(("MovedError", "MOVED"), "our slot of the cluster was moved to another node"),
    **dict.fromkeys(("AskError", "ASK", "TryAgainError", "TRYAGAIN"), _RESHARDING),
}
# Texts of the server, which also occur inside errors of scripts.
_NO_CHANGES = {
    "OOM command": _MEMORY,
    "MISCONF": "Redis can't write to its disk, so it takes no changes; see its log",
    "NOREPLICAS": "Redis waits for its replicas (min-replicas-to-write); see INFO replication",
}
_UNAVAILABLE = {
    **_NO_CHANGES,
    "READONLY": _REPLICA,
    "BUSY Redis": "a script has kept Redis busy for seconds; SCRIPT KILL ends it",
    "max number of clients": "raise maxclients, or use fewer processes",
}
_FORBIDDEN = dict.fromkeys(("NOPERM", "The user executing the script can't"), "forbidden")
_WRONG = {
    "WRONGTYPE": "a key under this prefix is not headrace's; choose another one, as in ?prefix=jobs",
    "unknown command": "the server lacks a command; headrace needs Redis 6.2 or newer, or Valkey",
    "Unknown Redis command": "the server lacks a command; headrace needs Redis 6.2 or newer, or Valkey",
    "invalid DB index": "there is no database of this number",
    "DB index is out of range": "there is no database of this number",
}


def translated(error: Exception, where: str, prefix: str) -> Exception:
    """EngineUnavailable or ConfigError with advice; an unknown error unchanged."""
    if not isinstance(error, (RedisError, RedisClusterException, OSError)):
        return error
    if wrong := _wrong_setting(error, prefix):
        return ConfigError(f"{where}: {wrong}")
    if advice := _outage(error):
        return EngineUnavailable(f"{where}: {error}; {advice}")
    return error


def refuses_only_writes(error: Exception) -> bool:
    """Whether the server refuses only writes: reads work, and so may deletions that free memory."""
    return type(error).__name__ == "OutOfMemoryError" or _advice(_NO_CHANGES, error) is not None


def _wrong_setting(error: Exception, prefix: str) -> str | None:
    if isinstance(error, AuthenticationError):
        return f"Redis refuses the user or the password ({error})"
    if isinstance(error, NoPermissionError) or _advice(_FORBIDDEN, error):
        return (
            f"{error}; the user needs ~{{{prefix}}}* &{{{prefix}}}:bell +@read +@write +@scripting +@pubsub "
            "+@connection +time +info"
        )
    advice = _advice(_WRONG, error)
    return f"{error}; {advice}" if advice else None


def _outage(error: Exception) -> str | None:
    code, _, _ = str(error).partition(" ")
    if advice := _BY_KIND.get(type(error).__name__) or _BY_KIND.get(code) or _advice(_UNAVAILABLE, error):
        return advice
    if isinstance(error, (ResponseError, DataError)):
        return None  # the server is there; the error is of another kind
    return "is Redis overloaded, or the network cut?" if isinstance(error, TimeoutError) else "is Redis running there?"


def _advice(texts: dict[str, str], error: Exception) -> str | None:
    return next((advice for text, advice in texts.items() if text in str(error)), None)
