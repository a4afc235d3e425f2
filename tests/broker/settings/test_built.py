"""The declarations against Kafka's own, and against each other."""

from pathlib import Path
from typing import NamedTuple

import pytest

from odradek.broker.settings import docs, known, sasl, topic_declaration
from odradek.broker.settings.built import BUILT, GROUPS, BrokerSettings
from odradek.broker.settings.declaration import Setting, Value, text_of
from odradek.broker.settings.later import LATER
from odradek.broker.settings.never import NEVER
from odradek.broker.settings.sasl import SASL_SETTINGS
from odradek.broker.settings.security import SECURITY
from odradek.broker.settings.sources import environment_form
from odradek.broker.settings.tls import TLS_SETTINGS
from odradek.broker.settings.topic import TopicSettings
from odradek.broker.settings.topic_config import TOPIC_SETTINGS

ROOT = Path(__file__).parents[3]
VECTORS = ROOT / "tests" / "vectors" / "kafka_3.9.2_configs.tsv"

# What is meant to be different from Kafka; each of its defaults is said in our declaration, too.
OTHER_DEFAULTS = {
    "broker.id",
    "group.consumer.assignors",  # as in 4.3.1
    "group.coordinator.rebalance.protocols",  # as in 4.3.1
    "listeners",
    "log.dir",
    "log.message.downconversion.enable",
    "message.downconversion.enable",
    "num.recovery.threads.per.data.dir",
    "offsets.topic.replication.factor",
    "queued.max.request.bytes",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
    "zookeeper.max.in.flight.requests",
}
SAID_IN_WORDS = {
    "broker.id": "-1: generated",
    "group.consumer.assignors": "the Java classes of both",
}
OTHER_BOUNDS = {
    "broker.id",  # generation is not built
    "group.consumer.assignors",
    "group.coordinator.rebalance.protocols",
    "offsets.topic.segment.bytes",  # as of any topic
    "transaction.state.log.segment.bytes",  # as of any topic
    "default.replication.factor",  # 0 could create no topic
    "log.roll.jitter.ms",  # as the topic's setting
    "log.roll.ms",  # as the topic's setting
    "compression.gzip.level",  # its text says that 0 is out
    "replica.selector.class",  # no class of a user's own can be loaded
    "sasl.login.connect.timeout.ms",  # Kafka declares none, for brokers
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.login.callback.handler.class",  # no class is ever loaded
    "sasl.server.callback.handler.class",  # no class is ever loaded
    "socket.receive.buffer.bytes",  # Kafka declares none
    "socket.send.buffer.bytes",  # Kafka declares none
    "ssl.endpoint.identification.algorithm",  # Java knows others
    "password.encoder.cipher.algorithm",  # those that Python has
    "password.encoder.iterations",
    "password.encoder.key.length",
    "password.encoder.keyfactory.algorithm",
}
OF_KAFKA_4 = {
    "group.consumer.assignment.interval.ms",
    "group.consumer.migration.policy",
    "group.consumer.regex.refresh.interval.ms",
}
OF_AUTHORIZERS = {"super.users", "allow.everyone.if.no.acl.found"}
"""Kafka's authorizers read them by themselves."""
OF_JAVA = {"org.apache.kafka.sasl.oauthbearer.allowed.urls"}
"""A system property."""
OF_RUNNING_BROKERS = {  # no settings of Kafka's file, but a broker can be told
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}
UNCHECKED_BOUNDS = {"versions", "see doc", "non-empty string", "non-null string", "non-empty list"}


class Row(NamedTuple):
    scope: str
    name: str
    type: str
    default: str
    validator: str
    more: str


def rows(scope: str) -> list[Row]:
    lines = VECTORS.read_text().splitlines()
    found = [Row(*line.split("\t")) for line in lines if not line.startswith("#")]
    return [row for row in found if row.scope == scope]


def declared() -> dict[str, Setting[Value]]:
    return {**known.UNBUILT, **BUILT}


def bounds(setting: Setting[Value]) -> str:
    if setting.choices:
        return f"[{', '.join(setting.choices)}]"
    if setting.at_least is None:
        return ""
    return f"[{setting.at_least},...{f',{setting.at_most}' if setting.at_most is not None else ''}]"


def check_row(setting: Setting[Value], row: Row) -> None:
    assert setting.kind.name == row.type
    default = row.default.removeprefix("class ")
    if row.type == "list":
        default = default.removeprefix("[").removesuffix("]").replace(", ", ",")
    if row.name not in OTHER_DEFAULTS:
        assert text_of(setting.default) == (None if default == "null" else default)
    elif row.scope == "broker":  # which says it for its topics' setting as well
        assert text_of(setting.default) != default
        assert setting.kafka_default == SAID_IN_WORDS.get(row.name, default)
    if row.name not in OTHER_BOUNDS and row.validator not in UNCHECKED_BOUNDS:
        if setting.check is None:
            assert bounds(setting) == row.validator.replace(",...,]", ",...]")
        else:
            assert setting.check("neither this nor that") is not None


