"""The address of the admin API."""

import pytest

from odradek.broker.config import ConfigError, load_config
from odradek.broker.settings.admin import AdminAddress, parse_admin_listener


@pytest.mark.parametrize(
    ("text", "address", "shown"),
    [
        ("127.0.0.1:0", AdminAddress("127.0.0.1", 0), "http://127.0.0.1:0/"),
        ("localhost:80", AdminAddress("localhost", 80), "http://localhost:80/"),
        ("[::1]:80", AdminAddress("::1", 80), "http://[::1]:80/"),
        ("unix:/run/a", AdminAddress(path="/run/a"), "unix:/run/a"),
        ("host:65535", AdminAddress("host", 65535), "http://host:65535/"),
    ],
)
def test_addresses(text: str, address: AdminAddress, shown: str) -> None:
    assert parse_admin_listener(text) == address
    assert str(address) == shown


@pytest.mark.parametrize(
    "text", ["80", ":80", "h:", "h:65536", "h:-1", "h:٣", "::1:80", "[h]:80", "a/b:80", "unix:"]
)
def test_what_is_no_address(text: str) -> None:
    assert parse_admin_listener(text) is None
    with pytest.raises(ConfigError, match=r"odradek\.admin\.listener"):
        load_config(overrides={"odradek.admin.listener": text})


@pytest.mark.parametrize("text", ["127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "localhost:1", "unix:a"])
def test_only_this_machine_reaches_it(text: str) -> None:
    assert load_config(overrides={"odradek.admin.listener": text}).odradek_admin_listener == text


@pytest.mark.parametrize("text", ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "example.org:1"])
def test_others_reach_it_and_need_a_token(text: str) -> None:
    given = {"odradek.admin.listener": text}
    with pytest.raises(ConfigError, match=r"set odradek\.admin\.token, too"):
        load_config(overrides=given)
    load_config(overrides={**given, "odradek.admin.token": "secret"})
    with pytest.raises(ConfigError, match="ASCII without blanks"):
        load_config(overrides={**given, "odradek.admin.token": "two words"})
