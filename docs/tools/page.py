"""What a page of the documentation holds: fenced blocks, commands, links, headings. Knows Markdown, not headrace."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(\w*)\s*$")
_MARK = re.compile(r"^<!-- (worker|file: (\S+)) -->$")
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^(#+) (.*)$")


class Block(NamedTuple):
    """A fenced block: its language, its text, the line its text begins at, and the marks in the comment above it.

    `<!-- worker -->` asks for a worker of the page's `app` while the block runs. `<!-- file: tasks.py -->` says that
    the block is part of that file.
    """

    language: str
    text: str
    line: int
    worker: bool = False
    file: str | None = None


class Page:
    """One Markdown file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
        self.lines = path.read_text("utf-8").splitlines()
        self.blocks = list(_blocks(self.lines))

    @property
    def prose(self) -> str:
        """The page without its fenced blocks."""
        fenced = {n for block in self.blocks for n in range(block.line - 1, block.line + block.text.count("\n") + 1)}
        return "\n".join("" if n in fenced else line for n, line in enumerate(self.lines, 1))

    @property
    def links(self) -> list[str]:
        return _LINK.findall(self.prose)

    @property
    def spans(self) -> list[str]:
        """The code in running text and tables."""
        return [span.replace("\\|", "|") for span in _SPAN.findall(self.prose)]

    @property
    def headings(self) -> list[tuple[int, str]]:
        found = (_HEADING.match(line) for line in self.prose.splitlines())
        return [(len(match[1]), match[2]) for match in found if match]

    @property
    def anchors(self) -> set[str]:
        return {anchor(title) for _, title in self.headings}

    def section(self, title: str) -> str:
        """The text under a heading, down to the next one of its level or above."""
        lines = iter(self.prose.splitlines())
        level = next(len(match[1]) for line in lines if (match := _HEADING.match(line)) and match[2] == title)
        body = []
        for line in lines:
            if (match := _HEADING.match(line)) and len(match[1]) <= level:
                break
            body.append(line)
        return "\n".join(body)

    def commands(self) -> Iterator[tuple[int, list[str]]]:
        """The lines after a `$` in console blocks, as words, each with its line number."""
        for block in self.blocks:
            if block.language == "console":
                yield from _commands(block)


def pages() -> list[Page]:
    """The README and everything under docs."""
    return [Page(path) for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]


def anchor(title: str) -> str:
    """How a heading is linked to, by GitHub's rule."""
    kept = re.sub(r"[^\w\- ]", "", title.replace("`", "").lower())
    return kept.replace(" ", "-")


def table_rows(text: str) -> list[list[str]]:
    """The cells of every table row in the text but the headers; a `\\|` does not end a cell."""
    rows = []
    lines = text.splitlines()
    for above, line in zip(["", *lines], lines, strict=False):
        if line.startswith("|") and not line.startswith("|-") and above.startswith("|"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))])
    return rows


def _blocks(lines: list[str]) -> Iterator[Block]:
    opened: Block | None = None
    body: list[str] = []
    marks: list[re.Match[str]] = []
    for number, line in enumerate(lines, 1):
        if opened is not None:
            if line == "```":
                yield opened._replace(text="".join(f"{part}\n" for part in body))
                opened = None
            else:
                body.append(line)
        elif fence := _FENCE.match(line):
            files = [mark[2] for mark in marks if mark[2]]
            opened = Block(fence[1], "", number + 1, any(not mark[2] for mark in marks), files[0] if files else None)
            body, marks = [], []
        elif mark := _MARK.match(line):
            marks.append(mark)
        elif line.strip():
            marks = []
    if opened is not None:
        raise ValueError(f"line {opened.line}: this block is never closed")


def _commands(block: Block) -> Iterator[tuple[int, list[str]]]:
    joined = block.text.replace("\\\n", "  ")
    for number, line in enumerate(joined.splitlines(), block.line):
        if line.startswith("$ "):
            yield number, shlex.split(line[2:], comments=True)
