"""`odradek.testing.Broker` before any broker runs."""

from typing import get_args

import pytest

from odradek.client_configs import client_config
from odradek.testing import Broker, ClientName


def test_what_no_cluster_can_be() -> None:
    with pytest.raises(ValueError, match="brokers=0: there must be at least one"):
        Broker(brokers=0)
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