@pytest.mark.parametrize("row", rows("broker"), ids=lambda row: row.name)
def test_a_broker_s_setting_is_kafka_s(row: Row) -> None:
    check_row(declared()[row.name], row)
    assert (row.name in known.DYNAMIC) == (row.more == "dynamic")


@pytest.mark.parametrize("row", rows("topic"), ids=lambda row: row.name)
def test_a_topic_s_setting_is_kafka_s(row: Row) -> None:
    setting = TOPIC_SETTINGS[row.name]
    check_row(setting, row)
    assert ",".join(name for name, _ in setting.synonyms) == row.more


def test_there_are_no_others_but_our_own() -> None:
    ours = {name for name in declared() if not name.startswith("odradek.")}
    assert ours - OF_KAFKA_4 - OF_RUNNING_BROKERS - OF_AUTHORIZERS - OF_JAVA == {
        row.name for row in rows("broker")
    }
    assert set(TOPIC_SETTINGS) == {row.name for row in rows("topic")}


def test_a_setting_is_declared_once() -> None:
    assert not BUILT.keys() & known.UNBUILT.keys()
    assert len(known.UNBUILT) == len(LATER + SECURITY + NEVER)
    assert len(BUILT) == sum(
        isinstance(value, Setting) for group in GROUPS for value in vars(group).values()
    )


@pytest.mark.parametrize("owner", [BrokerSettings, TopicSettings])
def test_attributes_are_named_after_settings(owner: type) -> None:
    for group in owner.__mro__:
        for attribute, setting in vars(group).items():
            if isinstance(setting, Setting):
                assert attribute == setting.attribute


def test_environment_forms_are_unique() -> None:
    forms = [environment_form(name) for name in declared()]
    assert len(set(forms)) == len(forms)
    ours = {form.removeprefix("ODRADEK_") for form in forms if form.startswith("ODRADEK_")}
    assert not ours & set(forms)  # ODRADEK_FLUSH_BYTES can mean but one


def test_defaults_are_allowed() -> None:
    for setting in [*declared().values(), *TOPIC_SETTINGS.values()]:
        text = text_of(setting.default)
        if text is not None:
            assert setting.parse(text) == setting.default


def test_a_topic_s_default_is_the_broker_s() -> None:
    for setting in TOPIC_SETTINGS.values():
        for name, factor in setting.synonyms:
            value = declared()[name].default
            if value is not None:
                if factor != 1:
                    assert isinstance(value, int)
                    value *= factor
                assert value == setting.default
                break
        else:
            assert not setting.synonyms


def test_what_works_is_the_same_for_a_topic_and_its_broker() -> None:
    for setting in TOPIC_SETTINGS.values():
        for name, _ in setting.synonyms:
            if name in BUILT:
                assert setting.built == BUILT[name].built
                assert setting.effect != topic_declaration.DEFAULT
            else:
                assert setting.effect != topic_declaration.BUILT


def test_no_setting_is_taken_and_ignored() -> None:
    """Each is read under its attribute, be it by way of a topic's setting."""
    declarations = ROOT / "broker" / "settings"
    rooms = [path for path in (ROOT / "broker").rglob("*.py") if declarations not in path.parents]
    broker = "".join(path.read_text() for path in [*rooms, declarations / "topic_config.py"])
    commands = "".join(path.read_text() for path in (ROOT / "odradek" / "cli").glob("*.py"))
    by_topics = {name for setting in TOPIC_SETTINGS.values() for name, _ in setting.synonyms}
    unread = {
        setting.name
        for setting in BUILT.values()
        if setting.name not in by_topics and f".{setting.attribute}" not in broker + commands
    }
    # Those of TLS and SASL can be a single listener's, and are read by their names or constants.
    # Commands use the same names for properties of clients.
    constants = {value: name for name, value in vars(sasl).items() if isinstance(value, str)}
    unread -= {
        name
        for name in TLS_SETTINGS | SASL_SETTINGS
        if f'"{name}"' in broker or (name in constants and constants[name] in broker)
    }
    assert unread == {"ssl.keystore.type", "ssl.truststore.type"}, "a store's content tells it"


def test_every_setting_says_what_it_does() -> None:
    for setting in [*declared().values(), *TOPIC_SETTINGS.values()]:
        assert setting.doc.endswith(".")
        assert setting.doc[0].isupper()


def test_the_page_is_current() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert page == docs.configuration_markdown(), (
        "run: python -m odradek.broker.settings.docs > docs/configuration.md"
    )
