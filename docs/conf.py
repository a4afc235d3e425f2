"""How `make site` builds web pages from the Markdown files, with Sphinx and MyST-parser.

The source folder is the repository, so that links between README.md and docs/ hold as they do on
disk. The pages themselves have nothing of Sphinx in them.
"""

import re
from pathlib import Path
from typing import Any

project = "Odradek"
copyright = "Odradek's authors"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "tests/README.md"]
exclude_patterns = [".*", "artifacts", "build", "data"]
html_theme = "furo"
html_title = "Odradek"
html_copy_source = False
html_show_sourcelink = False
# Headings have GitHub's names, so that the same links work in the repository and here.
myst_heading_anchors = 4


def setup(app: Any) -> None:
    """Sphinx calls this."""
    app.connect("source-read", add_navigation)
    app.connect("build-finished", write_start_page)


def add_navigation(app: Any, page: str, source: list[str]) -> None:
    """Make the sidebar from the lists of docs/index.md."""
    if page != root_doc:
        return
    overview, *sections = source[0].split("\n## ")
    for section in [f"Overview:{overview}", *sections]:
        pages = dict.fromkeys(re.findall(r"\]\(([\w./-]+)\.md\)", section))
        caption = section.partition(":")[0]
        tree = "\n".join([":hidden:", f":caption: {caption}", "", *pages])
        source[0] += f"\n```{{toctree}}\n{tree}\n```\n"


def write_start_page(app: Any, error: Exception | None) -> None:
    """Have index.html lead to the root page, which lies in a folder as its source does."""
    if error is None:
        start = f'<!doctype html><meta http-equiv="refresh" content="0; url={root_doc}.html">\n'
        Path(app.outdir, "index.html").write_text(start, encoding="utf-8")
