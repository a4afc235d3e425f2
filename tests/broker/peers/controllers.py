"""A cluster as a broker's controller client sees it: metadata, and brokers that answer."""

import asyncio
from collections.abc import Callable

from odradek.broker.config import Config
from odradek.broker.member.metadata import Address, BrokerInfo, MetadataCache
from odradek.broker.peers.addresses import Peers
from odradek.broker.peers.controller_client import ControllerClient
from odradek.broker.peers.security import load_securities
from odradek.broker.runtime import Runtime
from odradek.protocol.framing import encode_response, read_request_start
from odradek.protocol.messages.k18_api_versions import ApiVersion, ApiVersionsResponse
from odradek.protocol.schema import Message
from tests.support.connections import read_frame
from tests.support.tcp_server import HOST, TcpServer

OWN_ID = 7
Answer = Callable[[int, int], "Message | None"]
"""From API key and version to an answer; None: hang up."""

LISTENERS = {
    "listeners": "PLAINTEXT://h:1,PLANE://h:2",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PLANE:PLAINTEXT",
}


class OtherBroker(TcpServer):
    """A broker that answers by a function."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(self._talk)
        self.answer = answer
        self.asked: list[tuple[int, int]] = []
        """API keys and versions."""
        self.frame = b""
        """Of the request that is being answered."""

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            frame = await read_frame(reader)
            api_key, version, correlation_id = read_request_start(frame)
            response: Message | None
            if api_key == 18:
                keys = [ApiVersion(api_key=key, max_version=3) for key in (7, 56, 67)]
                response = ApiVersionsResponse(api_keys=keys)
            else:
                self.asked.append((api_key, version))
                self.frame = frame
                response = self.answer(api_key, version)
            if response is None:
                return
            writer.write(
                encode_response(response, version, correlation_id, flexible_header=api_key != 18)
            )


class Cluster:
    """What broker 7 knows, and its client."""

    def __init__(self, answer_self: Answer, **settings: str) -> None:
        self.metadata = MetadataCache("c")
        self.config = Config({**LISTENERS, **settings})
        self.self_asked = 0
        self._answer_self = answer_self
        self.client = ControllerClient(
            Peers(self.config, self.metadata, load_securities(self.config, {}, Runtime.system())),
            self.metadata,
            broker_id=OWN_ID,
            ask_self=self._ask_self,
            timeout_ms=1_000,
        )

    async def _ask_self(self, request: Message, version: int) -> Message:
        self.self_asked += 1
        answer = self._answer_self(request.API_KEY, version)
        assert answer is not None
        return answer

    def tell(self, controller_id: int, **brokers: OtherBroker) -> None:
        """As UpdateMetadata does; brokers as b1=…, each at its own port on both listeners."""
        infos = [BrokerInfo(OWN_ID, None, {"PLAINTEXT": Address(HOST, 1)})]
        for name, broker in brokers.items():
            endpoints = {
                "PLAINTEXT": Address(HOST, broker.port),
                "PLANE": Address(HOST, broker.port),
            }
            infos.append(BrokerInfo(int(name[1:]), None, endpoints))
        self.metadata.update_brokers(controller_id, infos)
        self.metadata.update_partitions([])
