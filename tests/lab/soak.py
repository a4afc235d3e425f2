"""How far a part of `make soak` has come: a file, so that a run that was ended goes on.

Kept below the cache; RESTART=1 begins anew.  What was counted under another commit counts on, and
the commits are kept beside the counts.  `python -m tests.lab.soak [PART]` prints what there is, as
lines for docs/soak.md: none of a part that keeps no counts.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.kafka.jars import CACHE

FOLDER: Final = CACHE / "soak"


class Progress:
    """`planned` of something, counted in steps; a context manager that prints where it is.

    `details` given with each step are summed up, numbers only.
    """

    def __init__(self, name: str, planned: int, folder: Path = FOLDER) -> None:
        self.name = name
        self.planned = planned
        self._path = folder / f"{name}.json"
        self._kept: dict[str, Any] = {"done": 0, "sums": {}, "commits": [], "seeds": []}
        if self._path.exists() and os.environ.get("RESTART") != "1":
            self._kept = json.loads(self._path.read_text())
        self._kept["planned"] = planned

    @property
    def done(self) -> int:
        return int(self._kept["done"])

    @property
    def left(self) -> int:
        return max(0, self.planned - self.done)

    def add(self, steps: int, *, seed: int | None = None, **sums: float) -> None:
        """Count steps that went well; written at once."""
        self._kept["done"] += steps
        self._kept["sums"] = dict(Counter(self._kept["sums"]) + Counter(sums))
        self._kept["seeds"] += [] if seed is None else [seed]
        if (commit := this_commit()) not in self._kept["commits"]:
            self._kept["commits"].append(commit)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(self._kept))
        fresh.replace(self._path)

    def __str__(self) -> str:
        counts = " ".join(f"{name}={value:,.10g}" for name, value in self._kept["sums"].items())
        seeds = f" seeds={self._kept['seeds']}" if self._kept["seeds"] else ""
        commits = ",".join(self._kept["commits"]) or "none"
        return f"{self.name}: {self.done}/{self.planned} {counts}{seeds} commits={commits}"

    def __enter__(self) -> Self:
        print(f"\nsoak {self}", flush=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        print(f"soak {self}", flush=True)


def this_commit() -> str:
    """The short name of what is checked out, with + if files differ from it."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def lines(part: str = "", folder: Path = FOLDER) -> list[str]:
    """A row of docs/soak.md for all that has been begun, of names that begin with `part`."""
    found = []
    for path in sorted(folder.glob(f"{part}*.json")):
        kept = json.loads(path.read_text())
        day = time.strftime("%Y-%m-%d", time.gmtime(path.stat().st_mtime))
        counts = ", ".join(f"{value:,.10g} {name}" for name, value in kept["sums"].items())
        seeds = f"; seeds {kept['seeds']}" if kept["seeds"] else ""
        result = "passed" if kept["done"] >= kept["planned"] else "to be continued"
        found.append(
            f"| {path.stem} | {' '.join(kept['commits'])} | {day} "
            f"| {kept['done']}/{kept['planned']}: {counts}{seeds} | {result} |"
        )
    return found


if __name__ == "__main__":
    for line in lines("".join(sys.argv[1:2])):
        print(line)
