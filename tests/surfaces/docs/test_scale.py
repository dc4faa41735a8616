"""The page about scale shows what the bench has read: a picture for each axis, drawn from stored readings."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from bench.places import ENGINES
from bench.scale import report
from bench.scale.axes import NAMES
from bench.scale.readings import Readings
from docs.tools.page import ROOT, Page

PAGE = Page(ROOT / "docs/discussion/how-far-it-scales.md")
MEASURED = ROOT / "bench/scale/measured"
_STEPS = (1000, 2000, 10**5, 10**6)  # not rates
PICTURES = ROOT / "docs/images"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    for name in ("readings.jsonl", "facts.json"):
        (folder / name).write_bytes((MEASURED / name).read_bytes())
    report.write(Readings(folder), folder, 2)
    return folder


@pytest.mark.parametrize("axis", NAMES)
def test_the_page_has_a_picture_of_each_axis_as_the_bench_draws_it(axis: str, drawn: Path) -> None:
    name = f"scale-{axis}.svg"
    assert f"../images/{name}" in PAGE.links
    assert (PICTURES / name).read_text("utf-8") == (drawn / name).read_text("utf-8")


def test_no_picture_of_scale_is_left_over() -> None:
    assert {path.name for path in PICTURES.glob("scale-*")} == {f"scale-{name}.svg" for name in NAMES}


@pytest.mark.parametrize("axis", NAMES)
def test_each_axis_was_read_on_every_engine(axis: str) -> None:
    read = Counter(one.engine for one in Readings(MEASURED).all() if one.axis == axis and not one.error)
    assert min(read[engine] for engine in ENGINES) >= 2


def test_each_rate_of_the_first_table_is_near_a_reading() -> None:
    rates = [value for one in Readings(MEASURED).all() for value in one.rates.values()]
    table = [line for line in PAGE.lines if line.startswith("| [")]
    figures = [int(text.replace(",", "")) for line in table for text in re.findall(r"\b\d{1,3}(?:,\d{3})+\b", line)]
    assert len(table) == 3
    assert figures
    for figure in figures:
        assert any(abs(figure - rate) <= 0.03 * rate for rate in rates) or figure in _STEPS, figure
