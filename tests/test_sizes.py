"""No function grows past what one can read at a sitting; long files are named by `make check`."""

import ast
from pathlib import Path
from typing import Final

import pytest

from .sizes import LINES_MAX, ROOMS, ROOT, long_files

FUNCTION_LINES_MAX: Final = 70


def test_long_files_are_named(tmp_path: Path) -> None:
    room = tmp_path / "broker" / "core"
    room.mkdir(parents=True)
    (room / "short.py").write_text("x = 1\n" * LINES_MAX)
    (room / "long.py").write_text("x = 1\n" * (LINES_MAX + 1))
    assert list(long_files(tmp_path)) == [("broker/core/long.py", LINES_MAX + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("room", [room for room in ROOMS if room != "tests"])
def test_functions_stay_short(room: str) -> None:
    functions = [
        (f"{path}:{node.lineno} {node.name}", (node.end_lineno or 0) - node.lineno + 1)
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert [(name, lines) for name, lines in functions if lines > FUNCTION_LINES_MAX] == []
