"""Translated errors of Redis, and servers that are too old."""

from __future__ import annotations

from typing import Any, cast

import pytest
import redis
from redis import exceptions

from headrace.engines.redis import health
from headrace.engines.redis.connections import RedisConnections
from headrace.engines.redis.errors import translated
from headrace.engines.redis.store_url import parse
from headrace.errors import ConfigError, EngineUnavailable

SCRIPT = "Error running script (call to f_12ab): @user_script:9: @user_script: 9: "


@pytest.mark.parametrize(
    ("error", "kind", "expected"),
    [
        (exceptions.ConnectionError("Error 111 connecting to a:1."), EngineUnavailable, "is Redis running there?"),
        (exceptions.TimeoutError("Timeout reading from a:1"), EngineUnavailable, "overloaded"),
        (exceptions.BusyLoadingError("Redis is loading the dataset in memory"), EngineUnavailable, "in a moment"),
        (exceptions.ConnectionError("max number of clients reached"), EngineUnavailable, "maxclients"),
        (
            exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."),
            EngineUnavailable,
            "raise",
        ),
        (exceptions.ResponseError(SCRIPT + "-OOM command not allowed"), EngineUnavailable, "nothing was changed"),
        (exceptions.ReadOnlyError("You can't write against a read only replica."), EngineUnavailable, "primary"),
        (exceptions.ResponseError(SCRIPT + "-READONLY You can't write"), EngineUnavailable, "primary"),
        (exceptions.ResponseError("MISCONF Errors writing to the AOF file"), EngineUnavailable, "disk"),
        (exceptions.ResponseError("NOREPLICAS Not enough good replicas"), EngineUnavailable, "replicas"),
        (exceptions.ResponseError("BUSY Redis is busy running a script."), EngineUnavailable, "SCRIPT KILL"),
        (exceptions.ClusterDownError("The cluster is down"), EngineUnavailable, "CLUSTER INFO"),
        (exceptions.ResponseError("CLUSTERDOWN The cluster is down"), EngineUnavailable, "CLUSTER INFO"),
        (exceptions.ResponseError("MOVED 12 10.0.0.1:6379"), EngineUnavailable, "another node"),
        (exceptions.TryAgainError("Multiple keys request during rehashing"), EngineUnavailable, "reshard"),
        (exceptions.RedisClusterException("Redis Cluster cannot be connected."), EngineUnavailable, "running"),
        (exceptions.AuthenticationError("invalid username-password pair"), ConfigError, "password"),
        (exceptions.NoPermissionError("this user has no permissions"), ConfigError, "~{jobs}* &{jobs}:bell"),
        (exceptions.ResponseError(SCRIPT + "The user executing the script can't publish"), ConfigError, "+@scripting"),
        (exceptions.ResponseError("WRONGTYPE Operation against a key"), ConfigError, "?prefix="),
        (exceptions.ResponseError(SCRIPT + "Unknown Redis command called from script"), ConfigError, "6.2"),
        (exceptions.ResponseError("DB index is out of range"), ConfigError, "no database"),
    ],
)
def test_an_error_says_where_it_happened_and_what_to_do(error: Exception, kind: type[Exception], expected: str) -> None:
    message = translated(error, "redis://here", "jobs")
    assert type(message) is kind
    assert str(message).startswith("redis://here: ")
    assert expected in str(message)


@pytest.mark.parametrize(
    "error", [exceptions.ResponseError("ERR something else"), EngineUnavailable("ours"), KeyError()]
)
def test_what_is_no_outage_stays_what_it_is(error: Exception) -> None:
    assert translated(error, "redis://here", "jobs") is error


class FakeConnections:
    """A wire to a server that says what a test wants."""

    def __init__(self, **info: str | Exception) -> None:
        self.address = parse("redis://here")
        self._info = info

    def command(self, *command: Any) -> Any:
        answer = self._info["_".join(command[1:] if command[0] == "INFO" else command).lower()]
        if isinstance(answer, Exception):
            raise answer
        return answer.encode() if command[0] == "INFO" else [command[2].encode(), answer.encode()]


def connections(**info: str | Exception) -> RedisConnections:
    return cast(RedisConnections, FakeConnections(**info))


@pytest.mark.parametrize("version", ["2.8.19", "5.0.14", "6.0.16", "6.1.240"])
def test_an_old_server_is_refused(version: str) -> None:
    with pytest.raises(ConfigError, match=rf"Redis {version}; headrace needs 6\.2"):
        health.refuse_old(connections(server=f"# Server\r\nredis_version:{version}\r\n"))


@pytest.mark.parametrize("version", ["redis_version:6.2.0", "redis_version:7.4.1", "redis_version:10.0", "", "odd:1"])
def test_a_server_that_is_new_enough_or_has_no_version_is_used(version: str) -> None:
    health.refuse_old(connections(server=version))


def test_a_server_without_info_is_used_with_a_warning() -> None:
    refusing = ConfigError("not allowed")
    silent = connections(
        server=refusing,
        memory=refusing,
        persistence=refusing,
        stats=refusing,
        replication=refusing,
        config_get_appendfsync=redis.ResponseError("unknown command 'CONFIG'"),
    )
    health.refuse_old(silent)
    assert ["INFO is not allowed" in finding for finding in map(str, health.findings_of_server(silent))] == [True]


def test_without_settings_the_plan_names_what_is_unknown() -> None:
    managed = connections(
        memory="maxmemory_policy:noeviction\r\nused_memory:1\r\nmaxmemory:0",
        persistence="aof_enabled:1",
        stats="evicted_keys:0",
        replication="role:master",
        config_get_appendfsync=redis.ResponseError("unknown command 'CONFIG'"),
    )
    assert ["CONFIG GET is not allowed" in finding for finding in map(str, health.findings_of_server(managed))] == [
        True
    ]
