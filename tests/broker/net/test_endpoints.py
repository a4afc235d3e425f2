import pytest

from odradek.broker.config import Config
from odradek.broker.net.endpoints import (
    Endpoint,
    parse_connection_limits,
    parse_endpoints,
    parse_protocol_map,
)
from odradek.broker.settings.declaration import INT32_MAX, ConfigError


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [
        ("PLAINTEXT://:9092", [Endpoint("PLAINTEXT", "", 9092)]),
        ("plaintext://h-1.example:0", [Endpoint("PLAINTEXT", "h-1.example", 0)]),
        (
            "A://[::1]:1, B_2://127.0.0.1:65535",
            [Endpoint("A", "::1", 1), Endpoint("B_2", "127.0.0.1", 65535)],
        ),
    ],
)
def test_listeners_are_read(text: str, endpoints: list[Endpoint]) -> None:
    assert parse_endpoints("listeners", text) == tuple(endpoints)


def test_an_endpoint_is_written_as_it_is_read() -> None:
    for text in ("PLAINTEXT://[::1]:9092", "A://host:1", "A://:1"):
        assert str(parse_endpoints("listeners", text)[0]) == text


@pytest.mark.parametrize(
    "text",
    ["", "localhost:9092", "A://h", "A://h:-1", "A://h:65536", "A://::1:5", "A://h:1,", "://h:1"],
)
def test_listeners_that_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^listeners="):
        Config({"listeners": text})


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners"),
        ({"listeners": "PLAINTEXT://[::]:9092"}, "advertised.listeners"),
        (
            {"listeners": "A://h:1", "listener.security.protocol.map": "B:PLAINTEXT"},
            "listener.security.protocol.map",
        ),
        ({"listeners": "PLAINTEXT://h:1,plaintext://h:2"}, "twice"),
        (
            {
                "listeners": "A://h:1,B://h:1",
                "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
            },
            "twice",
        ),
        ({"advertised.listeners": "SSL://h:1"}, "advertised.listeners names SSL"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "cannot connect"),
        ({"listener.security.protocol.map": "A:NONE"}, "NAME:PROTOCOL"),
        ({"listener.security.protocol.map": "A"}, "NAME:PROTOCOL"),
    ],
)
def test_listeners_that_cannot_work(settings: dict[str, str], word: str) -> None:
    with pytest.raises(ConfigError) as error:
        Config(settings)
    assert word in str(error.value)


def test_a_wildcard_is_served_with_an_advertised_listener() -> None:
    config = Config(
        {"listeners": "PLAINTEXT://0.0.0.0:0", "advertised.listeners": "PLAINTEXT://broker:9092"}
    )
    assert config.listener_endpoints == (Endpoint("PLAINTEXT", "0.0.0.0", 0),)
    assert config.advertised_endpoints == (Endpoint("PLAINTEXT", "broker", 9092),)


def test_listeners_are_advertised_as_they_are() -> None:
    config = Config()
    assert config.advertised_endpoints == (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    assert parse_protocol_map("x", "a:plaintext, B:SSL") == {"A": "PLAINTEXT", "B": "SSL"}


def test_limits_of_connections() -> None:
    given = "10.0.0.1:5, [0:0:0:0:0:0:0:1]:0,fe80::1:7"
    config = Config({"max.connections.per.ip.overrides": given})
    assert config.connection_limits == {"10.0.0.1": 5, "::1": 0, "fe80::1": 7}
    assert parse_connection_limits("x", "[::ffff:10.0.0.2]:3") == {"10.0.0.2": 3}
    for text in ("10.0.0.1", "::1:", ":5", "10.0.0.1:-1", "::1:b"):
        with pytest.raises(ConfigError, match="ADDRESS:COUNT"):
            parse_connection_limits("x", text)
    for text in ("localhost:5", "10.0.0:1", "10.0.0.1/8:2", "::1"):
        with pytest.raises(ConfigError, match="is not an IP address"):
            parse_connection_limits("x", text)


def test_limits_of_one_listener() -> None:
    own = "listener.name.plaintext.max.connections"
    config = Config({own: "5", "max.connections": "7"})
    assert config.limit_of_listener("PLAINTEXT", "max.connections") == 5
    assert config.limit_of_listener("PLAINTEXT", "max.connection.creation.rate") == INT32_MAX
    assert not config.warnings
    assert Config({"listener.name.a.max.connection.creation.rate": "5"}).warnings == (
        "setting listener.name.a.max.connection.creation.rate has no effect: A is not a listener",
    )
    with pytest.raises(ConfigError, match=own):
        Config({own: "-1"})
    for name in ("listener.name.PLAINTEXT.max.connections", "listener.name..max.connections"):
        (warning,) = Config({name: "5"}).warnings
        assert "has no effect" in warning


MAP = "A:PLAINTEXT,B:PLAINTEXT,PLAINTEXT:PLAINTEXT"
THREE = {
    "listeners": "PLAINTEXT://h:1,A://h:2,B://h:3",
    "listener.security.protocol.map": MAP,
}


@pytest.mark.parametrize(
    ("settings", "inter_broker", "of_controller"),
    [
        ({}, "PLAINTEXT", "PLAINTEXT"),
        ({"security.inter.broker.protocol": "PLAINTEXT"}, "PLAINTEXT", "PLAINTEXT"),
        ({"inter.broker.listener.name": "a"}, "A", "A"),
        ({"control.plane.listener.name": "B"}, "PLAINTEXT", "B"),
        ({"inter.broker.listener.name": "A", "control.plane.listener.name": "B"}, "A", "B"),
    ],
)
def test_listeners_between_brokers(
    settings: dict[str, str], inter_broker: str, of_controller: str
) -> None:
    chosen = Config({**THREE, **settings}).broker_listeners
    assert chosen.inter_broker == inter_broker
    assert chosen.of_controller == of_controller


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"inter.broker.listener.name": "C"}, "not in listener.security.protocol.map"),
        (
            {"inter.broker.listener.name": "A", "security.inter.broker.protocol": "PLAINTEXT"},
            "only one of",
        ),
        ({"advertised.listeners": "A://h:2,B://h:3"}, "PLAINTEXT is not in advertised.listeners"),
        (
            {"inter.broker.listener.name": "A", "advertised.listeners": "PLAINTEXT://h:1"},
            "inter.broker.listener.name to one of PLAINTEXT",
        ),
        ({"control.plane.listener.name": "PLAINTEXT"}, "must be another listener"),
        ({"control.plane.listener.name": "C"}, "not in advertised.listeners"),
    ],
)
def test_listeners_between_brokers_that_are_refused(settings: dict[str, str], word: str) -> None:
    with pytest.raises(ConfigError) as error:
        Config({**THREE, **settings})
    assert word in str(error.value)


