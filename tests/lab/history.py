"""What a run of the laboratory did, in the order in which it did it: a file of JSON lines."""

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.kafka.jars import CACHE

FOLDER: Final = CACHE / "lab"


class History:
    """Appends a line for everything that is done: when, what, to whom, and details."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._begin_s = time.monotonic()

    def note(self, what: str, whom: str, **details: object) -> None:
        """Write one line; it is in the file when this returns."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "elapsed_s": round(time.monotonic() - self._begin_s, 3),
            "what": what,
            "whom": whom,
            **details,
        }
        self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        self._file.close()


def new_path(kind: str) -> Path:
    """Where the history of a run goes that names no file itself."""
    now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return FOLDER / f"{now}-{kind}-{os.getpid()}.jsonl"
