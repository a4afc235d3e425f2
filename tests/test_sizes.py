"""No file and no function grows past what one can read at a sitting."""

import ast
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
ROOMS: Final = ("broker", "pipeline", "protocol", "storage", "odradek", "benchmarks")
FILE_LINES_MAX: Final = 400
TEST_FILE_LINES_MAX: Final = 600
FUNCTION_LINES_MAX: Final = 70


@pytest.mark.parametrize("room", [*ROOMS, "tests"])
def test_files_stay_short(room: str) -> None:
    lines_max = TEST_FILE_LINES_MAX if room == "tests" else FILE_LINES_MAX
    counts = {path: len(path.read_text().splitlines()) for path in (ROOT / room).rglob("*.py")}
    assert {str(path): count for path, count in counts.items() if count > lines_max} == {}


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_functions_stay_short(room: str) -> None:
    functions = [
        (f"{path}:{node.lineno} {node.name}", (node.end_lineno or 0) - node.lineno + 1)
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert [(name, lines) for name, lines in functions if lines > FUNCTION_LINES_MAX] == []
