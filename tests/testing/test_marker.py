"""What tests ask for by the marker, the ini file and the command line; what is refused."""

from types import SimpleNamespace
from typing import Any

import pytest

import _odradek_pytest as plugin
from odradek.testing.marker import Refused, Wanted, check_settings, read_markers, read_topics

USUAL = Wanted(settings=(("num.partitions", "2"),))


def read(*markers: dict[str, Any]) -> Any:
    """The nearest first."""
    return read_markers([((), marker) for marker in markers], USUAL, (("a", 1),))


def test_without_a_marker_all_is_as_usual() -> None:
    assert read() == (USUAL, (("a", 1),))


def test_the_nearest_marker_goes_first_and_settings_and_topics_add_up() -> None:
    wanted, topics = read(
        {"settings": {"num.partitions": 5}, "topics": {"b": 3}},
        {
            "brokers": 3,
            "settings": {"num.partitions": 4, "message.max.bytes": 9},
            "topics": {"a": 2},
        },
        {"brokers": 2, "tls": True, "sasl": "PLAIN", "acls": ["User:a all topic:t"]},
    )
    assert dict(wanted.settings) == {"num.partitions": "5", "message.max.bytes": "9"}
    assert (wanted.brokers, wanted.tls, wanted.sasl) == (3, True, "PLAIN")
    assert wanted.acls == ("User:a all topic:t",)
    assert topics == (("a", 2), ("b", 3))


def test_a_release_is_a_setting() -> None:
    wanted, _ = read({"like": "2.8"})
    assert dict(wanted.settings)["odradek.compatibility"] == "2.8"


def test_equal_wishes_are_one_server() -> None:
    one, _ = read({"settings": {"num.partitions": 3}, "auto_create": False})
    same, _ = read(
        {"settings": {"num.partitions": "3", "auto.create.topics.enable": False}},
    )
    assert one == same and hash(one) == hash(same)


@pytest.mark.parametrize(
    ("marker", "sentence"),
    [
        ({"broker": 3}, "has no argument broker: did you mean brokers?"),
        ({"zzz": 3}, "has no argument zzz$"),
        ({"brokers": "3"}, r"\(brokers='3'\): brokers is a number"),
        ({"brokers": True}, "brokers is a number"),
        ({"tls": 1}, "tls is True or False"),
        ({"acls": "User:a"}, "acls is a list"),
        ({"like": "2.9"}, "like='2.9': the releases are 0.11, 1.0, .*, 4.3$"),
        ({"like": 2.8}, "like is the name of a release of Kafka, such as '2.8'"),
        ({"topics": {"t": 0}}, "topics: 't' can't have 0 partitions"),
        ({"topics": {"t": "3"}}, "topics: 't' can't have '3' partitions"),
        ({"settings": {"num.partition": 4}}, "no setting num.partition: did you mean num.partit"),
    ],
)
def test_what_makes_no_sense_is_refused(marker: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        read(marker)
    with pytest.raises(Refused, match="has only named arguments"):
        read_markers([((3,), {})], USUAL, ())


def test_settings_that_kafka_has_are_known() -> None:
    check_settings(["log.retention.ms", "remote.log.storage.system.enable", "odradek.fsync"])
    check_settings(["listener.name.plaintext.ssl.keystore.location"])


def test_topics_have_one_partition_unless_they_say_more() -> None:
    assert read_topics(["b:3", "a"]) == (("a", 1), ("b", 3))
    with pytest.raises(Refused, match="'t:many' is not NAME or NAME:PARTITIONS"):
        read_topics(["t:many"])


def config(ini: dict[str, Any] | None = None, **options: Any) -> Any:
    """A pytest configuration."""
    defaults = {name: default for name, _, default, *_ in plugin.SETTINGS}
    lists: dict[str, Any] = {name: [] for name, default in defaults.items() if default == []}
    inis, given = {**defaults, **(ini or {})}, {**dict.fromkeys(defaults), **lists, **options}
    return SimpleNamespace(
        getini=lambda name: inis[name.removeprefix("odradek_")],
        getoption=lambda name: given[name.removeprefix("odradek_")],
    )


def test_the_command_line_goes_before_the_ini_file() -> None:
    ini = {"brokers": "2", "tls": True, "topics": ["a"], "acls": ["x"], "auto_create": "false"}
    wanted, topics = plugin._usual(config(ini, brokers="3", tls="false", topics=["b:2"]))
    assert (wanted.brokers, wanted.tls, wanted.acls) == (3, False, ("x",))
    assert wanted.settings == (("auto.create.topics.enable", "false"),)
    assert topics == (("a", 1), ("b", 2))


def test_wrong_values_are_named() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"brokers": "three"}, "odradek_brokers: 'three' is not a number"),
        ({"tls": "perhaps"}, "odradek_tls: 'perhaps' is neither true nor false"),
    ]
    for options, sentence in wrong:
        with pytest.raises(pytest.UsageError, match=sentence):
            plugin._usual(config(**options))
    with pytest.raises(pytest.UsageError, match="odradek_scope: 'always' is none of session"):
        plugin._scope("odradek", config(scope="always"))
