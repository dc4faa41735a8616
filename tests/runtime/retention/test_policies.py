"""What is said of how long jobs may stay: by code and, over it, by an operator."""

from __future__ import annotations

import pytest

from headrace.app.app import Headrace
from headrace.core.retention.lifecycle import PolicyRow, StoredPolicy
from headrace.engines.protocol.documents import DocumentStore
from headrace.runtime.retention.policies import declare_policies, override_policy, policies, replace_policies

SHORT = StoredPolicy(max_pending=600_000, on_stale="fail", remove_on_complete=True)
LONG = StoredPolicy(max_pending=None, max_age=86_400_000, archive=False, remove_on_fail=5)


@pytest.fixture
def store(app: Headrace) -> DocumentStore:
    return app.engine.document_store


def test_what_is_declared_and_ordered_is_kept_side_by_side_by_kind_and_name(store: DocumentStore) -> None:
    assert policies(store) == []
    declare_policies(store, [PolicyRow("task", "send", SHORT), PolicyRow("task", "ask ☃", LONG)])
    override_policy(store, "queue", "mail", lambda _: LONG)
    override_policy(store, "task", "send", lambda _: LONG)
    assert policies(store) == [
        PolicyRow("queue", "mail", StoredPolicy(), LONG),
        PolicyRow("task", "ask ☃", LONG, StoredPolicy()),
        PolicyRow("task", "send", SHORT, LONG),
    ]


def test_a_value_comes_back_as_it_was_said(store: DocumentStore) -> None:
    """True is not 1: one removes every job, the other keeps the newest."""
    for said in (
        StoredPolicy(remove_on_complete=True),
        StoredPolicy(remove_on_complete=1),
        StoredPolicy(remove_on_fail=False),
    ):
        replace_policies(store, [PolicyRow("task", "send", override=said)])
        [row] = policies(store)
        assert repr(row.override) == repr(said)


def test_to_declare_leaves_orders_and_to_order_leaves_declarations(store: DocumentStore) -> None:
    override_policy(store, "task", "send", lambda _: LONG)
    declare_policies(store, [PolicyRow("task", "send", SHORT, SHORT)])
    assert policies(store) == [PolicyRow("task", "send", SHORT, LONG)]
    override_policy(store, "task", "send", lambda _: SHORT)
    assert policies(store) == [PolicyRow("task", "send", SHORT, SHORT)]


def test_what_says_nothing_any_more_is_gone(store: DocumentStore) -> None:
    declare_policies(store, [PolicyRow("task", "send", SHORT)])
    override_policy(store, "task", "send", lambda _: LONG)
    declare_policies(store, [PolicyRow("task", "send"), PolicyRow("task", "other")])
    assert policies(store) == [PolicyRow("task", "send", StoredPolicy(), LONG)]
    override_policy(store, "task", "send", lambda _: StoredPolicy())
    declare_policies(store, [])
    assert policies(store) == []
