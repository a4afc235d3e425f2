"""Settings of SASL of a single listener, and of one mechanism of it."""

import pytest

from odradek.broker.config import Config, ConfigError
from odradek.broker.settings.sasl import sasl_listener_setting

LISTENERS = {
    "listeners": "IN://h:1,OUT.SIDE://h:2,PLAINTEXT://localhost:3",
    "listener.security.protocol.map": "IN:SASL_PLAINTEXT,OUT.SIDE:SASL_SSL,PLAINTEXT:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
}
REAUTH = "connections.max.reauth.ms"


@pytest.mark.parametrize(
    ("name", "listener_name", "mechanism"),
    [
        ("listener.name.in.sasl.enabled.mechanisms", "IN", ""),
        ("listener.name.out.side.sasl.enabled.mechanisms", "OUT.SIDE", ""),
        ("listener.name.in.plain.sasl.jaas.config", "IN", "PLAIN"),
        ("listener.name.out.side.scram-sha-256.sasl.jaas.config", "OUT.SIDE", "SCRAM-SHA-256"),
        ("listener.name.in.connections.max.reauth.ms", "IN", ""),
        ("listener.name.in.plain.connections.max.reauth.ms", "IN", "PLAIN"),
        ("listener.name.in.sasl.server.max.receive.size", "IN", ""),
    ],
)
def test_names(name: str, listener_name: str, mechanism: str) -> None:
    found = sasl_listener_setting(name)
    assert found is not None
    assert found[:2] == (listener_name, mechanism)
    assert name.endswith(found[2].name)


@pytest.mark.parametrize(
    "name",
    [
        "sasl.enabled.mechanisms",
        "listener.name.sasl.jaas.config",
        "listener.name.in.sasl.jaas.config",
        "listener.name.in.plan.sasl.jaas.config",
        "listener.name.IN.sasl.enabled.mechanisms",
        "listener.name.in.PLAIN.sasl.jaas.config",
        "listener.name.in.sasl.mechanism.inter.broker.protocol",
    ],
)
def test_no_settings_of_a_listener(name: str) -> None:
    assert sasl_listener_setting(name) is None


def test_the_nearest_setting_counts() -> None:
    config = Config(
        {
            **LISTENERS,
            REAUTH: "1",
            f"listener.name.in.{REAUTH}": "2",
            f"listener.name.in.plain.{REAUTH}": "3",
            "listener.name.in.sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
        }
    )
    inner, outer = config.listener_sasl("IN"), config.listener_sasl("OUT.SIDE")
    assert inner is not None
    assert outer is not None
    assert config.listener_sasl("PLAINTEXT") is None
    assert inner.of_mechanism("PLAIN", REAUTH) == 3
    assert inner.of_mechanism("SCRAM-SHA-256", REAUTH) == 2
    assert outer.of_mechanism("PLAIN", REAUTH) == 1
    assert inner["sasl.enabled.mechanisms"] == ("SCRAM-SHA-256", "PLAIN")
    assert outer["sasl.enabled.mechanisms"] == ("PLAIN",)
    assert outer.name_of(REAUTH, "PLAIN") == REAUTH


def test_what_has_no_effect_is_warned_about() -> None:
    config = Config(
        {
            **LISTENERS,
            "listener.name.in.plain.sasl.jaas.config": "hunter2",
            "listener.name.in.gssapi.sasl.jaas.config": "hunter2",
            "listener.name.in.plan.sasl.jaas.config": "hunter2",
            "listener.name.plaintext.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.absent.plain.sasl.jaas.config": "hunter2",
        }
    )
    assert config.warnings == (
        "setting listener.name.in.plan.sasl.jaas.config has no effect yet: a single listener has "
        "only those of TLS and SASL, and limits",
        "setting listener.name.in.gssapi.sasl.jaas.config has no effect: IN does not offer GSSAPI",
        "setting listener.name.plaintext.sasl.enabled.mechanisms has no effect: PLAINTEXT is not "
        "a listener with SASL",
        "setting listener.name.absent.plain.sasl.jaas.config has no effect: ABSENT is not a "
        "listener with SASL",
    )


@pytest.mark.parametrize("prefix", ["", "listener.name.in.plain."])
def test_logins_are_checked_by_no_class(prefix: str) -> None:
    with pytest.raises(ConfigError, match="is not allowed: it must be one of org"):
        Config({**LISTENERS, f"{prefix}sasl.server.callback.handler.class": "com.example.Checks"})


def test_what_another_broker_has_stored_does_not_open_a_listener() -> None:
    config = Config(LISTENERS)
    config.change(own={"sasl.enabled.mechanisms": "SCRAM-SHA-256"})
    found = config.listener_sasl("IN")
    assert found is not None
    assert found["sasl.enabled.mechanisms"] == ("PLAIN",)
