"""Texts that a test prints and compares with a file, which shows what a change does.

After a change that is meant, `ODRADEK_REWRITE=1 pytest …` writes them anew.
"""

import os
from pathlib import Path


def rewrites() -> bool:
    """Whether what is stored is to be written anew: never in a run that must prove something."""
    return bool(os.environ.get("ODRADEK_REWRITE")) and not os.environ.get("ODRADEK_REQUIRE")


def check_trace(path: Path, text: str) -> None:
    """Compare a text with the one that is stored; or store it."""
    if rewrites():
        path.write_text(text)
    assert text == path.read_text(), f"{path.name}: ODRADEK_REWRITE=1 writes it anew"
