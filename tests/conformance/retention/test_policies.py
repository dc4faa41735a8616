"""What is said of how long jobs may stay: by code and, over it, by an operator."""

from __future__ import annotations

from headrace.core.retention.lifecycle import PolicyRow, StoredPolicy
from headrace.engines.protocol.engine import Engine
from tests.support.engines import StoreUnderTest

SHORT = StoredPolicy(max_pending=600_000, on_stale="fail", remove_on_complete=True)
LONG = StoredPolicy(max_pending=None, max_age=86_400_000, archive=False, remove_on_fail=5)


def test_what_is_declared_and_ordered_is_kept_side_by_side_by_kind_and_name(engine: Engine) -> None:
    assert engine.staleness_store.policies() == []
    engine.staleness_store.declare_policy([PolicyRow("task", "send", SHORT), PolicyRow("task", "ask ☃", LONG)])
    engine.staleness_store.override_policy("queue", "mail", LONG)
    engine.staleness_store.override_policy("task", "send", LONG)
    assert engine.staleness_store.policies() == [
        PolicyRow("queue", "mail", StoredPolicy(), LONG),
        PolicyRow("task", "ask ☃", LONG, StoredPolicy()),
        PolicyRow("task", "send", SHORT, LONG),
    ]


def test_a_value_comes_back_as_it_was_said(engine: Engine) -> None:
    """True is not 1: one removes every job, the other keeps the newest."""
    for said in (
        StoredPolicy(remove_on_complete=True),
        StoredPolicy(remove_on_complete=1),
        StoredPolicy(remove_on_fail=False),
    ):
        engine.staleness_store.override_policy("task", "send", said)
        [row] = engine.staleness_store.policies()
        assert repr(row.override) == repr(said)


def test_to_declare_leaves_orders_and_to_order_leaves_declarations(engine: Engine) -> None:
    engine.staleness_store.override_policy("task", "send", LONG)
    engine.staleness_store.declare_policy([PolicyRow("task", "send", SHORT, SHORT)])
    assert engine.staleness_store.policies() == [PolicyRow("task", "send", SHORT, LONG)]
    engine.staleness_store.override_policy("task", "send", SHORT)
    assert engine.staleness_store.policies() == [PolicyRow("task", "send", SHORT, SHORT)]


def test_what_says_nothing_any_more_is_gone(engine: Engine) -> None:
    engine.staleness_store.declare_policy([PolicyRow("task", "send", SHORT)])
    engine.staleness_store.override_policy("task", "send", LONG)
    engine.staleness_store.declare_policy([PolicyRow("task", "send"), PolicyRow("task", "other")])
    assert engine.staleness_store.policies() == [PolicyRow("task", "send", StoredPolicy(), LONG)]
    engine.staleness_store.override_policy("task", "send", None)
    engine.staleness_store.declare_policy([])
    assert engine.staleness_store.policies() == []


def test_others_see_it_too(store: StoreUnderTest) -> None:
    store.open().staleness_store.override_policy("queue", "mail", SHORT)
    assert store.open().staleness_store.policies() == [PolicyRow("queue", "mail", StoredPolicy(), SHORT)]
