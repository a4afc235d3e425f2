import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.settings.declaration import ConfigError
from odradek.broker.settings.properties import format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("a = b \nc:d\ne f\n\tg\t=\th", {"a": "b ", "c": "d", "e": "f", "g": "h"}),
        ("# no\n  ! no\n\n \t\na=1", {"a": "1"}),
        ("a=b # not a comment", {"a": "b # not a comment"}),
        ("a\nb=\nc:", {"a": "", "b": "", "c": ""}),
        ("a=one \\\n   two\\\n three", {"a": "one twothree"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\r\n  c\rd=e", {"a": "bc", "d": "e"}),
        ("a\\ b\\:c\\=d=e", {"a b:c=d": "e"}),
        ("a==b\nc::d\ne =f", {"a": "=b", "c": ":d", "e": "f"}),
        ('a=\\t\\n\\r\\f\\q\\"\\u0041\\u00E4', {"a": '\t\n\r\fq"Aä'}),
        ("a=\\uD834\\uDD1E", {"a": "𝄞"}),
        ("a=\\uD834", {"a": "\N{REPLACEMENT CHARACTER}"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b\\", {"a": "b"}),
        ("\\\n# a comment after nothing\nb=c", {"b": "c"}),
        ("log.dirs=C:\\\\data", {"log.dirs": "C:\\data"}),
    ],
)
def test_as_java_reads_them(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uzzzz", "\\u=b"])
def test_a_broken_escape(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_properties(text)


@given(st.text(alphabet="ab=: \\\n\r\t\f#!u01é"))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        properties = parse_properties(text)
    except ConfigError:
        return
    assert all("\r" not in key or "\\r" in text for key in properties)


@pytest.mark.slow
@given(st.dictionaries(st.text("a.b= :#!\\é𝄞", min_size=1), st.text("a =:#!\\\n\r\t\fé𝄞")))
def test_what_is_written_comes_back(properties: dict[str, str]) -> None:
    text = format_properties(properties)
    assert text.isascii()
    assert parse_properties(text) == properties
