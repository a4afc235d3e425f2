"""Prints coverage by room, of what `coverage json` writes: for `make coverage`."""

import json
import sys
from collections import Counter, defaultdict
from pathlib import PurePath
from typing import Final

COUNTS: Final = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def main() -> None:
    """Print a line a room, and one for all."""
    rooms: dict[str, Counter[str]] = defaultdict(Counter)
    for path, file in json.load(sys.stdin)["files"].items():
        counts = {name: file["summary"][name] for name in COUNTS}
        rooms[str(PurePath(path).parent)].update(counts)
        rooms["all"].update(counts)
    print(f"{'room':32}{'statements':>12}{'covered':>9}{'branches':>12}{'covered':>9}")
    for room, counts in sorted(rooms.items(), key=lambda item: (item[0] == "all", item[0])):
        statements, lines, branches, taken = (counts[name] for name in COUNTS)
        print(f"{room:32}{statements:12,}{_share(lines, statements):>9}", end="")
        print(f"{branches:12,}{_share(taken, branches):>9}")


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


if __name__ == "__main__":
    main()
