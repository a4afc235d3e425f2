import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.settings.declaration import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    ConfigError,
    Setting,
    Value,
    text_of,
)


class Owner:
    size = Setting("some.size", INT, 5, "A size.", at_least=2, at_most=10)


def test_a_declaration_is_a_typed_attribute() -> None:
    assert Owner.size.name == "some.size"
    owner = Owner()
    owner.__dict__["some_size"] = 7
    with pytest.raises(AttributeError, match=r"some\.size"):
        _ = owner.size  # the attribute must be named after the setting
    owner.__dict__["size"] = 7
    assert owner.size == 7


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        (Setting("a", BOOLEAN, True, ""), "TRUE", True),
        (Setting("a", BOOLEAN, True, ""), " false ", False),
        (Setting("a", INT, 0, ""), "-2147483648", -(2**31)),
        (Setting("a", INT, 0, ""), "+5", 5),
        (Setting("a", SHORT, 0, ""), "32767", 32767),
        (Setting("a", LONG, 0, ""), "9223372036854775807", 2**63 - 1),
        (Setting("a", DOUBLE, 0.0, ""), "1e3", 1000.0),
        (Setting("a", DOUBLE, 0.0, ""), "5", 5.0),
        (Setting("a", LIST, (), ""), " a , b,c ", ("a", "b", "c")),
        (Setting("a", LIST, (), ""), "", ()),
        (Setting("a", STRING, "", ""), " with blanks ", "with blanks"),
        (Setting("a", PASSWORD.or_none, None, ""), "secret", "secret"),
        (Setting("a", LIST, (), "", choices=("x", "y")), "y,x", ("y", "x")),
        (Setting("a", STRING, "x", "", choices=("x", "y"), built=("x",)), "x", "x"),
    ],
)
def test_values(setting: Setting[Value], text: str, value: Value) -> None:
    assert setting.parse(text) == value
    assert type(setting.parse(text)) is type(value)


@pytest.mark.parametrize(
    ("setting", "text", "word"),
    [
        (Setting("a", BOOLEAN, True, ""), "yes", "true or false"),
        (Setting("a", INT, 0, ""), "2147483648", "32 bits"),
        (Setting("a", INT, 0, ""), "1_000", "32 bits"),
        (Setting("a", INT, 0, ""), "1.0", "32 bits"),
        (Setting("a", INT, 0, ""), "", "32 bits"),
        (Setting("a", INT, 0, ""), "٣", "32 bits"),
        (Setting("a", INT, 0, ""), "- 1", "32 bits"),
        (Setting("a", INT, 0, ""), "9" * 5000, "32 bits"),
        (Setting("a", SHORT, 0, ""), "32768", "16 bits"),
        (Setting("a", LONG, 0, ""), "9223372036854775808", "64 bits"),
        (Setting("a", DOUBLE, 0.0, ""), "1_0", "a number"),
        (Setting("a", DOUBLE, 0.0, ""), "nan", "a number"),
        (Owner.size, "1", "from 2 to 10"),
        (Owner.size, "11", "from 2 to 10"),
        (Setting("a", INT, 5, "", at_least=2), "1", "at least 2"),
        (Setting("a", LIST, (), "", choices=("x", "y")), "x,z", "a list of x, y"),
        (Setting("a", STRING, "x", "", choices=("x", "y")), "X", "one of x, y"),
        (Setting("a", STRING, "x", "", choices=("x", "y"), built=("x",)), "y", "only x is"),
        (Setting("a", BOOLEAN, False, "", built=(False,)), "true", "only false is"),
        (Setting("a", STRING, "", "", check=lambda text: "odd"), "y", "it must be odd"),
    ],
)
def test_faults_name_the_setting_the_value_and_what_is_allowed(
    setting: Setting[Value], text: str, word: str
) -> None:
    with pytest.raises(ConfigError) as error:
        setting.parse(text, "in some file")
    message = str(error.value)
    assert message.startswith(f"{setting.name}={text} (in some file) is ")
    assert word in message


def test_a_password_is_in_no_message() -> None:
    setting = Setting("a", PASSWORD, "", "", check=lambda text: "better")
    with pytest.raises(ConfigError) as error:
        setting.parse("hunter2")
    assert "hunter2" not in str(error.value)
    assert setting.is_sensitive


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (5, "5"),
        (("a", "b"), "a,b"),
        ((), ""),
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1e7, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (0.0001, "1.0E-4"),
        (0.00012, "1.2E-4"),
        (2.5e-7, "2.5E-7"),
        (-1e9, "-1.0E9"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_texts_are_java_s(value: Value, text: str | None) -> None:
    assert text_of(value) == text


@given(st.floats(allow_nan=False))
def test_every_number_reads_back(value: float) -> None:
    text = text_of(value)
    assert text is not None
    assert DOUBLE.parse(text) == value


@pytest.mark.slow
@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    for kind in (BOOLEAN, INT, SHORT, LONG, DOUBLE, LIST, STRING):
        try:
            Setting[Value]("a", kind, None, "", at_least=0).parse(text)
        except ConfigError as error:
            assert "must be" in str(error)
