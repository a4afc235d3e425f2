from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from tests.broker.running import RunningBroker, on_broker

NOT_ASKED_FOR = -(1 << 31)


@on_broker({"broker.id": "3"}, both=False)
async def test_the_cluster(broker: RunningBroker) -> None:
    client = await broker.client()
    for version in (0, 1):
        answer = await client.ask(DescribeClusterRequest(), version)
        assert (answer.error_code, answer.controller_id) == (0, 3)
        assert answer.cluster_id == broker.node.metadata.cluster_id
        assert answer.cluster_authorized_operations == NOT_ASKED_FOR
        assert [(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers] == [
            (3, "127.0.0.1", broker.port, None)
        ]
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert (await client.ask(request, 1)).cluster_authorized_operations > 0


@on_broker(both=False)
async def test_controllers_have_no_endpoints_here(broker: RunningBroker) -> None:
    client = await broker.client()
    codes = {
        2: ErrorCode.MISMATCHED_ENDPOINT_TYPE,
        0: ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        99: ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
    }
    for endpoint_type, code in codes.items():
        answer = await client.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
        assert answer.error_code == code
        assert answer.brokers == []
