"""Lines for records: values alone, keys and values, or a format in kcat's words."""

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

# A message of confluent-kafka.
Message = Any
Writer = Callable[[Message], bytes]

VERBS: Final = (
    "%t topic, %p partition, %o offset, %T time in ms, %k key, %K its length, %s value, %S its"
    " length, %R the same as 4 bytes, %h headers, %% a percent sign, \\n \\t \\r \\xHH"
)
_TOKEN: Final = re.compile(rb"%(.?)|\\(x[0-9a-fA-F]{2}|.?)|[^%\\]+", re.DOTALL)
_ESCAPES: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"\\": b"\\", b"0": b"\0"}


def plain_lines(key_separator: str | None) -> Writer:
    """Values, or KEY SEPARATOR VALUE; null is written as nothing."""
    if key_separator is None:
        return lambda message: (message.value() or b"") + b"\n"
    separator = key_separator.encode()
    return lambda message: (message.key() or b"") + separator + (message.value() or b"") + b"\n"


def parse_format(text: str, *, without: str = "") -> Writer:
    """A writer for a format such as `%p %o %k=%s\\n`; `without` names verbs that are refused.

    Raises: ValueError with a sentence.
    """
    parts: list[Writer] = []
    for token in _TOKEN.finditer(text.encode()):
        verb, escape = token[1], token[2]
        if verb is not None:
            if without and verb == without.encode():
                raise ValueError(f"'%{verb.decode()}' is not known here")
            if verb not in _WRITERS:
                raise ValueError(f"'%{verb.decode(errors='replace')}' is none of {VERBS}")
            parts.append(_WRITERS[verb])
        else:
            parts.append(_constant(token[0] if escape is None else _unescaped(escape)))
    return lambda message: b"".join([part(message) for part in parts])


def _unescaped(escape: bytes) -> bytes:
    if escape in _ESCAPES:
        return _ESCAPES[escape]
    if len(escape) == 3:
        return bytes.fromhex(escape[1:].decode())
    raise ValueError(f"'\\{escape.decode(errors='replace')}' is none of \\n \\t \\r \\0 \\\\ \\xHH")


def _constant(text: bytes) -> Writer:
    return lambda message: text


def _number(number: int) -> bytes:
    return b"%d" % number


def _length(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def _headers(message: Message) -> bytes:
    pairs = message.headers() or ()
    return b",".join([name.encode() + b"=" + (value or b"") for name, value in pairs])


_WRITERS: Final[Mapping[bytes, Writer]] = {
    b"t": lambda message: message.topic().encode(),
    b"p": lambda message: _number(message.partition()),
    b"o": lambda message: _number(-1 if message.offset() is None else message.offset()),
    b"T": lambda message: _number(message.timestamp()[1]),
    b"k": lambda message: message.key() or b"",
    b"K": lambda message: _number(_length(message.key())),
    b"s": lambda message: message.value() or b"",
    b"S": lambda message: _number(_length(message.value())),
    b"R": lambda message: struct.pack(">i", _length(message.value())),
    b"h": _headers,
    b"%": _constant(b"%"),
}
