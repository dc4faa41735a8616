"""What is said of how long jobs may stay: by code and, over it, by an operator."""

from __future__ import annotations

from headrace.core.retention.lifecycle import Terms, TermsRow
from headrace.engines.protocol.engine import Engine
from tests.support.engines import StoreUnderTest

SHORT = Terms(max_pending=600_000, on_stale="fail", remove_on_complete=True)
LONG = Terms(max_pending=None, max_age=86_400_000, archive=False, remove_on_fail=5)


def test_what_is_declared_and_ordered_is_kept_side_by_side_by_kind_and_name(engine: Engine) -> None:
    assert engine.upkeep.terms() == []
    engine.upkeep.declare_terms([TermsRow("task", "send", SHORT), TermsRow("task", "ask ☃", LONG)])
    engine.upkeep.order_terms("queue", "mail", LONG)
    engine.upkeep.order_terms("task", "send", LONG)
    assert engine.upkeep.terms() == [
        TermsRow("queue", "mail", Terms(), LONG),
        TermsRow("task", "ask ☃", LONG, Terms()),
        TermsRow("task", "send", SHORT, LONG),
    ]


def test_a_value_comes_back_as_it_was_said(engine: Engine) -> None:
    """True is not 1: one removes every job, the other keeps the newest."""
    for said in (Terms(remove_on_complete=True), Terms(remove_on_complete=1), Terms(remove_on_fail=False)):
        engine.upkeep.order_terms("task", "send", said)
        [row] = engine.upkeep.terms()
        assert repr(row.ordered) == repr(said)


def test_to_declare_leaves_orders_and_to_order_leaves_declarations(engine: Engine) -> None:
    engine.upkeep.order_terms("task", "send", LONG)
    engine.upkeep.declare_terms([TermsRow("task", "send", SHORT, SHORT)])
    assert engine.upkeep.terms() == [TermsRow("task", "send", SHORT, LONG)]
    engine.upkeep.order_terms("task", "send", SHORT)
    assert engine.upkeep.terms() == [TermsRow("task", "send", SHORT, SHORT)]


def test_what_says_nothing_any_more_is_gone(engine: Engine) -> None:
    engine.upkeep.declare_terms([TermsRow("task", "send", SHORT)])
    engine.upkeep.order_terms("task", "send", LONG)
    engine.upkeep.declare_terms([TermsRow("task", "send"), TermsRow("task", "other")])
    assert engine.upkeep.terms() == [TermsRow("task", "send", Terms(), LONG)]
    engine.upkeep.order_terms("task", "send", None)
    engine.upkeep.declare_terms([])
    assert engine.upkeep.terms() == []


def test_others_see_it_too(store: StoreUnderTest) -> None:
    store.open().upkeep.order_terms("queue", "mail", SHORT)
    assert store.open().upkeep.terms() == [TermsRow("queue", "mail", Terms(), SHORT)]
