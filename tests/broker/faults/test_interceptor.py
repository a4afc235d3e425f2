"""What clients see of rules, on a broker's connections."""

import asyncio
from typing import Any

import pytest

from odradek.broker.faults.faults import Faults
from odradek.broker.faults.interceptor import Interceptor
from odradek.broker.faults.matching import Fault
from odradek.broker.faults.notes import Notes, first_error
from odradek.broker.faults.rule import make_rule
from odradek.broker.handlers import APIS, TRANSACTIONS_V2, Api
from odradek.broker.journal.journal import TEXT_SIGNS_MAX, TOPICS_MAX, UNANSWERED, Journal
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k00_produce import ProduceResponse
from odradek.protocol.messages.k01_fetch import FetchResponse
from odradek.protocol.messages.k03_metadata import MetadataResponse
from odradek.protocol.messages.k08_offset_commit import OffsetCommitResponse
from odradek.protocol.messages.k09_offset_fetch import OffsetFetchResponse
from odradek.protocol.messages.k10_find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest, CreateTopicsResponse
from tests.broker.requests import SENSIBLE, TOPIC, metadata
from tests.broker.running import RunningBroker, on_broker
from tests.support.awaiting import until
from tests.support.connections import HungUp
from tests.support.messages import (
    batch_of,
    creatable,
    error_codes,
    fetch_request,
    produce_request,
    records_in,
)

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Rules:
    """The rules of a running broker."""

    def __init__(self, broker: RunningBroker) -> None:
        self.faults = Faults(lambda bits: 1)
        self.journal = Journal()
        notes = Notes(self.journal)
        broker.node.interceptor = Interceptor(self.faults, notes)

    def add(self, **fields: Any) -> Fault:
        return self.faults.add(make_rule(**{"api": None, "error": None, **fields}))


