"""PostgreSQL: what a claim costs in a store with many queues. Each statement of a claim reads all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.engines.postgres import settle_and_claim
from headrace.engines.postgres.engine import PostgresEngine
from tests.support import servers
from tests.support.builders import NOW, claim, new_job
from tests.support.engines import KINDS

pytestmark = pytest.mark.skipif("postgres" not in KINDS, reason="not among $HEADRACE_TEST_ENGINES")


@pytest.fixture
def engine() -> Iterator[PostgresEngine]:
    url = servers.postgres_url()
    engine = PostgresEngine(url)
    yield engine
    engine.close()
    servers.drop(url)


def test_what_is_left_of_a_claim_is_filled_by_one_statement(
    engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.insert([new_job(f"job-{number}", queue=f"queue-{number}") for number in range(50)], now=NOW)
    statements, run = [], settle_and_claim._claimed

    def counted(*what: Any) -> settle_and_claim.ClaimResult:
        statements.append(what)
        return run(*what)

    monkeypatch.setattr(settle_and_claim, "_claimed", counted)
    assert len(claim(engine, 40)) == 40
    assert len(statements) <= 2, "one for the shares, one for the rest"
