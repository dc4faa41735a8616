"""Many cases of one rule in one test: all are tried, and the failure names each that breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def check_each(cases: Iterable[Case], check: Callable[[Case], object]) -> None:
    """Call the check with every case. There has to be one, or the rule would hold for nothing."""
    broken: list[str] = []
    tried = 0
    for case in cases:
        tried += 1
        try:
            check(case)
        except Exception as failure:
            broken.append(f"{case}: {type(failure).__name__}: {failure}")
    assert tried, "there was no case to try"
    if broken:
        pytest.fail(f"{len(broken)} of {tried} cases failed\n" + "\n".join(broken), pytrace=False)
