"""What all tests of storage share: no descriptor outlives its test."""

from collections.abc import Iterator

import pytest

from odradek.storage.files import RealFileSystem
from odradek.storage.log.log_file import LogFile


@pytest.fixture(autouse=True)
def _no_descriptor_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Few tests close their logs; a thousand descriptors are too many for some clients' select."""
    opened: list[LogFile] = []
    open_descriptor = RealFileSystem.open_descriptor

    def noted(self: RealFileSystem, file: LogFile) -> int:
        opened.append(file)
        return open_descriptor(self, file)

    monkeypatch.setattr(RealFileSystem, "open_descriptor", noted)
    yield
    for file in opened:
        file._close_descriptor()
