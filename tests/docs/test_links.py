"""Links between the pages lead somewhere, and docs/index.md leads to all of them.  No network."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, all_pages, anchors, links

INDEX = DOCS / "index.md"


def broken_links(page: Path) -> list[str]:
    found = []
    for line, link in links(page):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            found.append(f"{page.name}:{line}: {link}: there is no such file")
        elif anchor and anchor not in anchors(target):
            found.append(f"{page.name}:{line}: {link}: there is no such heading")
    return found


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_the_index_names_every_page() -> None:
    named = {link.partition("#")[0] for _, link in links(INDEX)}
    assert {page.name for page in DOCS.glob("*.md")} - named == {INDEX.name}


def test_broken_links_are_seen(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A `name` of it\n\n## Twice\n\n## Twice\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md#a-name-of-it) [b](there.md#twice-1) `[c](code.md)` [d](https://x/y)\n"
        "```\n[e](code.md)\n```\n[f](absent.md) [g](there.md#twice-2) [h](#none)\n"
    )
    assert broken_links(page) == [
        "page.md:5: absent.md: there is no such file",
        "page.md:5: there.md#twice-2: there is no such heading",
        "page.md:5: #none: there is no such heading",
    ]
