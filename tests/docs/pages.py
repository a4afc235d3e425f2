"""Markdown pages as tests read them: code blocks, headings and links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
NOT_RUN: Final = "<!-- not run"
_FENCE: Final = re.compile(r"^( *)```(\S*)")
_LINK: Final = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_CODE_SPAN: Final = re.compile(r"`[^`]*`")
_HEADING: Final = re.compile(r"^#{1,6} +(.*)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced code block; `line` is that of its first line of code, from 1."""

    language: str
    code: str
    line: int
    is_run: bool


def all_pages() -> list[Path]:
    """Every Markdown page that a user may read, the generated ones included."""
    beside = [ROOT / name for name in ("README.md", "CHANGELOG.md", "tests/README.md")]
    others = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md")]
    return [*beside, *(path for path in others if path.exists()), *sorted(DOCS.glob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The code blocks of a page.  One behind a comment `<!-- not run: why -->` is not run."""
    found, lines, before = [], iter(enumerate(page.read_text().splitlines(), 1)), ""
    for number, line in lines:
        if opening := _FENCE.match(line):
            indent, code = opening[1], []
            for _, inside in lines:
                if inside.strip() == "```":
                    break
                code.append(inside.removeprefix(indent))
            is_run = not before.startswith(NOT_RUN)
            found.append(Block(opening[2], "\n".join(code) + "\n", number + 1, is_run))
        if line.strip():
            before = line.strip()
    return found


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a page outside its code blocks."""
    is_code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code:
            yield number, line


def links(page: Path) -> list[tuple[int, str]]:
    """The targets of a page's links, with their lines."""
    return [
        (number, target)
        for number, line in prose(page)
        for target in _LINK.findall(_CODE_SPAN.sub("", line))
    ]


def anchors(page: Path) -> set[str]:
    """The names of a page's headings in links, by GitHub's rule."""
    found: set[str] = set()
    for _, line in prose(page):
        if heading := _HEADING.match(line):
            name = slug(heading[1])
            numbered = (f"{name}-{n}" for n in range(1, 1000))
            found.add(name if name not in found else next(n for n in numbered if n not in found))
    return found


def slug(heading: str) -> str:
    """A heading as GitHub names it: lower case, punctuation left out, dashes for spaces."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
