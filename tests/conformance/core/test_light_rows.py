"""Light reads: a list or a look at the state does not read arguments and results that are long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.codec import codec
from headrace.core.jobs.light_rows import LEFT_OUT, LONGEST, completed
from headrace.core.jobs.records import Filter, JobRow
from headrace.engines.protocol.engine import Engine
from headrace.engines.redis.engine import RedisEngine
from tests.support import servers
from tests.support.builders import EVERYTHING, NOW, claim, new_job, settle, succeed
from tests.support.servers import RedisServer

LONG_CALL, LONG_RESULT = f'[["{"p" * 500_000}"],{{}}]', f'"{"r" * 900_000}"'
LOOKS: dict[str, Callable[[Engine], list[JobRow]]] = {
    "get": lambda engine: engine.queries.get(["job"], light=True),
    "find": lambda engine: engine.queries.find(EVERYTHING, 10, light=True).jobs,
    "found by a text": lambda engine: engine.queries.find(Filter(text="ppp"), 10, light=True).jobs,
    "found by its id": lambda engine: engine.queries.find(Filter(ids=("job",)), 10, light=True).jobs,
}
look = pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)


def a_job(engine: Engine, payload: str, result: str | None) -> JobRow:
    """A completed job, as a whole read tells it."""
    engine.insert([new_job("job", payload=payload, checksum=codec.checksum(payload))], now=NOW)
    (claimed,) = claim(engine)
    settle(engine, succeed(claimed, result=result))
    [whole] = engine.queries.get(["job"])
    return whole


@look
def test_what_is_long_is_left_out_and_nothing_else(engine: Engine, look: Callable[[Engine], list[JobRow]]) -> None:
    whole = a_job(engine, LONG_CALL, LONG_RESULT)
    assert (whole.payload, whole.result) == (LONG_CALL, LONG_RESULT)
    [light] = look(engine)
    assert (light.payload, light.result) == (LEFT_OUT, LEFT_OUT)
    assert completed(light, whole) == whole


@look
def test_what_is_short_is_there(engine: Engine, look: Callable[[Engine], list[JobRow]]) -> None:
    payload = f'[["{"p" * (LONGEST - 9)}"],{{}}]'
    assert len(payload) == LONGEST
    whole = a_job(engine, payload, None)
    assert look(engine) == [whole]


def test_one_that_is_long_does_not_hide_the_other(engine: Engine) -> None:
    whole = a_job(engine, "[[1],{}]", LONG_RESULT)
    [light] = engine.queries.get(["job"], light=True)
    assert (light.payload, light.result) == (whole.payload, LEFT_OUT)


def test_a_light_look_ahead(engine: Engine) -> None:
    engine.insert([new_job("short"), new_job("long", payload=LONG_CALL)], now=NOW)
    assert [job.payload for job in engine.queries.peek("default", 10, light=True)] == [
        engine.queries.get(["short"])[0].payload,
        LEFT_OUT,
    ]


@pytest.mark.engines("redis")
def test_a_light_read_of_a_damaged_record_tells_what_is_left(redis_engine: RedisEngine) -> None:
    a_job(redis_engine, LONG_CALL, LONG_RESULT)
    ask, tag = redis_engine.connections.command, f"{{{redis_engine.prefix}}}"
    number = ask("HGET", f"{tag}:ids", "job")
    ask("HSET", f"{tag}:jobs", number, ask("HGET", f"{tag}:jobs", number)[:2000])
    assert redis_engine.queries.get(["job"], light=True) == redis_engine.queries.get(["job"])


@pytest.mark.slow
@pytest.mark.engines("redis")
def test_bytes_that_a_light_list_takes_out_of_redis(quiet_store: RedisEngine, quiet_redis: RedisServer) -> None:
    jobs = [new_job(f"j{n}", payload=LONG_CALL, checksum=codec.checksum(LONG_CALL)) for n in range(40)]
    quiet_store.insert(jobs, now=NOW)
    settle(quiet_store, *(succeed(claimed, result=LONG_RESULT) for claimed in claim(quiet_store, limit=40)))
    connection = servers.redis_connection(quiet_redis.url)

    def sent() -> int:
        told: Any = connection.info("stats")
        return int(told["total_net_output_bytes"])

    before = sent()
    assert len(quiet_store.queries.find(EVERYTHING, 40, light=True).jobs) == 40
    assert sent() - before < 200_000
