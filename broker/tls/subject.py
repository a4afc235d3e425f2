"""The subject of a certificate, as Java writes it: `CN=alice,O=Example`.

Kafka names a client by its certificate's `X500Principal.getName()`, and ACLs have this text. It is
RFC 2253: the parts are reversed, and types that the RFC does not name, such as e-mail addresses,
are an OID and the value's bytes in hexadecimal. `ssl` gives only decoded names, without those
bytes, so the subject is read from the certificate itself.

Source: java.security.cert.X509Certificate, sun.security.x509.AVA (toRFC2253String).
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OID: Final = 0x06
_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_ALTERNATIVE_NAMES: Final = b"\x55\x1d\x11"
_FIELDS_BEFORE_SUBJECT: Final = 4  # serial number, algorithm, issuer, validity
# UTF8String, PrintableString, T61String, IA5String, GeneralString, UniversalString, BMPString
_STRINGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E})
_OID_BYTES_MAX: Final = 128  # a number of many bytes takes time in the square of their count
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}


class BadDer(Exception):
    """The bytes are not the DER that they should be."""


class Item(NamedTuple):
    """One value in DER: its tag, its content, and all of its bytes."""

    tag: int
    content: bytes
    whole: bytes


def items(data: bytes) -> Iterator[Item]:
    """The values that follow each other in `data`.  Raises: BadDer."""
    position = 0
    while position < len(data):
        start, position = position, position + 2
        if position > len(data) or data[start] & 0x1F == 0x1F:  # no tag here has several bytes
            raise BadDer("a tag")
        size_bytes = data[start + 1]
        if size_bytes & 0x80:
            count = size_bytes & 0x7F
            size_bytes = int.from_bytes(data[position : position + count], "big")
            if not 1 <= count <= 4 or position + count > len(data):
                raise BadDer("a length")
            position += count
        end = position + size_bytes
        if end > len(data):
            raise BadDer("a value that is cut off")
        yield Item(data[start], data[position:end], data[start:end])
        position = end


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER.  Raises: BadDer."""
    return name_text(_fields(certificate)[_FIELDS_BEFORE_SUBJECT].whole)


def alternative_names_of(certificate: bytes) -> frozenset[bytes]:
    """The subject alternative names, each in DER.  Raises: BadDer."""
    for field in _fields(certificate):
        if field.tag != _EXTENSIONS:
            continue
        for extension in _inside(_inside(field.whole, _EXTENSIONS)[0].whole, _SEQUENCE):
            parts = _inside(extension.whole, _SEQUENCE)
            if parts and parts[0].content == _ALTERNATIVE_NAMES:
                return frozenset(name.whole for name in _inside(parts[-1].content, _SEQUENCE))
    return frozenset()


def _fields(certificate: bytes) -> list[Item]:
    """The fields of a certificate that are signed, from the serial number on."""
    whole = _inside(certificate, _SEQUENCE)
    fields = _inside(whole[0].whole, _SEQUENCE) if whole else []
    if fields and fields[0].tag == _VERSION:
        fields = fields[1:]
    if len(fields) <= _FIELDS_BEFORE_SUBJECT:
        raise BadDer("a certificate without a subject")
    return fields


def name_text(name: bytes) -> str:
    """A Name in DER as text.  Raises: BadDer."""
    parts = [
        "+".join(_attribute(attribute.whole) for attribute in _inside(part.whole, _SET))
        for part in _inside(name, _SEQUENCE)
    ]
    return ",".join(reversed(parts))


def _inside(data: bytes, tag: int) -> list[Item]:
    """What the one value in `data`, which has this tag, consists of."""
    found = list(items(data))
    if len(found) != 1 or found[0].tag != tag:
        raise BadDer(f"one value with the tag {tag:#x}")
    inside = list(items(found[0].content))
    if not inside and tag != _SEQUENCE:
        raise BadDer("an empty set")
    return inside


def _attribute(data: bytes) -> str:
    pair = _inside(data, _SEQUENCE)
    if len(pair) != 2 or pair[0].tag != _OID:
        raise BadDer("a type and its value")
    oid, value = _oid_text(pair[0].content), pair[1]
    keyword = _KEYWORDS.get(oid)
    if keyword is None or value.tag not in _STRINGS:
        return f"{keyword or oid}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode(errors='replace'))}"


def _oid_text(content: bytes) -> str:
    if not 1 <= len(content) <= _OID_BYTES_MAX or content[-1] & 0x80:
        raise BadDer("an object identifier")
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(text: str) -> str:
    """The text with what RFC 2253 escapes, and with spaces at both ends escaped."""
    middle = text.strip(" \r")
    start = len(text) - len(text.lstrip(" \r"))
    shown = []
    for position, char in enumerate(text):
        outside = not start <= position < start + len(middle)
        if char == "\0":
            shown.append("\\00")
        else:
            shown.append(f"\\{char}" if outside or char in _ESCAPED else char)
    return "".join(shown)
