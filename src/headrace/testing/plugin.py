"""The pytest plugin: fixtures for an app of the test's own.

Every pytest run with headrace installed loads it, so each fixture imports what it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.testing.clock import VirtualClock


@pytest.fixture
def headrace_clock() -> VirtualClock:
    """The clock of `headrace_app`; only the test moves it."""
    from headrace.testing.clock import VirtualClock  # see above

    return VirtualClock()


@pytest.fixture
def headrace_app(headrace_clock: VirtualClock) -> Iterator[Headrace]:
    """An empty app on its own store, for one test."""
    from headrace import Headrace  # see above

    with Headrace("memory://", clock=headrace_clock) as app:
        yield app
