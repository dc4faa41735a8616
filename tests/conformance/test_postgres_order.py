"""PostgreSQL: whatever a worker writes about several of its jobs at once, nobody has to be undone for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from operator import attrgetter

import psycopg
import pytest

from headrace.core.model import Lease
from headrace.engines.postgres import server
from headrace.engines.postgres.engine import PostgresEngine
from tests import servers
from tests.conformance.build import (
    LEASE,
    NOW,
    SECOND,
    claim,
    lease_of,
    new_job,
    progress,
    retry,
    settle,
    succeed,
    worker_row,
)
from tests.conformance.stores import StoreUnderTest
from tests.patience import PATIENCE

pytestmark = pytest.mark.engines("postgres")

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY (%s) AND wait_event_type = 'Lock'"
Act = Callable[[PostgresEngine, list[Lease]], object]


def renew(engine: PostgresEngine, leases: list[Lease]) -> None:
    engine.renew(worker_row(), leases, LEASE, now=NOW)


def complete(engine: PostgresEngine, leases: list[Lease]) -> None:
    assert settle(engine, *map(succeed, leases)) == []


def try_later(engine: PostgresEngine, leases: list[Lease]) -> None:
    assert settle(engine, *(retry(lease, NOW + SECOND) for lease in leases)) == []


def note(engine: PostgresEngine, leases: list[Lease]) -> None:
    engine.exchange([], None, [progress(lease, "1") for lease in leases], now=NOW)


def wait_until_held_up(address: str, engine: PostgresEngine, acts: int) -> None:
    watch, deadline = servers.postgres_connection(address), time.monotonic() + PATIENCE
    while watch.execute(WAITING, [list(engine.server._backends.values())]).fetchone() != (acts,):
        assert time.monotonic() < deadline, "nobody waits"
        time.sleep(0.005)


@pytest.mark.parametrize("renews_in_order", [True, False])
@pytest.mark.parametrize("act", [complete, try_later, note])
def test_a_renewal_and_what_is_handed_in_meanwhile_wait_for_each_other_in_one_order(
    store: StoreUnderTest, monkeypatch: pytest.MonkeyPatch, act: Act, renews_in_order: bool
) -> None:
    """Both are stopped at the job in the middle: then each would have an end that the other one still wants."""
    undone: list[str] = []
    monkeypatch.setattr(server, "_step_aside", lambda: undone.append("once"))
    engine = store.open()
    assert isinstance(engine, PostgresEngine)
    engine.insert([new_job(name) for name in ("a", "middle", "z")], now=NOW)
    held = [lease_of(each) for each in sorted(claim(engine), key=attrgetter("id"))]
    orders = (held, held[::-1]) if renews_in_order else (held[::-1], held)
    with (
        ThreadPoolExecutor(2) as crew,
        closing(psycopg.connect(servers._without(store.address, "schema"))) as other,
    ):
        table = f'"{engine.address.schema}".headrace_jobs'
        other.execute(f"SELECT FROM {table} WHERE id = 'middle' FOR UPDATE")
        renewal = crew.submit(renew, engine, orders[0])
        wait_until_held_up(store.address, engine, 1)
        handed_in = crew.submit(act, engine, orders[1])
        wait_until_held_up(store.address, engine, 2)
        other.commit()
        renewal.result(PATIENCE)
        handed_in.result(PATIENCE)
    assert undone == []
