"""Cases that many tests have in common, and many cases of one rule in one test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pytest
from _pytest.mark import ParameterSet

from tests.support.engines import KINDS

Case = TypeVar("Case")


def _pairs() -> Iterator[ParameterSet]:
    names = list(KINDS)
    for number, source in enumerate(names):
        for target in names:
            is_next = target == names[(number + 1) % len(names)]
            yield pytest.param(source, target, marks=() if is_next else pytest.mark.slow)


# From each engine to each: where every one is once the source and once the target, and the rest, which is slow.
PAIRS = list(_pairs())


def check_each(cases: Iterable[Case], check: Callable[[Case], object]) -> None:
    """Call the check with every case, and name each that fails. There has to be one, or it would hold for nothing."""
    broken: list[str] = []
    tried = 0
    for case in cases:
        tried += 1
        try:
            check(case)
        except (Exception, pytest.skip.Exception, pytest.fail.Exception) as failure:
            broken.append(f"{case}: {type(failure).__name__}: {failure}")
    assert tried, "there was no case to try"
    if broken:
        pytest.fail(f"{len(broken)} of {tried} cases failed\n" + "\n".join(broken), pytrace=False)
