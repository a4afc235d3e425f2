"""`odradek.testing.Broker` before any broker runs."""

from collections.abc import Callable
from typing import Any, get_args

import pytest

from odradek.client_configs import client_config
from odradek.testing import Broker, BrokerFailed, ClientName


def test_what_no_cluster_can_be() -> None:
    with pytest.raises(ValueError, match="brokers=0: there must be at least one"):
        Broker(brokers=0)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"brokers": "3"}, "brokers='3' is not a number"),
        ({"brokers": True}, "brokers=True is not a number"),
        ({"settings": ["num.partitions=3"]}, "a dict of Kafka's names and their values"),
        ({"settings": {1: 2}}, "a dict of Kafka's names and their values"),
        ({"tls": "no"}, "tls='no' is neither True nor False"),
        ({"sasl": "PLAIN", "acls": "User:a read topic:t"}, "a list of such texts"),
        ({"sasl": "PLAIN", "acls": [1]}, "the ACL 1 is not like"),
    ]
    for arguments, sentence in wrong:
        with pytest.raises(ValueError, match=sentence):
            Broker(**arguments)
    with pytest.raises(ValueError, match="with ZooKeeper every broker is a process of its own"):
        Broker(zookeeper="auto", in_process=True)


@pytest.mark.parametrize("name", ["listeners", "log.dirs", "zookeeper.connect"])
def test_settings_that_are_its_own(name: str) -> None:
    with pytest.raises(ValueError, match=f"sets {name} itself"):
        Broker(settings={name: "x"})


def test_before_the_start_there_is_nothing_to_tell() -> None:
    broker = Broker()
    assert not broker.running
    assert broker.pid is None
    assert broker.log == ""
    for name in ("bootstrap_servers", "port", "data_dir"):
        with pytest.raises(RuntimeError, match="not started"):
            getattr(broker, name)
    verbs: list[Callable[[], object]] = [
        lambda: broker.clock.advance("1s"),
        lambda: broker.clock.is_frozen,
        lambda: broker.faults.add(api="Produce", close=True),
        broker.journal.requests,
        lambda: broker.network.state,
    ]
    for verb in verbs:  # what nobody is told would have no effect
        with pytest.raises(BrokerFailed, match="no broker runs"):
            verb()
    broker.stop()
    broker.close()


def test_every_client_has_its_own_words() -> None:
    configs = {name: client_config(name, "h:1") for name in get_args(ClientName)}
    assert configs == {
        "kafka-python": {"bootstrap_servers": "h:1"},
        "aiokafka": {"bootstrap_servers": "h:1"},
        "confluent": {"bootstrap.servers": "h:1"},
        "java": {"bootstrap.servers": "h:1"},
        "spark": {"kafka.bootstrap.servers": "h:1"},
    }


def test_an_unknown_client_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="no client 'sarama': one of kafka-python, aiokafka"):
        client_config("sarama", "h:1")  # type: ignore[arg-type]
