"""HOST:PORT, as users write it."""

import pytest

from odradek.host_port import parse_host_port


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", ("localhost", 9092)),
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_an_address(text: str, address: tuple[str, int]) -> None:
    assert parse_host_port(text) == address


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is not HOST:PORT"),
        ("localhost", "is not HOST:PORT"),
        (":9092", "is not HOST:PORT"),
        ("[]:9092", "is not HOST:PORT"),
        ("[localhost]:9092", "is not HOST:PORT"),
        ("a/b:9092", "is not HOST:PORT"),
        ("me@b:9092", "is not HOST:PORT"),
        ("http://a:9092", "is not HOST:PORT"),
        ("localhost:", "is not HOST:PORT"),
        ("localhost:٣", "is not HOST:PORT"),
        ("localhost:-1", "is not HOST:PORT"),
        ("::1:9092", ": an IPv6 address stands in brackets"),
        ("localhost:0", ": a port is between 1 and 65535"),
        ("localhost:65536", ": a port is between 1 and 65535"),
        ("localhost:" + "9" * 5000, ": a port is between 1 and 65535"),
    ],
)
def test_what_is_none(text: str, what: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_host_port(text)
    assert str(refused.value) in (f"{text!r} {what}", f"{text!r}{what}")


def test_a_listener_may_have_port_0() -> None:
    assert parse_host_port("localhost:0", port_min=0) == ("localhost", 0)
