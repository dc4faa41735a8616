"""Redis' errors in our own words: what is wrong, and what to do about it. Nowhere else are they translated."""

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

from headrace.errors import ConfigError, EngineUnavailable, HeadraceError

# The server's words, which also stand inside the text of an error that a script met.
_AWAY = {
    "OutOfMemory": "Redis is out of memory and nothing was changed: raise maxmemory, or delete finished jobs",
    "OOM ": "Redis is out of memory and nothing was changed: raise maxmemory, or delete finished jobs",
    "ReadOnly": "this server is a replica: use the URL of the primary, or redis+sentinel://",
    "READONLY": "this server is a replica: use the URL of the primary, or redis+sentinel://",
    "BusyLoading": "Redis is reading its data after a start; it will be there in a moment",
    "MISCONF": "Redis can't write to its disk, so it takes no changes; see its log",
    "NOREPLICAS": "Redis waits for its replicas (min-replicas-to-write); see INFO replication",
    "BUSY ": "a script of somebody has kept Redis busy for seconds; SCRIPT KILL ends it",
    "MasterDown": "the replica has lost its primary",
    "ClusterDown": "the cluster is not whole; see CLUSTER INFO",
    "TryAgain": "our slot of the cluster is being moved to another node; don't reshard it while jobs run",
    "Ask": "our slot of the cluster is being moved to another node; don't reshard it while jobs run",
    "Moved": "our slot of the cluster was moved to another node",
    "max number of clients": "raise maxclients, or use fewer processes",
}
_FORBIDDEN = ("NOPERM", "The user executing the script can't")
_WRONG = {
    "WRONGTYPE": "a key under this prefix is not headrace's; choose another one, as in ?prefix=jobs",
    "unknown command": "the server lacks a command; headrace needs Redis 6.2 or newer, or Valkey",
    "Unknown Redis command": "the server lacks a command; headrace needs Redis 6.2 or newer, or Valkey",
    "invalid DB index": "there is no database of this number",
    "DB index is out of range": "there is no database of this number",
}


def translated(error: Exception, where: str, prefix: str) -> Exception:
    """The error as EngineUnavailable or ConfigError that says what to do; one that we do not know as it is."""
    if isinstance(error, HeadraceError):
        return error
    text = f"{type(error).__name__.removesuffix('Error')} {error}"
    if isinstance(error, AuthenticationError):
        return ConfigError(f"{where}: Redis refuses the user or the password ({error})")
    if isinstance(error, NoPermissionError) or any(word in text for word in _FORBIDDEN):
        return ConfigError(
            f"{where}: {error}; the user needs ~{{{prefix}}}* &{{{prefix}}}:bell +@read +@write +@scripting +@pubsub "
            "+@connection +time +info"
        )
    for words, kind in ((_WRONG, ConfigError), (_AWAY, EngineUnavailable)):
        for word, advice in words.items():
            if word in text:
                return kind(f"{where}: {error}; {advice}")
    if isinstance(error, TimeoutError):
        return EngineUnavailable(f"{where}: {error}; is Redis overloaded, or the network cut?")
    if isinstance(error, (ResponseError, DataError)):
        return error  # the server answered, and with something that is no outage
    if isinstance(error, (RedisError, RedisClusterException, OSError)):
        return EngineUnavailable(f"{where}: {error}; is Redis running there?")
    return error
