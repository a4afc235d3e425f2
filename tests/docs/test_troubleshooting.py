"""What docs/troubleshooting.md quotes is what the code says today, and librdkafka too."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import pytest
from confluent_kafka import KafkaError

from odradek.protocol.errors import ErrorCode
from tests.docs.pages import DOCS, ROOT, prose

PAGE: Final = DOCS / "troubleshooting.md"
ROOMS: Final = ("broker", "odradek/cli", "odradek/testing", "pipeline", "storage")
OF_KAFKA: Final = "Error codes in clients"
HELD_TOGETHER: Final = 12
"""The shortest text between gaps that tells messages apart."""


def quoted() -> Iterator[tuple[str, list[str]]]:
    """Each row that quotes a message: the section, and what its first two cells quote."""
    section = ""
    for _, line in prose(PAGE):
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("| `"):
            first, second, *_ = line.removeprefix("| ").split(" | ")
            yield section, [first.strip("`"), second.strip("`")]


@cache
def texts_of_the_code() -> list[str]:
    """All strings of the product but docstrings, with `…` for what is filled in."""
    found = []
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            nodes = list(ast.walk(ast.parse(path.read_text())))
            docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
            found += [text for node in nodes if node not in docstrings and (text := said(node))]
    return found


def said(node: ast.AST) -> str | None:
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
        return "".join(map(str, parts))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"%[#.\d]*[sdrfx]", "…", node.value)
    return None


OURS: Final = [cells[0] for section, cells in quoted() if section != OF_KAFKA]
CODES: Final = [cells for section, cells in quoted() if section == OF_KAFKA]


@pytest.mark.slow
@pytest.mark.parametrize("message", OURS)
def test_the_code_still_says_it(message: str) -> None:
    if message in texts_of_the_code():
        return
    parts = [part for part in message.split("…") if part.strip(" :,=")]
    assert max(map(len, parts)) >= HELD_TOGETHER, "too little of it is fixed to be looked for"
    assert any(all(part in text for part in parts) for text in texts_of_the_code())


@pytest.mark.parametrize(("code", "text"), CODES, ids=[code for code, _ in CODES])
def test_librdkafka_still_says_it(code: str, text: str) -> None:
    assert KafkaError(ErrorCode[code]).str() == text


def test_texts_with_gaps_are_found() -> None:
    tree = ast.parse("say(f'the name {name!r} does not' ' resolve')\nlog('a=%d b=%.2f')")
    assert {text for node in ast.walk(tree) if (text := said(node))} >= {
        "the name … does not resolve",
        "a=… b=…",
    }
