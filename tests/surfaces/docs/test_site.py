"""The site has every page once and loads nothing from another host. `make site` fails for a broken link."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.tools.page import ROOT
from docs.tools.site.versions import keep

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


def test_a_page_links_to_no_file_that_the_site_lacks() -> None:
    copied = re.search(r"@cp -R (.+) \$\(PAGES\)", (ROOT / "Makefile").read_text("utf-8"))
    assert copied is not None
    roots = {*copied[1].split(), "tests"}
    for name in listed(CONFIG["nav"]):
        text = re.sub(r"```.*?```", "", (ROOT / name).read_text("utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text):
            target = (ROOT / name).parent.joinpath(link).resolve().relative_to(ROOT)
            assert target.parts[0] in roots, f"{name} links to {link}"


def test_versions_lie_side_by_side_newest_first(tmp_path: Path) -> None:
    site, versions = tmp_path / "site", tmp_path / "versions"
    for version in ("0.9.1", "0.10.0", "1.0rc1", "1.0"):
        shutil.rmtree(site, ignore_errors=True)
        site.mkdir()
        (site / "index.html").write_text(version)
        found = keep(site, versions, version)
    assert found == ["1.0", "1.0rc1", "0.10.0", "0.9.1"]
    (site / "index.html").write_text("1.0, corrected")
    assert keep(site, versions, "1.0") == found
    assert (versions / "1.0/index.html").read_text() == "1.0, corrected"
    assert (versions / "0.9.1/index.html").read_text() == "0.9.1"
    assert re.findall(r'href="([^"]+)"', (versions / "index.html").read_text("utf-8")) == [
        f"{version}/index.html" for version in found
    ]
    with pytest.raises(ValueError, match="is no version"):
        keep(site, versions, "../elsewhere")
