"""Every version that ApiVersions announces is decoded, handled and answered."""

from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.handlers import APIS, TRANSACTIONS_V2, Api
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.support.awaiting import until
from tests.support.client import Client

from .requests import SENSIBLE, TOPIC
from .running import RunningBroker, on_broker

# What a request gets that is refused on purpose; everything else gets no error at all.
EXPECTED: dict[str, Callable[[int], int]] = {
    "Produce": lambda version: ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT if version < 3 else 0,
    "Fetch": lambda version: ErrorCode.UNSUPPORTED_VERSION if version < 4 else 0,
    "LeaderAndIsr": lambda version: ErrorCode.STALE_CONTROLLER_EPOCH,
    "StopReplica": lambda version: ErrorCode.STALE_CONTROLLER_EPOCH,
    "UpdateMetadata": lambda version: ErrorCode.STALE_CONTROLLER_EPOCH,
    # Of a broker that is not there; older versions know no epoch.
    "ControlledShutdown": lambda version: (
        ErrorCode.UNKNOWN_SERVER_ERROR if version >= 2 else ErrorCode.BROKER_NOT_AVAILABLE
    ),
    # With an epoch from before this broker was registered.
    "AlterPartition": lambda version: ErrorCode.STALE_BROKER_EPOCH,
    "AllocateProducerIds": lambda version: ErrorCode.STALE_BROKER_EPOCH,
    # There is no authorizer.
    "DescribeAcls": lambda version: ErrorCode.SECURITY_DISABLED,
    "CreateAcls": lambda version: ErrorCode.SECURITY_DISABLED,
    "DeleteAcls": lambda version: ErrorCode.SECURITY_DISABLED,
    "JoinGroup": lambda version: ErrorCode.MEMBER_ID_REQUIRED if version >= 4 else 0,
    "Heartbeat": lambda version: ErrorCode.UNKNOWN_MEMBER_ID,
    "LeaveGroup": lambda version: ErrorCode.UNKNOWN_MEMBER_ID,
    "SyncGroup": lambda version: ErrorCode.UNKNOWN_MEMBER_ID,
    "DeleteGroups": lambda version: ErrorCode.GROUP_ID_NOT_FOUND,
    "AlterReplicaLogDirs": lambda version: ErrorCode.LOG_DIR_NOT_FOUND,
    # Of a transactional id that is not there.
    "AddPartitionsToTxn": lambda version: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    "AddOffsetsToTxn": lambda version: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    "EndTxn": lambda version: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    "TxnOffsetCommit": lambda version: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    "DescribeTransactions": lambda version: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    "DescribeTransactionJournal": lambda version: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    "SaslHandshake": lambda version: ErrorCode.ILLEGAL_SASL_STATE,
    "SaslAuthenticate": lambda version: ErrorCode.ILLEGAL_SASL_STATE,
    **dict.fromkeys(
        (f"{verb}DelegationToken" for verb in ("Create", "Renew", "Expire", "Describe")),
        lambda version: ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    ),
    "DeleteTopics": lambda version: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


@pytest.mark.slow
@on_broker({"group.initial.rebalance.delay.ms": "0", "odradek.transaction.version": "2"})
async def test_every_version_is_answered(broker: RunningBroker) -> None:
    client = await broker.peer()
    topic = await client.create_topic(TOPIC)
    for key_type in (0, 1):  # so that there are coordinators
        await client.ask(FindCoordinatorRequest(coordinator_keys=["absent"], key_type=key_type), 4)
    await until(lambda: not broker.node.transactions.is_loading)
    for api in APIS.values():
        for version in range(api.first, api.last_with(TRANSACTIONS_V2) + 1):
            await check(client, api, version, topic.topic_id)


async def check(client: Client, api: Api, version: int, topic_id: bytes) -> None:
    request = SENSIBLE[api.key](version, topic_id)
    answer = await client.ask(request, version)
    expected = EXPECTED[api.name](version) if api.name in EXPECTED else 0
    found = set(codes_in(answer))
    assert found in ({expected}, {0, expected}), f"{api.name} v{version}"


def codes_in(message: Any) -> list[int]:
    """Every error code anywhere in a message."""
    found = []
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if field.name in ("error_code", "partition_error_code"):
            found.append(value)
        elif isinstance(value, list):
            found += [code for item in value if hasattr(item, "FIELDS") for code in codes_in(item)]
    return found or [0]
