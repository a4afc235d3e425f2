"""Subjects in DER, as text: the expected texts are those of Java 17's X500Principal.getName()."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.tls.subject import BadDer, name_text, subject_of

UTF8, PRINTABLE, IA5, BMP, INTEGER = 0x0C, 0x13, 0x16, 0x1E, 0x02
OIDS = {
    "CN": "550403",
    "SERIAL": "550405",
    "C": "550406",
    "L": "550407",
    "ST": "550408",
    "STREET": "550409",
    "O": "55040a",
    "OU": "55040b",
    "TITLE": "55040c",
    "UID": "0992268993f22c640101",
    "DC": "0992268993f22c640119",
    "EMAIL": "2a864886f70d010901",
}


def der(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def attribute(kind: str, value: bytes | str, tag: int = UTF8) -> bytes:
    data = value if isinstance(value, bytes) else value.encode()
    return der(0x30, der(6, bytes.fromhex(OIDS[kind])), der(tag, data))


def name(*parts: bytes) -> bytes:
    """A Name with one attribute in each part."""
    return der(0x30, *(der(0x31, part) for part in parts))


NAMES = [
    (
        name(
            attribute("C", "DE", PRINTABLE),
            attribute("ST", "Berlin"),
            attribute("L", "Mitte"),
            attribute("O", "Odradek, Inc."),
            attribute("OU", "a") + attribute("OU", "b"),
            attribute("CN", "alice"),
            attribute("EMAIL", "a@b.de", IA5),
        ),
        "1.2.840.113549.1.9.1=#16066140622e6465,CN=alice,OU=a+OU=b,O=Odradek\\, Inc.,L=Mitte,"
        "ST=Berlin,C=DE",
    ),
    (
        name(attribute("CN", ' lead #x;"<>\\ trail ')),
        'CN=\\ lead \\#x\\;\\"\\<\\>\\\\ trail\\ ',
    ),
    (
        name(
            attribute("CN", "Jörg"),
            attribute("UID", "u1"),
            attribute("DC", "example", IA5),
            attribute("STREET", "S 1"),
            attribute("SERIAL", "5", PRINTABLE),
            attribute("TITLE", "Dr"),
        ),
        "2.5.4.12=#0c024472,2.5.4.5=#130135,STREET=S 1,DC=example,UID=u1,CN=Jörg",
    ),
    (name(attribute("CN", "#hash")), "CN=\\#hash"),
    (name(attribute("O", "x"), attribute("CN", "a=b,c+d")), "CN=a\\=b\\,c\\+d,O=x"),
    (name(attribute("CN", "a" * 200)), "CN=" + "a" * 200),
    (name(attribute("CN", b"\0A\0b", BMP)), "CN=\\00A\\00b"),
    (name(attribute("CN", b"\5", INTEGER)), "CN=#020105"),
    (name(attribute("CN", "  ")), "CN=\\ \\ "),
    (name(attribute("CN", "")), "CN="),
    (name(), ""),
]


@pytest.mark.parametrize(("encoded", "text"), NAMES)
def test_a_name_is_written_as_java_does(encoded: bytes, text: str) -> None:
    assert name_text(encoded) == text


def certificate(subject: bytes, *, version: bytes = der(0xA0, der(INTEGER, b"\2"))) -> bytes:
    issuer = name(attribute("CN", "issuer"))
    fields = (der(INTEGER, b"\7"), der(0x30), issuer, der(0x30), subject, der(0x30))
    return der(0x30, der(0x30, version, *fields), der(0x30), der(3, b"\0"))


@pytest.mark.parametrize("version", [der(0xA0, der(INTEGER, b"\2")), b""], ids=["v3", "v1"])
def test_the_subject_of_a_certificate_is_not_its_issuer(version: bytes) -> None:
    assert subject_of(certificate(NAMES[0][0], version=version)) == NAMES[0][1]


def test_what_is_cut_off_is_refused() -> None:
    whole = certificate(NAMES[0][0])
    for end in range(len(whole)):
        with pytest.raises(BadDer):
            subject_of(whole[:end])


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        der(0x31),
        der(0x30, der(0x31)),
        der(0x30, der(0x31, der(0x30, der(6, b"\x55\x84"), der(UTF8, b"x")))),
        der(0x30, der(0x31, der(0x30, der(6), der(UTF8, b"x")))),
        der(0x30, der(0x31, der(0x30, der(6, b"\x55")))),
        der(0x30, der(0x31, der(0x30, der(6, b"\xff" * 90_000 + b"\1"), der(UTF8, b"x")))),
        b"\x30\x80\x00\x00",
        b"\x1f\x1f\x00",
        b"\x30\x85\x00\x00\x00\x00\x00",
    ],
)
def test_what_is_no_name_is_refused(bad: bytes) -> None:
    with pytest.raises(BadDer):
        name_text(bad)


@pytest.mark.slow
@given(
    cuts=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 8), st.binary(max_size=8))),
    name=st.sampled_from([name for name, _ in NAMES]),
)
def test_whatever_a_certificate_has_is_a_name_or_refused(
    cuts: list[tuple[int, int, bytes]], name: bytes
) -> None:
    mutated = certificate(name)
    for start, count, instead in cuts:
        mutated = mutated[:start] + instead + mutated[start + count :]
    with suppress(BadDer):
        assert isinstance(subject_of(mutated), str)


@pytest.mark.slow
@given(st.binary())
def test_any_bytes_are_a_name_or_refused(data: bytes) -> None:
    with suppress(BadDer):
        assert isinstance(name_text(data), str)
