"""The controller's ways to brokers that it cannot speak with."""

from typing import Any

import pytest

from odradek.broker.cluster.links import BrokerLinks, NoListener
from odradek.broker.config import Config
from odradek.broker.core.controller.context import Endpoint, LiveBroker
from odradek.broker.peers.peer import Peer
from odradek.broker.peers.security import load_securities
from odradek.broker.runtime import Runtime
from odradek.protocol.messages.k06_update_metadata import UpdateMetadataRequest
from tests.broker.coordination.asynchronous import asynchronous


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        (
            Endpoint("PLAINTEXT", "127.0.0.1", 1, "SSL"),
            "it speaks SSL on its listener PLAINTEXT",
        ),
        (Endpoint("OTHER", "127.0.0.1", 1, "PLAINTEXT"), "no listener PLAINTEXT"),
    ],
)
def test_a_broker_that_listens_elsewhere(endpoint: Endpoint, reason: str) -> None:
    unasked: Any = None
    config = Config({})
    links = BrokerLinks(1, config, unasked, load_securities(config, {}, Runtime.system()))

    @asynchronous
    async def test() -> None:
        link = links(LiveBroker(2, 7, (endpoint,)))
        with pytest.raises(NoListener, match=reason):
            await link.ask(UpdateMetadataRequest(), 8)
        good = Endpoint("PLAINTEXT", "127.0.0.1", 1, "PLAINTEXT")
        assert isinstance(links(LiveBroker(2, 7, (endpoint, good))), Peer) == (
            endpoint.listener_name == "OTHER"
        )

    test()
