"""The network's resources: what they show, and what they refuse."""

from pathlib import Path

import pytest

from odradek.broker.network.network import Network
from tests.broker.admin_api.asking import Reply, get, post, served
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.running import make_broker

GOOD: dict[str, list[object]] = {"splits": [], "slow": []}
pytestmark = pytest.mark.slow


def refused(reply: Reply, status: int) -> str:
    assert reply.status == status, reply
    return str(reply.content["error"])


@pytest.mark.parametrize("portable", [False, True])
def test_one_broker_is_cut_off_from_its_clients(tmp_path: Path, portable: bool) -> None:
    @asynchronous
    async def test() -> None:
        broker, runtime = make_broker(tmp_path, portable=portable)
        runtime.network = Network()
        await broker.start()
        async with served(running=broker, runtime=runtime) as server:
            assert (await get(server, "network")).content == GOOD
            assert "cut it off" in refused(await post(server, "network/isolate", broker=0), 400)
            sentence = refused(await post(server, "network/isolate", broker=1), 400)
            assert sentence == "there is no broker 1 in this process, which has 0"
            reply = await post(server, "network/isolate", broker=0, clients=True)
            slow = await post(server, "network/slow", broker=0, delay="5ms", clients=True)
            if portable:
                assert "only brokers on Linux" in refused(reply, 409)
                assert "only brokers on Linux" in refused(slow, 409)
            else:
                assert (await get(server, "network")).content == {
                    "splits": [{"groups": [[0], []], "clients": True, "store": False}],
                    "slow": [
                        {
                            "broker": 0,
                            "delay_s": 0.005,
                            "bytes_per_s": None,
                            "clients": True,
                            "store": False,
                        }
                    ],
                }
            refused(await post(server, "network/slow", broker=0, delay="1ms", store=True), 409)
            assert (await post(server, "network/heal")).content == GOOD
        await broker.stop()
        runtime.close()

    test()


@asynchronous
async def test_a_split_is_added_once(tmp_path: Path) -> None:
    broker, runtime = make_broker(tmp_path)
    runtime.network = Network()
    await broker.start()
    async with served(running=broker, runtime=runtime) as server:
        for _ in range(2):
            reply = await post(server, "network/isolate", broker=0, clients=True)
            assert len(reply.content["splits"]) == 1
        sentence = refused(
            await post(server, "network/split", groups=[[0], [0]], clients=True), 400
        )
        assert sentence == "groups: broker 0 is in two groups"
    await broker.stop()
    runtime.close()
