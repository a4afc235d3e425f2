"""TxnOffsetCommit: codes in each version, as Apache Kafka 3.9.2 gives them."""

import pytest

from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.handlers import APIS
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k28_txn_offset_commit import TxnOffsetCommitRequest
from tests.broker.group_requests import txn_commit
from tests.broker.running import RunningBroker, on_broker
from tests.support.client import Client

from .test_group_handlers import AT_ONCE, TOPIC, client_of, form_group

UNVERIFIED = {**AT_ONCE, "transaction.partition.verification.enable": "false"}
"""No coordinator knows of these transactions."""

VERSIONS = range(APIS[28].last + 1)


async def codes(
    client: Client, request: TxnOffsetCommitRequest, version: int = 4
) -> list[tuple[str, int, int]]:
    answer = await client.ask(request, version)
    return [(t.name, p.partition_index, p.error_code) for t in answer.topics for p in t.partitions]


@on_broker(UNVERIFIED, both=False)
async def test_all_versions(broker: RunningBroker) -> None:
    client = await client_of(broker)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for version in VERSIONS:
        some = txn_commit("g", TOPIC, {0: 5, 9: 5}, producer_id=version)
        assert await codes(client, some, version) == [(TOPIC, 9, unknown), (TOPIC, 0, 0)]
        none = txn_commit("", TOPIC, {9: 5}, producer_id=version)
        assert await codes(client, none, version) == [(TOPIC, 9, unknown)]


@on_broker(UNVERIFIED, both=False)
async def test_who_may_not_commit(broker: RunningBroker) -> None:
    client = await client_of(broker)
    member_id = await form_group(client, "g")

    async def code(group_id: str = "g", *, producer_id: int = 7, **more: int | str) -> int:
        request = txn_commit(group_id, TOPIC, {0: 5}, producer_id=producer_id, **more)  # type: ignore[arg-type]
        ((_, _, found),) = await codes(client, request)
        return found

    assert await code("") == ErrorCode.INVALID_GROUP_ID
    assert await code(producer_id=-1) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await code(producer_epoch=-1) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await code(member_id="x", generation_id=1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await code(member_id=member_id, generation_id=0) == ErrorCode.ILLEGAL_GENERATION
    assert await code(member_id=member_id, generation_id=1) == ErrorCode.NONE
    assert await code("absent", generation_id=0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await code("absent") == ErrorCode.NONE


@on_broker(UNVERIFIED, both=False)
async def test_old_producers_are_not_told_of_loading(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await client_of(broker)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def still_loading(self: GroupCoordinator, group_id: str) -> None:
        raise Refused(loading)

    monkeypatch.setattr(GroupCoordinator, "_led_of", still_loading)
    request = txn_commit("g", TOPIC, {0: 5}, producer_id=7)
    found = [(await codes(client, request, version))[0][2] for version in VERSIONS]
    assert found == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2 + [loading] * 3
