"""The search of the site works in a page that was opened from a file, where a browser allows no Worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.tools.page import ROOT
from tests.support.waiting import PATIENCE
from tests.surfaces.web.pages.browser import open_browser

pytestmark = pytest.mark.slow

PAGE = """<!doctype html><body>
<script src="iframe-worker.js"></script>
<script>
  const worker = new Worker("search.js");
  window.query = { input: "lease" };
  worker.onmessage = ({ data }) => (window.answer = data);
  worker.postMessage(query);
  query.input += "d";
</script>"""
SEARCH = """addEventListener("message", ({ data }) => {
  const found = { found: data.input };
  postMessage(found);
  found.found = data.input = "";
});"""


def test_the_page_and_the_search_do_not_share_a_message(tmp_path: Path) -> None:
    script = (ROOT / "docs/tools/site/iframe-worker.js").read_text("utf-8")
    for name, text in {"index.html": PAGE, "search.js": SEARCH, "iframe-worker.js": script}.items():
        (tmp_path / name).write_text(text, "utf-8")
    with open_browser() as browser:
        page = browser.new_page()
        page.goto((tmp_path / "index.html").as_uri())
        page.wait_for_function("window.answer", timeout=1000 * PATIENCE)
        assert page.evaluate("answer.found") == "lease"
        assert page.evaluate("query.input") == "leased"
