"""A job outside of every index matches a filter as one in a store does."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State
from headrace.core.retention.matching import matches
from headrace.runtime.jobs.rows import as_row
from tests.support.builders import NOW, new_job

ROW = as_row(
    new_job("j1", queue="mail", task="send", tags=("user:42",), payload='[["ann"],{}]', metadata='{"a":"bob"}')
)
JOB = replace(ROW, worker="w1", flow="f1", reason="too late")


def test_every_filter_has_to_match() -> None:
    fitting: dict[str, Any] = {
        "ids": ("j1", "j2"),
        "states": (State.PENDING,),
        "queue": "mail",
        "task": "send",
        "tag": "user:42",
        "worker": "w1",
        "flow": "f1",
        "text": "ann",
        "since": NOW,
        "until": NOW + 1,
    }
    other: dict[str, Any] = {
        "ids": ("j2",),
        "states": (State.FAILED,),
        "queue": "m",
        "task": "s",
        "tag": "user:4",
        "worker": "w",
        "flow": "f",
        "text": "eve",
        "since": NOW + 1,
        "until": NOW,
    }
    assert matches(Filter(), JOB)
    assert matches(Filter(**fitting), JOB)
    assert not [name for name, value in other.items() if matches(Filter(**{**fitting, name: value}), JOB)]


def test_a_text_is_searched_where_a_store_searches_it() -> None:
    assert all(matches(Filter(text=text), JOB) for text in ("j1", "end", "ann", "bob", "too late"))
    for mark in ("$sealed", "$stored"):
        assert not matches(Filter(text="ann"), replace(JOB, payload=f'{{"{mark}":"ann"}}'))
