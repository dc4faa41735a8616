"""The site has every page once and loads nothing from another host. `make site` fails for a broken link."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from docs.tools.page import ROOT

yaml = pytest.importorskip("yaml", reason="schemathesis brings it")
SECTIONS = ["Tutorial", "How-to guides", "Reference", "Discussion", "Internals"]


class Loader(yaml.SafeLoader):  # type: ignore[misc,name-defined]
    """Reads the tags of Python objects as text."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)
CONFIG: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Loader)


def listed(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for one in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from listed(one)


def test_the_navigation_names_every_page_once() -> None:
    pages = [*ROOT.glob("docs/**/*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
    wanted = {str(path.relative_to(ROOT)) for path in pages} | {"tests/README.md"}
    found = Counter(listed(CONFIG["nav"]))
    assert set(found) == wanted
    assert [name for name, count in found.items() if count > 1] == []


def test_the_navigation_has_the_five_kinds_of_pages_and_no_title_twice() -> None:
    top = {title: part for one in CONFIG["nav"] for title, part in one.items()}
    assert [title for title in top if title in SECTIONS] == SECTIONS
    for title, folder in (("Reference", "reference"), ("Discussion", "discussion")):
        assert all(name.startswith(f"docs/{folder}/") for name in listed(top[title]))
    titles = re.findall(
        r"^ +- \"?([^:\"]+)\"?: \S", (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2], re.MULTILINE
    )
    assert [title for title, count in Counter(titles).items() if count > 1] == []


def test_the_site_asks_no_other_host() -> None:
    assert "offline" in CONFIG["plugins"]
    assert CONFIG["use_directory_urls"] is False
    assert CONFIG["theme"]["font"] is False
    assert CONFIG["extra"]["polyfills"] == ["assets/iframe-worker.js"]
    assert "http" not in (ROOT / "docs/tools/site/iframe-worker.js").read_text("utf-8")
    assert not {"extra_css", "extra_javascript"} & CONFIG.keys()


def test_a_page_shows_no_picture_of_another_host() -> None:
    for name in listed(CONFIG["nav"]):
        text = (ROOT / name).read_text("utf-8")
        assert re.findall(r"!\[[^\]]*\]\(https?:|<img[^>]+src=\"https?:", text) == [], name
