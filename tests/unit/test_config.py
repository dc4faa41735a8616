"""A URL names a file that can be, or is refused by an error that says what is wrong with it."""

from __future__ import annotations

import pytest

from headrace.app.config import open_engine
from headrace.core.clock import SystemClock
from headrace.core.settings import Settings
from headrace.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("sqlite:///jobs%00.db", "NUL"),
        ("sqlite:///", "names no file"),
        ("sqlite://jobs.db", "should look like"),
        ("sqlite:///jobs.db?mode=ro", "should look like"),
        ("mongodb://host/jobs", "is not known"),
    ],
)
def test_a_url_that_names_no_store_is_refused_with_the_rule_it_breaks(url: str, rule: str) -> None:
    with pytest.raises(ConfigError, match=f"url: .*{rule}"):
        open_engine(Settings(url=url), SystemClock())
