"""Reads and writes Java's properties format, which server.properties uses.

Source: the documentation of `java.util.Properties.load`, and its behaviour on random texts.
"""

import re
from collections.abc import Mapping
from typing import Final

from .declaration import ConfigError

_BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY: Final = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.|$)", re.DOTALL)
_ESCAPED_IN_KEY: Final = re.compile(r"[\\ =:#!]|[^\x20-\x7e]")
_ESCAPED_IN_VALUE: Final = re.compile(r"\\|\A |[^\x20-\x7e]")


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values; if a key is given twice, the last value counts.

    Raises: ConfigError for a \\u that is not followed by four hexadecimal digits.
    """
    properties = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None  # it also matches the empty text
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        properties[_unescape(key.group())] = _unescape(line[separator.end() :])
    return properties


def format_properties(properties: Mapping[str, str]) -> str:
    """A text, in ASCII, which is read as these properties."""
    return "".join(
        f"{_ESCAPED_IN_KEY.sub(_escape, key)}={_ESCAPED_IN_VALUE.sub(_escape, value)}\n"
        for key, value in properties.items()
    )


def _logical_lines(text: str) -> list[str]:
    """Lines without comments and leading blanks, joined where one ends with a backslash."""
    lines: list[str] = []
    pending = ""
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANKS)
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2 == 1:
            pending += line[:-1]
        else:
            lines.append(pending + line)
            pending = ""
    if pending:
        lines.append(pending)
    return lines


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    # Java's characters have 16 bits, so others are written as two escapes.
    units = _ESCAPE.sub(_character, text).encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le", "replace")


def _character(escape: re.Match[str]) -> str:
    code = escape.group(1)
    if code == "u":
        raise ConfigError("a \\u in the properties is not followed by four hexadecimal digits")
    if code[:1] == "u":
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, code)


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    if " " <= character <= "~":
        return f"\\{character}"
    data = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))
