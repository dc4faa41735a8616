"""Figures as SVG: what is drawn adds up, nothing disappears, and no text gets out of its attribute."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from headrace.core.jobs.states import State
from headrace.web.pages import charts
from headrace.web.pages.charts import ChartLine, Piece, Point

START = datetime(2025, 6, 1, tzinfo=UTC)


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def widths(svg: str) -> list[float]:
    return [float(rect.attrib["width"]) for rect in parsed(svg).iter("rect")]


@pytest.mark.parametrize(
    ("values", "top"),
    [
        ([], 1),
        ([0, None], 1),
        ([1], 1),
        ([1.1], 2),
        ([7], 10),
        ([23], 25),
        ([0.03], 0.05),
        ([999], 1000),
        ([1000], 1000),
    ],
)
def test_an_axis_ends_at_a_round_number(values: list[float | None], top: float) -> None:
    assert charts.ceiling(values) == pytest.approx(top)


def test_the_parts_of_a_bar_fill_it() -> None:
    drawn = widths(charts.bar([Piece(1, "failed"), Piece(3, "completed")], "states"))
    assert drawn == [150.0, 450.0]


def test_a_part_too_small_to_see_is_seen() -> None:
    drawn = widths(charts.bar([Piece(1, "failed"), Piece(1_000_000, "completed"), Piece(0, "pending")], "states"))
    assert len(drawn) == 2
    assert drawn[0] >= 3
    assert sum(drawn) == pytest.approx(600, abs=0.2)


def test_a_bar_of_nothing_is_empty() -> None:
    svg = charts.states(dict.fromkeys(State, 0), "states")
    assert 'class="color-none"' in svg
    assert widths(svg) == [600.0]


@pytest.mark.parametrize(("part", "full"), [(-1.0, 0.0), (0.5, 300.0), (7.0, 600.0)])
def test_a_gauge_stays_within_its_bounds(part: float, full: float) -> None:
    drawn = {rect.attrib["class"]: rect.attrib["width"] for rect in parsed(charts.gauge(part, "busy")).iter("rect")}
    assert float(drawn.get("color-accent", 0)) == full


def test_a_gap_in_what_was_measured_is_a_gap_in_the_line() -> None:
    values = [1.0, 2.0, None, 3.0, 1.0]
    points = [Point(START + timedelta(seconds=10 * n), value) for n, value in enumerate(values)]
    svg = charts.series([ChartLine("a", points)], "a")
    assert len(re.findall(r'class="line color-accent"', svg)) == 2


def test_a_lone_point_is_visible() -> None:
    svg = charts.sparkline([None, 5.0, None], "a")
    (line,) = re.findall(r'class="line color-accent" d="M([^"]+)"', svg)
    assert "L" in line


def test_no_data_is_shown_as_text() -> None:
    assert "no data" in charts.sparkline([None, None], "a")


def test_slots_are_cells_and_many_of_them_a_gauge() -> None:
    svg = charts.cells(2, 5, "busy")
    colors = [rect.attrib["class"] for rect in parsed(svg).iter("rect")]
    assert colors == ["color-running"] * 2 + ["color-none"] * 3
    assert len(widths(charts.cells(70, 100, "busy"))) == 2


def test_what_users_wrote_stays_text() -> None:
    hostile = '"><script>alert(1)</script>'
    for svg in (
        charts.bar([Piece(1, "failed", hostile)], hostile),
        charts.sparkline([1.0], hostile),
        charts.sparkline([None], hostile),
    ):
        assert "<script" not in svg
        parsed(svg)
