"""`make versions`: the site of each version in a folder of its own, side by side, and a page that lists them.

Publish the folder as it is, on any web server; it also opens without one. A version is built again in its place.
"""

from __future__ import annotations

import re
import shutil
import sys
from html import escape
from pathlib import Path

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>headrace: documentation by version</title>
<body style="font: 16px/1.6 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; padding: 0 1rem">
<h1>headrace</h1>
<p>The documentation of each version:</p>
<ul>
{items}
</ul>
</body>
</html>
"""


def keep(site: Path, versions: Path, version: str) -> list[str]:
    """Copy the built site into the folder of its version, and list all versions; returns them, newest first."""
    if not re.fullmatch(r"[0-9][0-9A-Za-z.+-]*", version):
        raise ValueError(f"{version!r} is no version")
    target = versions / version
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(site, target)
    found = sorted((page.parent.name for page in versions.glob("*/index.html")), key=_order, reverse=True)
    notes = [" (latest)" if position == 0 else "" for position in range(len(found))]
    items = [
        f'<li><a href="{escape(name)}/index.html">{escape(name)}</a>{note}</li>'
        for name, note in zip(found, notes, strict=True)
    ]
    (versions / "index.html").write_text(_PAGE.format(items="\n".join(items)), "utf-8")
    return found


def _order(version: str) -> tuple[list[int], bool, str]:
    """0.10 comes after 0.9, and 1.0 after 1.0rc1."""
    release = re.match(r"[0-9.]*[0-9]", version)
    text = release[0] if release else ""
    return [int(part) for part in text.split(".") if part], text == version, version


if __name__ == "__main__":
    site, versions, version = sys.argv[1:]
    found = keep(Path(site), Path(versions), version)
    sys.stdout.write(f"versions: {', '.join(found)}; open {versions}/index.html\n")
