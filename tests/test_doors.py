"""Threads and files have one door each: broker/runtime.py and storage/.

Ruff and import-linter hold what can be told by a name that is imported; here is the rest: methods
of an event loop, and built-in functions.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def _calls(room: str) -> Iterator[tuple[str, str]]:
    """(file, function as it is written) of every call in a room."""
    for path in sorted((ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield path.relative_to(ROOT).as_posix(), ast.unparse(node.func)


@pytest.mark.slow
def test_only_the_runtime_hands_work_to_threads() -> None:
    doors = {file for file, function in _calls("broker") if function.endswith("run_in_executor")}
    assert doors == {"broker/runtime.py"}


@pytest.mark.slow
@pytest.mark.parametrize("room", ["protocol", "broker/core"])
def test_protocol_and_the_pure_machines_open_no_files(room: str) -> None:
    opening = ("open", "io.open", "os.open", "Path", "pathlib.Path")
    assert [call for call in _calls(room) if call[1] in opening] == []
