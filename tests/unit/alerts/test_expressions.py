"""The conditions of alert rules: what can be written, what it means, and where an error is."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import InvalidAlert
from headrace.core.alerts.expressions import parsed
from headrace.core.metrics.catalog import METRICS


class Figures:
    """Readings of plain figures: by name, or by name and labels."""

    def __init__(self, **figures: float | None) -> None:
        self.figures: dict[str, float | None] = dict(figures)
        self.reads: list[tuple[str, dict[str, str], int | None]] = []

    def value(self, name: str, labels: Mapping[str, str], window: int | None) -> float | None:
        self.reads.append((name, dict(labels), window))
        return self.figures.get(name.replace(".", "_"))

    def baseline(self, name: str, labels: Mapping[str, str], window: int | None) -> float | None:
        return self.figures.get(f"usual_{name}")

    def labels(self, per: tuple[str, ...], window: int | None) -> list[dict[str, str]]:
        return []


def holds(text: str, **figures: float | None) -> bool | None:
    return parsed(text).evaluate(Figures(**figures), {}).holds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3 == 7", True),
        ("(1 + 2) * 3 == 9", True),
        ("10 - 2 - 3 == 5", True),
        ("12 / 2 / 3 == 2", True),
        ("-2 * 3 == -6", True),
        ("- -2 == 2", True),
        ("2 - -2 == 4", True),
        ("1 > 2 or 2 > 1 and 1 > 2", False),
        ("(1 > 2 or 2 > 1) and 1 > 2", False),
        ("2 > 1 or 2 > 1 and 1 > 2", True),
        ("not 1 > 2 and 2 > 1", True),
        ("not (1 > 2 or 2 > 1)", False),
        ("not not 2 >= 2", True),
        ("NOT 1 != 1 AND 2 <= 2", True),
        ("5% == 0.05", True),
        ("5m == 300 and 2h == 7200s and 1d == 24h and 500ms == .5", True),
        ("2GB == 2000MB and 1GiB == 1024MiB and 1kB == 1000B", True),
    ],
)
def test_numbers_units_and_the_strength_of_signs(text: str, expected: bool) -> None:
    assert holds(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("depth > 0", None),
        ("not depth > 0", None),
        ("depth + 1 > 0", None),
        ("1 / 0 > 0", None),
        ("depth > 0 and 1 > 2", False),
        ("1 > 2 and depth > 0", False),
        ("depth > 0 or 2 > 1", True),
        ("depth > 0 or 1 > 2", None),
        ("depth > 0 and 2 > 1", None),
        ("absent(depth)", True),
        ("absent(oldest)", False),
        ("baseline(depth) > 1", None),
    ],
)
def test_no_figure_is_neither_true_nor_false(text: str, expected: bool | None) -> None:
    assert holds(text, depth=None, oldest=0) is expected


def test_a_measure_is_read_with_its_labels_and_window_and_only_once() -> None:
    figures = Figures(error_rate=0.1, depth=3, depth_running=2, usual_depth=1)
    text = """error_rate{queue='mail', task="send"}[10m] > 5% and error_rate{queue="mail", task="send"}[10m] < 1
              and depth > 2 * baseline(depth) and depth.running == 2 and store_bytes >= 0"""
    answer = parsed(text).evaluate(figures, {"queue": "other"})
    assert figures.reads == [
        ("error_rate", {"queue": "mail", "task": "send"}, 600_000),
        ("depth", {"queue": "other"}, None),
        ("depth.running", {"queue": "other"}, None),
        ("store_bytes", {}, None),
    ]
    assert answer.holds is None
    assert answer.figures['error_rate{queue="mail", task="send"}[10m]'] == 0.1
    assert answer.figures["baseline(depth)"] == 1


def test_the_default_window_is_five_minutes() -> None:
    assert [reading.window for reading in parsed("failed > 0 or depth > 0").metrics()] == [300_000, None]


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("depth > > 5", 9, "expected a metric, a number or '('"),
        ("depth >", 8, "expected a metric, a number or '('"),
        ("dept > 5", 1, "did you mean 'depth'?"),
        ("depth > 5 5", 11, "expected an operator or the end"),
        ("(depth > 5", 11, "expected ')'"),
        ("depth", 1, "that is a number, not a condition"),
        ("depth > 5 and 3", 11, "'and' joins conditions"),
        ("(depth > 5) + 3 > 1", 13, "'+' goes between numbers"),
        ("not depth", 1, "'not' goes before a condition"),
        ("1 < depth < 5", 11, "comparisons can't be chained"),
        ("depth > 5 parsecs", 11, "expected an operator or the end"),
        ("depth > 5parsecs", 9, "there is no unit 'parsecs'"),
        ("depth[5m] > 5", 7, "it has no window"),
        ("failed[5] > 5", 8, "a length of time such as 5m"),
        ("failed[2GB] > 5", 8, "a length of time such as 5m"),
        ("failed[1s] > 5", 8, "a window is from 10s to 90d"),
        ("failed[5m > 5", 11, "expected ']'"),
        ("depth{task='x'} > 5", 7, "use queue, each once"),
        ("store_bytes{queue='x'} > 5", 13, "it has no labels"),
        ("depth{queue=mail} > 5", 13, "a text in quotes"),
        ("depth{queue='a' queue='b'} > 5", 17, "expected ',' or '}'"),
        ("depth{queue='a', queue='b'} > 5", 18, "each once"),
        ("depth{queue='mail > 5", 13, "unexpected character"),
        ("depth > 5; import os", 10, "unexpected character"),
        ("__import__('os') > 1", 1, "expected a metric"),
        ("baseline(5) > 1", 10, "expected a metric"),
        ("depth > " + 400 * "9", 9, "too large"),
    ],
)
def test_an_error_points_at_its_place(text: str, column: int, expected: str) -> None:
    with pytest.raises(InvalidAlert) as raised:
        parsed(text)
    message, line, caret = str(raised.value).split("\n")
    assert expected in message
    assert f"at column {column}" in message
    assert line == f"  {text}"
    assert caret.index("^") == column + 1


@pytest.mark.parametrize("text", ["", "  ", None, 5, "1 > 0 and " * 200 + "1 > 0", "(" * 150 + "1", "x" * 3000])
def test_what_is_no_text_or_far_too_long_is_refused(text: object) -> None:
    with pytest.raises(InvalidAlert, match="when: "):
        parsed(text)


PIECES = st.sampled_from(
    [*METRICS, *"+-*/()<>{}[],=", ">=", "and", "or", "not", "5m", "5%", '"x"', "baseline", "1", "\n"]
)


@given(st.lists(PIECES, max_size=25).map(" ".join) | st.text(max_size=60))
def test_whatever_is_written_is_a_condition_or_an_error_that_says_so(text: str) -> None:
    try:
        condition = parsed(text)
    except InvalidAlert:
        return
    assert condition.evaluate(Figures(), {}).holds in (True, False, None)
    assert parsed(condition.text) == condition
