"""Numbers, durations and times as the dashboard shows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headrace.web.pages import formatting

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "–"),
        (0, "0"),
        (999, "999"),
        (1234, "1,234"),
        (9_999, "9,999"),
        (12_345, "12.3k"),
        (999_999, "1,000k"),
        (1_234_567, "1.23M"),
        (2_500_000_000, "2.5B"),
        (2.5, "2.5"),
        (0.123, "0.12"),
        (12.34, "12.3"),
    ],
)
def test_a_count_is_brief(number: float | None, text: str) -> None:
    assert formatting.brief(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (-1, "0 ms"),
        (0.0004, "0.4 ms"),
        (0.0123, "12 ms"),
        (0.9999, "1.0 s"),
        (3.21, "3.2 s"),
        (59.96, "1 min"),
        (250, "4 min 10 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (200_000, "2 d 7 h"),
    ],
)
def test_a_duration_is_shown_in_two_units(seconds: float | None, text: str) -> None:
    assert formatting.span(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "now"), (-5, "in 5 s"), (59, "59 s ago"), (61, "1 min ago"), (-7200, "in 2 h"), (200_000, "2 d ago")],
)
def test_a_time_is_shown_relative_to_now(seconds: float, text: str) -> None:
    assert formatting.distance(NOW - timedelta(seconds=seconds), NOW) == text


def test_shares_and_sizes() -> None:
    assert [formatting.share(part) for part in (None, 0, 0.004, 0.01, 0.123, 1)] == [
        "–",
        "0%",
        "0.4%",
        "1%",
        "12%",
        "100%",
    ]
    assert [formatting.size(count) for count in (None, 10, 2048, 150_000_000)] == ["–", "10 B", "2.0 KB", "143 MB"]


def test_values_are_json_that_the_form_takes_again() -> None:
    assert formatting.plain_json((1, "two")) == '[\n  1,\n  "two"\n]'
    assert "$" in formatting.plain_json([NOW])  # tagged: JSON has no word for it


def test_an_exact_moment_says_its_zone() -> None:
    assert formatting.stamp(NOW) == "2025-06-01 12:00:00.000 UTC"
    assert formatting.iso(NOW) == "2025-06-01T12:00:00.000Z"
