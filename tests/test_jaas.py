"""The value of sasl.jaas.config.  What is accepted was compared with Kafka 3.9.2's JaasContext."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.jaas import (
    OAUTHBEARER_MODULE,
    PLAIN_MODULE,
    SCRAM_MODULE,
    JaasError,
    jaas_text,
    parse_jaas,
    parse_jaas_for,
)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {}),
        ('username="alice" password="a b"', {"username": "alice", "password": "a b"}),
        (
            "username = alice\n\tpassword\n=\nx-y.z_$9",
            {"username": "alice", "password": "x-y.z_$9"},
        ),
        ("password='single \"quotes\"'", {"password": 'single "quotes"'}),
        (r'password="\"\\\t\n\z"', {"password": '"\\\t\nz'}),
        (r'password="\101\08\377\477\u0041"', {"password": "A\0" + "8\xff'7u0041"}),
        ('password="x;y//z/*="', {"password": "x;y//z/*="}),
        ("a=b // c=d\n /* e=f\n */ 'g h'=i", {"a": "b", "g h": "i"}),
        ('a="1" a="2"', {"a": "2"}),
        ("a=é日", {"a": "é日"}),
        ("password=b;/* until the end", {"password": "b"}),
    ],
)
def test_options(options: str, expected: dict[str, str]) -> None:
    module = parse_jaas(f"org.example.Login Required {options};")
    assert module.class_name == "org.example.Login"
    assert module.control_flag == "required"
    assert module.options == expected


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_written_comes_back(options: dict[str, str]) -> None:
    text = jaas_text("PLAIN", **options)
    assert "\n" not in text
    assert parse_jaas_for("PLAIN", text) == options


def test_a_name_is_in_quotes_only_if_it_must_be() -> None:
    text = jaas_text("PLAIN", **{"user_a": "x", "user_a@b.c": "y"})
    assert text == f'{PLAIN_MODULE} required user_a="x" "user_a@b.c"="y";'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has no login modules"),
        (" // a comment\n", "has no login modules"),
        ("a.B required;c.D optional;", "has 2 login modules"),
        ("hunter2", "must have one of required, requisite, sufficient, optional after"),
        ("a.B hunter2;", "must have one of required"),
        ("=hunter2", "does not begin with the class"),
        ("a.B required password=hunter2", "does not end with ';'"),
        ("a.B required password=hunter2 /* ;", "does not end with ';'"),
        ('a.B required password="hunter2;', "has a quote that is not closed"),
        ('a.B required password="hun\nter2";', "has a quote that is not closed"),
        ("a.B required user=u password=2hunter2;", "option 2 of the login module is not NAME="),
        ("a.B required password=hunter2@;", "option 2 of the login module is not NAME="),
        ("a.B required password=hunter2/hunter2;", "option 2 of the login module is not NAME="),
        ("a.B required password hunter2;", "option 1 of the login module is not NAME="),
        ("a.B required password=;", "option 1 of the login module is not NAME="),
        ("a.B required =hunter2;", "option 1 of the login module is not NAME="),
    ],
)
def test_errors_name_the_setting_and_no_secret(text: str, complaint: str) -> None:
    with pytest.raises(JaasError, match=r"^listener\.name\.x\.plain\.sasl\.jaas\.config") as caught:
        parse_jaas(text, "listener.name.x.plain.sasl.jaas.config")
    assert complaint in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_secrets_are_not_in_the_representation() -> None:
    assert "hunter2" not in repr(parse_jaas("a.B required password=hunter2;"))


def test_the_module_must_be_the_mechanisms() -> None:
    options = parse_jaas_for("SCRAM-SHA-512", f"{SCRAM_MODULE} required username=u;")
    assert options == {"username": "u"}
    shaded = f"kafkashaded.{PLAIN_MODULE} required;"
    assert parse_jaas_for("PLAIN", shaded) == {}
    with pytest.raises(JaasError, match=rf"but OAUTHBEARER needs {OAUTHBEARER_MODULE}"):
        parse_jaas_for("OAUTHBEARER", shaded)
    for unknown in ("hunter2", f"x{PLAIN_MODULE}", "PlainLoginModule"):
        with pytest.raises(JaasError, match="a login module that is not known here: use") as caught:
            parse_jaas_for("PLAIN", f"{unknown} required;")
        assert unknown not in str(caught.value).replace(PLAIN_MODULE, "")


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse_jaas(text)
    except JaasError as error:
        assert str(error).startswith("sasl.jaas.config")


@pytest.mark.slow
@given(st.text(st.characters(exclude_characters="\r\n"), min_size=1))
def test_any_line_can_be_quoted(value: str) -> None:
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_jaas(f'a.B required password="{quoted}";').options == {"password": value}
