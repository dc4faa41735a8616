"""What is said of how long jobs may stay: by code and, over it, by an operator."""

from __future__ import annotations

from headrace.core.retention.lifecycle import PolicyRow, StoredPolicy
from headrace.engines.protocol.engine import Engine
from tests.support.engines import StoreUnderTest

SHORT = StoredPolicy(max_pending=600_000, on_stale="fail", remove_on_complete=True)
LONG = StoredPolicy(max_pending=None, max_age=86_400_000, archive=False, remove_on_fail=5)


def test_what_is_declared_and_ordered_is_kept_side_by_side_by_kind_and_name(engine: Engine) -> None:
    assert engine.upkeep.terms() == []
    engine.upkeep.declare_terms([PolicyRow("task", "send", SHORT), PolicyRow("task", "ask ☃", LONG)])
    engine.upkeep.order_terms("queue", "mail", LONG)
    engine.upkeep.order_terms("task", "send", LONG)
    assert engine.upkeep.terms() == [
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
        engine.upkeep.order_terms("task", "send", said)
        [row] = engine.upkeep.terms()
        assert repr(row.ordered) == repr(said)


def test_to_declare_leaves_orders_and_to_order_leaves_declarations(engine: Engine) -> None:
    engine.upkeep.order_terms("task", "send", LONG)
    engine.upkeep.declare_terms([PolicyRow("task", "send", SHORT, SHORT)])
    assert engine.upkeep.terms() == [PolicyRow("task", "send", SHORT, LONG)]
    engine.upkeep.order_terms("task", "send", SHORT)
    assert engine.upkeep.terms() == [PolicyRow("task", "send", SHORT, SHORT)]


def test_what_says_nothing_any_more_is_gone(engine: Engine) -> None:
    engine.upkeep.declare_terms([PolicyRow("task", "send", SHORT)])
    engine.upkeep.order_terms("task", "send", LONG)
    engine.upkeep.declare_terms([PolicyRow("task", "send"), PolicyRow("task", "other")])
    assert engine.upkeep.terms() == [PolicyRow("task", "send", StoredPolicy(), LONG)]
    engine.upkeep.order_terms("task", "send", None)
    engine.upkeep.declare_terms([])
    assert engine.upkeep.terms() == []


def test_others_see_it_too(store: StoreUnderTest) -> None:
    store.open().upkeep.order_terms("queue", "mail", SHORT)
    assert store.open().upkeep.terms() == [PolicyRow("queue", "mail", StoredPolicy(), SHORT)]
