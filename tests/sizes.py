"""Names the files that are long: a place to look whether two ideas are in one. No law.

A machine is one file where it reads better so.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
ROOMS: Final = ("broker", "pipeline", "protocol", "storage", "odradek", "benchmarks", "tests")
LINES_MAX: Final = 600


def long_files(root: Path = ROOT) -> Iterator[tuple[str, int]]:
    """Files above LINES_MAX, and how many lines each has."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            lines = len(path.read_text().splitlines())
            if lines > LINES_MAX:
                yield str(path.relative_to(root)), lines


if __name__ == "__main__":
    for name, lines in long_files():
        print(f"{name}: {lines} lines")