@pytest.mark.slow
@on_broker(both=False)
async def test_an_error_is_at_the_partition_that_a_rule_names(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    await client.create_topic("t", 2)
    fault = rules.add(api="Produce", topic="t", partition=1, error="NOT_LEADER_OR_FOLLOWER")
    request = produce_request("t", {0: batch_of(b"a"), 1: batch_of(b"b")})
    answer: ProduceResponse = await client.ask(request, 11)
    results = {each.index: each for each in answer.responses[0].partition_responses}
    assert (results[0].error_code, results[0].base_offset) == (0, 0)
    assert (results[1].error_code, results[1].base_offset) == (NOT_LEADER, -1)
    assert fault.hits == 1
    assert (await client.fetch("t", partition=1)).high_watermark == 0, "it has not been appended"


@on_broker(both=False)
async def test_an_error_after_the_effect(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    await client.create_topic("t")
    rules.add(api="Produce", error="REQUEST_TIMED_OUT", applied=True, times=1)
    assert (await client.produce("t", batch_of(b"a"))).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert (await client.produce("t", batch_of(b"b"))).base_offset == 1


@on_broker(both=False)
async def test_a_dropped_response(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    await client.create_topic("t")
    rules.add(api="Produce", topic="t", times=1, drop_response=True)
    with pytest.raises(HungUp):
        await client.produce("t", batch_of(b"a"))
    client = await broker.client()
    assert (await client.produce("t", batch_of(b"a"))).base_offset == 1
    lost, answered = rules.journal.requests(api="Produce")
    assert lost.answer_size_bytes is None
    assert answered.answer_size_bytes is not None
    client.send(produce_request("t", {0: batch_of(b"a")}, acks=0), 11)
    await client.ask(metadata(), 12)
    assert rules.journal.requests(api="Produce")[-1].answer_size_bytes is None


@on_broker()
async def test_half_a_response(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"x" * 1000))
    whole = client.send(fetch_request("t", 0), 12)
    size_bytes = len(await client.read_frame())
    rules.add(api="Fetch", half_response=True)
    client.send(fetch_request("t", 0), 12)
    received = await client.reader.read(-1)
    assert int.from_bytes(received[:4], "big") == size_bytes
    assert int.from_bytes(received[4:8], "big") == whole + 1
    assert len(received) == (size_bytes + 4) // 2


@on_broker(both=False)
async def test_close_acts_before_the_effect(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    await client.create_topic("t")
    rules.add(api="Produce", close=True, times=1)
    with pytest.raises(HungUp):
        await client.produce("t", batch_of(b"a"))
    client = await broker.client()
    assert (await client.produce("t", batch_of(b"a"))).base_offset == 0


@on_broker(both=False)
async def test_close_after_the_effect(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    await client.create_topic("t")
    rules.add(api="Produce", close=True, applied=True, times=1)
    with pytest.raises(HungUp):
        await client.produce("t", batch_of(b"a"))
    client = await broker.client()
    assert (await client.produce("t", batch_of(b"a"))).base_offset == 1


@on_broker()
async def test_earlier_answers_come_before_the_connection_closes(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    await client.create_topic("t")
    rules.add(api="Produce", nth=2, drop_response=True)
    sent = [client.send(produce_request("t", {0: batch_of(b"a")}), 11) for _ in range(3)]
    await client.read(ProduceResponse, 11, sent[0])
    with pytest.raises(HungUp):
        await client.read_frame()
    client = await broker.client()
    assert (await client.fetch("t")).high_watermark == 2, "nothing is handled after the fault"


@on_broker(both=False)
async def test_a_delay_keeps_the_order_of_answers(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    await client.create_topic("t")
    rules.add(api="Produce", delay_s=0.05, times=1)
    slow = client.send(produce_request("t", {0: batch_of(b"a")}), 11)
    quick = client.send(ApiVersionsRequest(), 3)
    began_s = asyncio.get_running_loop().time()
    await client.read(ProduceResponse, 11, slow)
    assert asyncio.get_running_loop().time() - began_s >= 0.04
    await client.read(ApiVersionsResponse, 3, quick)


@on_broker(both=False)
async def test_who_hangs_up_does_not_wait_for_a_delay(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"a"))
    fault = rules.add(api="Fetch", delay_s=1000)
    client.send(fetch_request("t", 0), 12)
    await until(lambda: fault.hits == 1)
    client.abort()
    await until(lambda: len(broker.connections) == 0)
    await until(lambda: not broker.files.references)


@pytest.mark.slow
@on_broker(both=False)
async def test_throttling(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    await client.create_topic("t")
    rules.add(api="Produce", throttle_ms=60, times=1)
    request = produce_request("t", {0: batch_of(b"a")})
    answer: ProduceResponse = await client.ask(request, 11)
    assert answer.throttle_time_ms == 60
    began_s = asyncio.get_running_loop().time()
    answer = await client.ask(request, 11)
    assert answer.throttle_time_ms == 0
    assert asyncio.get_running_loop().time() - began_s >= 0.03, "the connection was muted"


@on_broker(both=False)
async def test_an_error_of_a_produce_without_acks_closes_the_connection(
    broker: RunningBroker,
) -> None:
    rules, client = Rules(broker), await broker.client()
    await client.create_topic("t", 2)
    both = produce_request("t", {0: batch_of(b"a"), 1: batch_of(b"b")}, acks=0)
    ends = []
    for naming in ({}, {"partition": 1}, {"applied": True}):
        rules.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", times=1, **naming)
        client.send(both, 11)
        assert await client.is_closed()
        assert rules.journal.requests(api="Produce")[-1].error == UNANSWERED
        client = await broker.client()
        ends.append([(await client.fetch("t", partition=p)).high_watermark for p in (0, 1)])
    assert ends == [[0, 0], [1, 0], [2, 1]]


@on_broker(both=False)
async def test_a_partition_of_a_fetch_session_fails(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    topic = await client.create_topic("t", 2)
    full = fetch_request(topic.topic_id, 0, session_epoch=0)
    first: FetchResponse = await client.ask(full, 13)
    assert first.session_id
    await client.append("t", batch_of(b"a"))
    fault = rules.add(api="Fetch", topic="t", partition=0, error="NOT_LEADER_OR_FOLLOWER", times=1)
    later = fetch_request(b"", 0, session_id=first.session_id, session_epoch=1)
    later.topics = []
    answer: FetchResponse = await client.ask(later, 13)
    assert error_codes(answer.responses[0].partitions) == [NOT_LEADER]
    assert fault.hits == 1
    later.session_epoch = 2
    answer = await client.ask(later, 13)
    assert records_in(answer.responses[0].partitions[0].records) == [(0, b"a")]
    assert rules.journal.requests(api="Fetch")[-1].topics == ["t"]


@on_broker(both=False)
async def test_the_error_of_a_fetch_is_answered_at_once(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    await client.create_topic("t")
    rules.add(api="Fetch", error="OFFSET_OUT_OF_RANGE")
    data = await client.fetch("t", wait_ms=100_000)
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@on_broker(both=False)
async def test_a_fetch_session_that_is_gone(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    await client.create_topic("t")
    rules.add(api="Fetch", error="FETCH_SESSION_ID_NOT_FOUND")
    answer: FetchResponse = await client.ask(fetch_request("t", 0), 12)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert answer.responses == []


@on_broker(both=False)
async def test_metadata_of_a_topic_fails_and_the_rest_is_there(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    for name in ("t", "u"):
        await client.create_topic(name)
    rules.add(api="Metadata", topic="t", error="LEADER_NOT_AVAILABLE")
    request = metadata("t")
    request.topics = None
    answer: MetadataResponse = await client.ask(request, 12)
    codes = {each.name: (each.error_code, len(each.partitions)) for each in answer.topics}
    assert codes == {"t": (ErrorCode.LEADER_NOT_AVAILABLE, 0), "u": (0, 1)}
    assert len(answer.brokers) == 1


@on_broker(both=False)
async def test_an_answer_with_other_fields(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    await client.create_topic("t")
    rules.add(api="Produce", topic="t", answer={"base_offset": 77})
    rules.add(api="Metadata", answer={"controller_id": 9, "brokers": [{"node_id": 9, "port": 1}]})
    assert (await client.produce("t", batch_of(b"a"))).base_offset == 77
    answer: MetadataResponse = await client.ask(SENSIBLE[3](12, b""), 12)
    assert (answer.controller_id, answer.brokers[0].node_id) == (9, 9)


@on_broker(both=False)
async def test_the_group_of_a_coordinator_moves(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    rules.add(api="FindCoordinator", group="g", error="COORDINATOR_NOT_AVAILABLE")
    request = FindCoordinatorRequest(coordinator_keys=["f", "g"], key_type=0)
    answer: FindCoordinatorResponse = await client.ask(request, 4)
    found = {each.key: (each.error_code, each.node_id) for each in answer.coordinators}
    assert found["g"] == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert found["f"][1] in (broker.broker_id, -1) and "f" in found
    rules.add(api="Heartbeat", group="g", error="NOT_COORDINATOR")
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert (await client.ask(beat, 4)).error_code == ErrorCode.NOT_COORDINATOR


@on_broker(both=False)
async def test_a_parked_join_is_answered_late(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    await client.ask(FindCoordinatorRequest(coordinator_keys=["g"], key_type=0), 4)
    rules.add(api="JoinGroup", error="COORDINATOR_LOAD_IN_PROGRESS", applied=True)
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000, member_id=""
    )
    answer: JoinGroupResponse = await client.ask(request, 3)
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@on_broker({"offsets.topic.num.partitions": "1"}, both=False)
async def test_topics_that_are_not_created(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    rules.add(api="CreateTopics", topic="a*", error="POLICY_VIOLATION")
    request = CreateTopicsRequest(topics=[creatable("ab"), creatable("b")], timeout_ms=1000)
    answer: CreateTopicsResponse = await client.ask(request, 7)
    codes = {each.name: each.error_code for each in answer.topics}
    assert codes == {"ab": ErrorCode.POLICY_VIOLATION, "b": 0}
    assert "ab" not in broker.node.metadata.topics


@on_broker({"offsets.topic.num.partitions": "1"}, both=False)
async def test_offsets(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    topic = await client.create_topic(TOPIC)
    await client.ask(FindCoordinatorRequest(coordinator_keys=["group"], key_type=0), 4)
    rules.add(api="OffsetCommit", group="group", error="NOT_COORDINATOR", times=1)
    answer: OffsetCommitResponse = await client.ask(SENSIBLE[8](8, topic.topic_id), 8)
    assert error_codes(answer.topics[0].partitions) == [ErrorCode.NOT_COORDINATOR]
    rules.add(api="OffsetFetch", error="NOT_COORDINATOR", times=2)
    for version in (7, 9):
        request = SENSIBLE[9](version, topic.topic_id)
        found: OffsetFetchResponse = await client.ask(request, version)
        assert first_error(found) == ErrorCode.NOT_COORDINATOR
        assert all(group.error_code for group in found.groups)


@on_broker(both=False)
async def test_requests_of_the_fixture_meet_no_rule(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    rules.add(close=True)
    await client.ask(ApiVersionsRequest(), 3, client_id="odradek.testing")
    assert rules.journal.requests() == []
    with pytest.raises(HungUp):
        await client.ask(ApiVersionsRequest(), 3)


@on_broker(both=False)
async def test_requests_of_replicas_meet_only_rules_that_say_so(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.peer()
    await client.create_topic("t")
    rules.add(api="Fetch", close=True)
    request = fetch_request("t", 0)
    request.replica_id = 7
    await client.ask(request, 12)
    assert rules.journal.requests(api="Fetch") == []
    rules.add(api="Fetch", close=True, inter_broker=True)
    with pytest.raises(HungUp):
        await client.ask(request, 12)


# Versions without an error of their own; here the answer has nothing else that could have one.
WITHOUT_ERROR = {
    *(("DescribeLogDirs", version) for version in range(3)),
    ("ElectLeaders", 0),
    ("AlterUserScramCredentials", 0),
}


def served(api: Api) -> range:
    return range(api.first, api.last_with(TRANSACTIONS_V2) + 1)


@pytest.mark.slow
@on_broker({"odradek.transaction.version": "2"}, both=False)
async def test_every_api_and_version_has_a_place_for_errors(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.peer()
    topic = await client.create_topic(TOPIC)
    for name in ("group", "other"):
        await client.ask(FindCoordinatorRequest(coordinator_keys=[name], key_type=0), 4)
    missed = []
    for api in APIS.values():
        if api.key not in SENSIBLE or api.name in ("SaslHandshake", "SaslAuthenticate"):
            continue
        fault = rules.add(api=api.name, error="UNKNOWN_SERVER_ERROR", inter_broker=True)
        for version in served(api):
            answer = await client.ask(SENSIBLE[api.key](version, topic.topic_id), version)
            if first_error(answer) != ErrorCode.UNKNOWN_SERVER_ERROR:
                missed.append((api.name, version))
        rules.faults.remove(fault.id)
    assert set(missed) == WITHOUT_ERROR


@on_broker(both=False)
async def test_the_journal_keeps_only_the_beginning_of_long_texts(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    rules.add(api="Metadata", topic="t", close=True)
    request = metadata(*(f"{number}{'x' * 30_000}" for number in range(30)))
    await client.ask(request, 12, client_id="c" * 30_000)
    [entry] = rules.journal.requests()
    assert entry.client_id == "c" * TEXT_SIGNS_MAX
    assert [len(topic) for topic in entry.topics] == [TEXT_SIGNS_MAX] * TOPICS_MAX


@on_broker(both=False)
async def test_the_journal_tells_what_became_of_a_request(broker: RunningBroker) -> None:
    rules, client = Rules(broker), await broker.client()
    await client.create_topic("t")
    await client.ask(fetch_request("t", wait_ms=20), 12, client_id="app")
    fault = rules.add(api="Produce", error="INVALID_PRODUCER_EPOCH")
    request = produce_request("t", {0: batch_of(b"a")})
    request.transactional_id = "x"
    await client.ask(request, 11)
    fetch, produce = rules.journal.requests()[-2:]
    assert (fetch.api, fetch.client_id, fetch.topics, fetch.error) == ("Fetch", "app", ["t"], None)
    assert fetch.duration_ms is not None and fetch.duration_ms >= 15
    assert fetch.answer_size_bytes is not None and fetch.answer_size_bytes > 0
    assert (produce.transactional_id, produce.error) == ("x", "INVALID_PRODUCER_EPOCH")
    assert produce.faults == [fault.id]
    client.send(metadata(), 12)
    answer = await client.read_frame()
    asked = rules.journal.requests()[-1]
    assert asked.answer_size_bytes == len(answer)
    client.send(fetch_request("t", wait_ms=100_000), 12)
    await until(lambda: len(rules.journal.requests()) == fetch.number + 3)
    waiting = rules.journal.requests()[-1]
    assert (waiting.duration_ms, waiting.answer_size_bytes) == (None, None)
    client.abort()
    await until(lambda: waiting.error == UNANSWERED)
