"""A listener of its own for the controller: seen on 3.9.2, it serves what all listeners serve.

Ours serves there, and where brokers speak to each other, what it takes from brokers only."""

from odradek.broker.peers.peer import Peer
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.k06_update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

from .running import HOST, RunningBroker, on_broker

PLANE = {
    "listeners": f"PLAINTEXT://{HOST}:0,PLANE://{HOST}:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PLANE:PLAINTEXT",
    "control.plane.listener.name": "PLANE",
    "broker.rack": "r1",
}


@on_broker(PLANE, both=False)
async def test_both_serve_everything(broker: RunningBroker) -> None:
    """With its own address for every broker; an old controller is refused on each."""
    broker.node.local.is_alone = False
    stale = UpdateMetadataRequest(controller_id=0, controller_epoch=0, broker_epoch=-1)
    for listener in broker.listeners:
        peer = Peer(HOST, listener.port, client_id="1", timeout_ms=10_000)
        answer = await peer.ask(MetadataRequest(topics=[]), 12)
        assert isinstance(answer, MetadataResponse)
        assert [(node.port, node.rack) for node in answer.brokers] == [(listener.port, "r1")]
        refusal = await peer.ask(stale, 8)
        assert isinstance(refusal, UpdateMetadataResponse)
        assert refusal.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        peer.close()
