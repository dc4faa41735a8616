"""Looking at the raw store: names, kinds and sizes of what it is made of, and nothing of what is in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from headrace.core.health.findings import MAINTENANCE_KINDS, StoragePart
from headrace.engines.protocol.engine import Engine
from headrace.engines.redis.engine import RedisEngine
from headrace.engines.sqlite import health
from tests.support.builders import NOW, new_job


def parts(engine: Engine, pattern: str = "*", limit: int = 1000) -> dict[str, StoragePart]:
    return {part.name: part for part in engine.maintenance.storage(pattern, limit)}


def test_a_store_tells_its_parts_with_their_sizes(engine: Engine) -> None:
    engine.insert([new_job(f"job-{n}", payload='["secret-of-a-job"]') for n in range(7)], now=NOW)
    engine.maintenance.maintain(MAINTENANCE_KINDS, "all")  # PostgreSQL only estimates, and knows best after this
    found = parts(engine)
    jobs = found["jobs"]
    assert jobs.entries == 7
    assert jobs.bytes is not None
    assert 100 < jobs.bytes < 10**6
    assert jobs.expires is None
    assert jobs.kind in ("table", "hash")
    assert {"queues", "jobs"} <= found.keys()
    assert "secret-of-a-job" not in repr(found)


def test_a_pattern_and_a_limit_choose_among_the_parts(engine: Engine) -> None:
    engine.insert([new_job(f"job-{n}") for n in range(3)], now=NOW)
    assert parts(engine, "jobs").keys() == {"jobs"}
    assert parts(engine, "job?").keys() == {"jobs"}
    assert parts(engine, "[jk]obs").keys() == {"jobs"}
    assert "jobs" in parts(engine, "j*")
    assert parts(engine, "nothing*") == {}
    assert len(parts(engine, "*", 2)) == 2


@pytest.mark.engines("redis")
def test_a_name_that_is_no_text_can_be_told_in_json(redis_engine: RedisEngine) -> None:
    redis_engine.connections.command("SET", f"{{{redis_engine.prefix}}}:".encode() + b"caf\xe9", "x", "PX", 60_000)
    assert b"caf" in msgspec.json.encode(redis_engine.maintenance.storage("*", 1000))


@pytest.mark.engines("redis")
def test_a_key_that_expires_tells_when(redis_engine: RedisEngine) -> None:
    redis_engine.connections.command("SET", f"{{{redis_engine.prefix}}}:guest", "x", "PX", 60_000)
    borrowed = parts(redis_engine, "guest")["guest"]
    assert (borrowed.kind, borrowed.entries) == ("string", 1)
    assert borrowed.expires is not None
    assert 0 < borrowed.expires <= 60


@pytest.mark.engines("redis")
def test_keys_of_other_stores_are_not_told(redis_engine: RedisEngine) -> None:
    redis_engine.insert([new_job("a")], now=NOW)
    before = parts(redis_engine).keys()
    redis_engine.connections.command("SET", f"{{{redis_engine.prefix}-other}}:stranger", "x", "PX", 60_000)
    assert parts(redis_engine).keys() == before


@pytest.mark.engines("redis")
def test_no_command_looks_at_more_than_a_page_of_keys(
    redis_engine: RedisEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis_engine.insert([new_job(f"job-{n}", tags=(f"tag-{n}",)) for n in range(1500)], now=NOW)
    asked = list[tuple[object, ...]]()
    ask, run = redis_engine.connections.command, redis_engine.connections.run

    def note(call: Callable[..., Any], *args: Any, **how: Any) -> Any:
        asked.append(args)
        return call(*args, **how)

    monkeypatch.setattr(redis_engine.connections, "command", partial(note, ask))
    monkeypatch.setattr(redis_engine.connections, "run", partial(note, run))
    assert len(parts(redis_engine, "tag:*", 5000)) == 1500
    assert {args[0] for args in asked if isinstance(args[0], str)} == {"SCAN"}
    assert max(len(args) for args in asked) <= 101
    asked.clear()
    assert len(parts(redis_engine, "tag:*", 3)) == 3
    assert sum(not isinstance(args[0], str) for args in asked) == 1


@pytest.mark.engines("sqlite")
def test_an_sqlite_that_does_not_tell_bytes_tells_the_rest(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.insert([new_job("a")], now=NOW)
    monkeypatch.setattr(health, "_BYTES", health._BYTES.replace("dbstat", "no_such_table"))
    assert parts(engine, "jobs") == {"jobs": StoragePart(name="jobs", kind="table", entries=1, bytes=None)}
