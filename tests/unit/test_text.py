"""Counts in messages read as people write them."""

from __future__ import annotations

import pytest

from headrace.core.text import counted


@pytest.mark.parametrize(
    ("count", "expected"), [(0, "0 jobs are"), (1, "1 job is"), (2, "2 jobs are"), (1200, "1,200 jobs are")]
)
def test_one_is_singular_and_every_other_count_plural(count: int, expected: str) -> None:
    assert counted(count, "job is", "jobs are") == expected
    assert counted(count, "job") == expected.rpartition(" ")[0]
