"""Recorded directories are archives; a test works on a copy."""

import tarfile
from pathlib import Path


def unpack(path: Path, folder: Path) -> None:
    """Extract all of an archive, by the rules for data where Python has them (3.11.4)."""
    with tarfile.open(path) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
