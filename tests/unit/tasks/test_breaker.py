"""The state of a circuit breaker, and the words for it."""

from __future__ import annotations

import pytest

from headrace.core.tasks.breaker import BreakerRecord, BreakerRule, BreakerState, summary_of

RULE = BreakerRule(failures=2, open_for=1000)


def test_a_breaker_fails_then_opens_and_tries_until_a_call_succeeds() -> None:
    failing = BreakerRecord().after_failure(RULE, "OSError", now=5000)
    assert failing.state(5000) == "failing"
    opened = failing.after_failure(RULE, "OSError", now=5000)
    assert [opened.state(now) for now in (5000, 5999, 6000, 90_000)] == ["open", "open", "trying", "trying"]
    tried = opened.tried(RULE, now=6000)
    assert [tried.state(now) for now in (6000, 7000)] == ["trying", "trying"]
    assert tried.after_failure(RULE, "OSError", now=6500).state(7000) == "open"


@pytest.mark.parametrize(
    ("state", "failures", "summary"),
    [
        ("open", 5, "open after 5 failures (OSError)"),
        ("open", 1, "open after 1 failure (OSError)"),
        ("trying", 5, "trying again after 5 failures (OSError)"),
        ("failing", 2, "2 failures in a row (OSError)"),
        ("failing", 1, "1 failure in a row (OSError)"),
    ],
)
def test_the_summary_says_what_is_wrong(state: BreakerState, failures: int, summary: str) -> None:
    assert summary_of(state, failures, "OSError") == summary