WITH_TLS = {
    "listeners": "SSL://h:1,PLAINTEXT://h:2,C://h:3",
    "listener.security.protocol.map": "SSL:SSL,PLAINTEXT:PLAINTEXT,C:SSL",
}


@pytest.mark.parametrize(
    ("settings", "inter_broker"),
    [
        ({"listeners": "SSL://h:1"}, "SSL"),
        ({"listeners": "C://h:1,SSL://h:2"}, "C"),
        ({}, "PLAINTEXT"),
        ({"inter.broker.listener.name": "C"}, "C"),
        ({"security.inter.broker.protocol": "SSL"}, "SSL"),
    ],
)
def test_a_broker_that_is_alone_may_have_only_tls(
    settings: dict[str, str], inter_broker: str
) -> None:
    assert Config({**WITH_TLS, **settings}).broker_listeners.inter_broker == inter_broker


@pytest.mark.parametrize(
    ("settings", "inter_broker", "of_controller"),
    [
        ({}, "PLAINTEXT", "PLAINTEXT"),
        ({"inter.broker.listener.name": "C"}, "C", "C"),
        ({"control.plane.listener.name": "C"}, "PLAINTEXT", "C"),
        ({"security.inter.broker.protocol": "SSL"}, "SSL", "SSL"),
        (
            {
                "inter.broker.listener.name": "C",
                "listener.security.protocol.map": "SSL:SSL,PLAINTEXT:PLAINTEXT,C:SASL_SSL",
            },
            "C",
            "C",
        ),
    ],
)
def test_brokers_with_others_may_speak_tls(
    settings: dict[str, str], inter_broker: str, of_controller: str
) -> None:
    cluster = {**WITH_TLS, "zookeeper.connect": "zk:2181"}
    chosen = Config({**cluster, **settings}).broker_listeners
    assert (chosen.inter_broker, chosen.of_controller) == (inter_broker, of_controller)


def test_brokers_with_others_are_told_which_listener_is_for_them() -> None:
    with pytest.raises(ConfigError, match=r"PLAINTEXT is not in advertised\.listeners"):
        Config({**WITH_TLS, "zookeeper.connect": "zk:2181", "listeners": "SSL://h:1"})


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_broker_that_is_alone_may_have_only_logins(protocol: str) -> None:
    config = Config({"listeners": f"{protocol}://h:1"})
    assert config.broker_listeners.inter_broker == protocol
    assert config.has_sasl(protocol)


def test_brokers_of_one_process_have_their_own_listener_beside_tls() -> None:
    config = Config({"listeners": "SSL://h:1"})
    config.share_process("secret")
    assert config.broker_listeners.names == {"odradek-brokers"}
    assert config.has_sasl("odradek-brokers")


def test_brokers_of_one_process_guard_their_listener_if_clients_are_not_guarded_too() -> None:
    config = Config({})
    config.share_process("secret")
    assert config.has_sasl("odradek-brokers")
    assert not config.has_sasl("PLAINTEXT")
