"""Where a curve bends, and how it is drawn."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from bench.scale.axes import AXES, Axis, load_of
from bench.scale.bend import Bend, bend_of, bend_of_times
from bench.scale.drawing import Curve, Panel, picture
from bench.scale.log_scale import LogScale, scale_of, short
from bench.scale.readings import best


def test_a_rate_bends_at_the_first_step_below_four_fifths_of_the_best_before_it() -> None:
    assert bend_of([(1, 80.0), (10, 100.0), (100, 81.0), (1000, 79.0), (10_000, 10.0)]) == Bend(1000, 79.0, 10, 100.0)


@pytest.mark.parametrize("points", [[], [(1, 5.0)], [(1, 5.0), (10, 4.0)], [(1, 1.0), (10, 2.0), (100, 3.0)]])
def test_a_rate_that_keeps_up_does_not_bend(points: list[tuple[float, float]]) -> None:
    assert bend_of(points) is None


def test_a_dent_after_which_the_rate_comes_back_is_no_bend() -> None:
    assert bend_of([(1, 100.0), (10, 20.0), (100, 95.0)]) is None
    assert bend_of([(1, 100.0), (10, 20.0), (100, 95.0), (1000, 30.0)]) == Bend(1000, 30.0, 1, 100.0)


def test_another_share_may_be_asked_for() -> None:
    points = [(1, 100.0), (10, 70.0), (100, 49.0)]
    assert bend_of(points, below=0.5) == Bend(100, 49.0, 1, 100.0)


def test_a_time_bends_where_it_grows_and_a_share_above_one_says_so() -> None:
    bend = bend_of_times([(1, 2.0), (10, 2.1), (100, 8.0)])
    assert bend is not None
    assert [bend.step, bend.value, bend.best, bend.share] == pytest.approx([100, 8, 2, 4])
    assert bend_of_times([(1, 8.0), (10, 2.0)]) is None


def test_steps_end_at_the_bound_and_there_is_always_one() -> None:
    axis = Axis("keys", "keys", "keys", 1, 100_000)
    assert axis.steps(1e9) == [1, 10, 100, 1000, 10_000, 100_000]
    assert axis.steps(999) == [1, 10, 100]
    assert Axis("waiting", "jobs", "jobs", 10_000, 10_000_000).steps(5) == [10_000]
    assert Axis("processes", "workers", "workers", 1, 64, factor=2).steps(64) == [1, 2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.name)
def test_a_probe_never_waits_for_more_jobs_than_there_are(axis: Axis) -> None:
    for step in axis.steps(1e7):
        load = load_of(axis.name, step, 2000)
        assert load.warm_up < load.base + load.probe
        assert load.warm_up <= load.probe
        assert load.batch * load.payload <= max(8_000_000, load.payload)


def test_a_scale_spans_whole_decades_and_at_least_one() -> None:
    assert scale_of([3.0, 250.0]) == LogScale(0, 3)
    assert scale_of([100.0]) == LogScale(2, 3)
    assert scale_of([0.02, 0.5]) == LogScale(-2, 0)


def test_a_scale_places_its_ends_and_the_middle() -> None:
    scale = scale_of([1.0, 10_000.0])
    assert [scale.share(value) for value in (1, 100, 10_000)] == pytest.approx([0, 0.5, 1])
    assert scale.ticks() == [1, 10, 100, 1000, 10_000]
    assert scale_of([1.0, 1e7]).ticks() == [1, 100, 10_000, 1_000_000]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.25, "0.25"), (1, "1"), (1.5, "1.5"), (10, "10"), (100, "100"), (12_400, "12k"), (1e6, "1M")],
)
def test_numbers_beside_a_scale_are_short(value: float, text: str) -> None:
    assert short(value) == text


def test_a_picture_is_xml_and_keeps_every_name_as_text() -> None:
    name = '<script>"&'
    svg = picture(name, [Panel(name, name, (Curve(name, ((1, 5.0), (10, 2.0)), (10, 2.0)),))])
    root = ElementTree.fromstring(svg)
    assert "<script" not in svg
    texts = [element.text for element in root.iter() if element.text]
    assert texts.count(name) == 4  # the document's, the key's, the panel's, the axis's
    assert len(root.findall(".//{*}circle")) == 3  # two points, and the ring at the bend


def test_a_picture_draws_the_better_value_higher() -> None:
    svg = picture("rates", [Panel("drain", "jobs", (Curve("SQLite", ((1, 10.0), (10, 1000.0))),))])
    line = ElementTree.fromstring(svg).find(".//{*}polyline")
    assert line is not None
    (x1, y1), (x2, y2) = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    assert x1 < x2
    assert y1 > y2


def test_the_best_of_each_rate_counts() -> None:
    taken = [{"drain": 1.0, "p50": 7.0, "cores": 0.9}, {"drain": 3.0, "p50": 9.0, "cores": 0.5, "create": 4.0}]
    assert best(taken) == {"drain": 3.0, "p50": 7.0, "cores": 0.5, "create": 4.0}
