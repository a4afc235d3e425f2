"""The network between one broker and its clients."""

import pytest
from confluent_kafka import Producer

from odradek.testing import Broker
from odradek.testing.door import AdminError

pytestmark = [pytest.mark.wire, pytest.mark.slow]


def test_one_broker_is_cut_off_from_its_clients_with_tls_too() -> None:
    with Broker(in_process=True, tls=True) as broker:
        broker.topics.create("t")
        producer = Producer(broker.client_config("confluent"))
        producer.produce("t", bytes(1000))
        assert producer.flush(30) == 0
        broker.network.isolate(0, clients=True)
        producer.produce("t", bytes(1000))
        late = Producer(broker.client_config("confluent"))  # its handshake waits
        late.produce("t", b"v")
        assert producer.flush(0.2) == 1
        assert late.flush(0.2) == 1
        broker.network.heal()
        assert producer.flush(30) == late.flush(30) == 0
        with pytest.raises(ValueError, match="broker 0 is the only one"):
            broker.network.isolate(0)
        with pytest.raises(AdminError, match="the store of a single broker"):
            broker.network.isolate(0, clients=True, store=True)
