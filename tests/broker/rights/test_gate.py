"""Rights on a running broker: what changes at once, and what Kafka 3.9 can't be asked about."""

import asyncio
import logging
from pathlib import Path
from typing import Any, cast

import pytest

from odradek.broker.cluster.controller import ClusterController
from odradek.broker.core.acls.terms import (
    CLUSTER_NAME,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from odradek.broker.net.call import Principal
from odradek.broker.server import StartupError
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k01_fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from odradek.protocol.messages.k30_create_acls import CreateAclsRequest
from odradek.protocol.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.protocol.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.k75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from odradek.protocol.messages.k20001_describe_group_journal import DescribeGroupJournalRequest
from odradek.protocol.messages.k20002_describe_log_ends import DescribeLogEndsRequest, LogEndsTopic
from odradek.protocol.messages.k20003_describe_transaction_journal import (
    DescribeTransactionJournalRequest,
)
from odradek.protocol.schema import Message
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.messages import batch_of, creatable, fetch_request, produce_request

from ..group_requests import consumer_heartbeat
from ..requests import create_partitions, every_acl, metadata, read_acl
from ..running import RunningBroker, make_broker, on_broker, running
from ..test_every_version import codes_in
from ..transaction_requests import produce_in_transaction, write_markers

CLASS = "kafka.security.authorizer.AclAuthorizer"
AUTHORIZER = {"authorizer.class.name": CLASS, "super.users": "User:admin"}
EVERYONE = {**AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
NO_TOPIC_RIGHT = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ALICE = "User:alice"


async def client_of(broker: RunningBroker, user: str) -> Client:
    """A connection of a user."""
    connections: dict[Any, None] = broker.connections._open
    before = set(connections)
    client = await broker.client()
    await client.ask(ApiVersionsRequest(), 0)
    (connection,) = set(connections) - before
    connection.principal = Principal("User", user)
    return client


async def allow(
    broker: RunningBroker,
    operation: Operation,
    kind: ResourceType,
    name: str,
    *,
    user: str = ALICE,
    pattern_type: PatternType = PatternType.LITERAL,
) -> None:
    assert broker.node.acls is not None
    entry = Entry(user, Permission.ALLOW, operation)
    await broker.node.acls.add(Pattern(kind, name, pattern_type), [entry])


async def take_away(broker: RunningBroker, kind: ResourceType, name: str) -> None:
    assert broker.node.acls is not None
    await broker.node.acls.remove(Pattern(kind, name), lambda entry: True)


async def with_topic(broker: RunningBroker, name: str = "t") -> tuple[Client, Client]:
    """The administrator, after it has made a topic, and Alice."""
    admin = await client_of(broker, "admin")
    await admin.create_topic(name)
    return admin, await client_of(broker, "alice")


# Taken away, given.


@on_broker(AUTHORIZER)
async def test_a_right_counts_from_the_next_request_on(broker: RunningBroker) -> None:
    _, alice = await with_topic(broker)
    assert (await alice.produce("t", batch_of(b"1"))).error_code == NO_TOPIC_RIGHT
    await allow(broker, WRITE, TOPIC, "t")
    assert (await alice.produce("t", batch_of(b"1"))).error_code == 0
    await take_away(broker, TOPIC, "t")
    assert (await alice.produce("t", batch_of(b"1"))).error_code == NO_TOPIC_RIGHT


@on_broker(AUTHORIZER)
async def test_a_parked_fetch_gives_nothing_any_more(broker: RunningBroker) -> None:
    admin, alice = await with_topic(broker)
    await allow(broker, READ, TOPIC, "t")
    request = fetch_request("t", wait_ms=20_000)
    parked = asyncio.ensure_future(alice.ask(request, 12))
    partition = broker.node.replicas.partitions["t", 0]
    await until(lambda: len(partition.waiters) == 1, "the fetch is parked")
    await take_away(broker, TOPIC, "t")
    await admin.append("t", batch_of(b"secret"))
    answer: FetchResponse = await parked
    data = answer.responses[0].partitions[0]
    assert data.error_code == NO_TOPIC_RIGHT
    assert not data.records


@on_broker(AUTHORIZER)
async def test_a_fetch_session_gives_nothing_any_more(broker: RunningBroker) -> None:
    admin, alice = await with_topic(broker)
    await admin.append("t", batch_of(b"1"))
    await allow(broker, READ, TOPIC, "t")
    first: FetchResponse = await alice.ask(fetch_request("t", session_epoch=0), 12)
    assert first.responses[0].partitions[0].records
    await take_away(broker, TOPIC, "t")
    again = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=first.session_id,
        session_epoch=1,
        topics=[],
    )
    second: FetchResponse = await alice.ask(again, 12)
    data = second.responses[0].partitions[0]
    assert (data.error_code, bool(data.records)) == (NO_TOPIC_RIGHT, False)


@on_broker(AUTHORIZER)
async def test_acks_0_without_the_right_closes_the_connection(broker: RunningBroker) -> None:
    _, alice = await with_topic(broker)
    request = produce_request("t", {0: batch_of(b"v")}, acks=0)
    alice.send(request, 11)
    assert await alice.reader.read() == b""
    assert broker.node.replicas.partitions["t", 0].log.log_end_offset == 0


@on_broker(AUTHORIZER)
async def test_batches_tell_that_a_produce_is_transactional(broker: RunningBroker) -> None:
    _, alice = await with_topic(broker)
    await allow(broker, WRITE, TOPIC, "t")
    request = produce_in_transaction("tx", (1, 0), "t")
    for name in ("tx", None):
        request.transactional_id = name
        answer = await alice.ask(request, 11)
        code = answer.responses[0].partition_responses[0].error_code
        assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@on_broker(EVERYONE, both=False)
async def test_everyone_may_use_what_no_acl_is_about(broker: RunningBroker) -> None:
    admin, alice = await with_topic(broker)
    await admin.create_topic("u")
    await allow(broker, READ, TOPIC, "t", user="User:bob")
    assert (await alice.produce("t", batch_of(b"v"))).error_code == NO_TOPIC_RIGHT
    assert (await alice.produce("u", batch_of(b"v"))).error_code == 0
    assert (await alice.ask(every_acl(), 3)).error_code == 0, "none is about the cluster"
    await allow(broker, DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, user="User:bob")
    refused = await alice.ask(every_acl(), 3)
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


# What Kafka has only in KRaft mode.


@on_broker(AUTHORIZER, both=False)
async def test_pages_of_topics(broker: RunningBroker) -> None:
    admin, alice = await with_topic(broker, "a")
    for name in ("b", "c", "d"):
        await admin.create_topic(name)
    await allow(broker, DESCRIBE, TOPIC, "b")
    await allow(broker, READ, TOPIC, "d")
    every = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=1)
    first = await alice.ask(every, 0)
    assert [topic.name for topic in first.topics] == ["b"]
    assert first.topics[0].topic_authorized_operations == 1 << DESCRIBE
    every.cursor = first.next_cursor
    second = await alice.ask(every, 0)
    assert [topic.name for topic in second.topics] == ["d"]
    assert second.topics[0].topic_authorized_operations == (1 << DESCRIBE) + (1 << READ)
    every.cursor = Cursor(topic_name="c", partition_index=0)
    assert [topic.name for topic in (await alice.ask(every, 0)).topics] == ["d"]
    named = [TopicRequest(name=name) for name in ("a", "b", "absent")]
    some = await alice.ask(DescribeTopicPartitionsRequest(topics=named), 0)
    assert {topic.name: topic.error_code for topic in some.topics} == {
        "a": NO_TOPIC_RIGHT,
        "b": 0,
        "absent": NO_TOPIC_RIGHT,
    }
    nothing = await (await client_of(broker, "bob")).ask(
        DescribeTopicPartitionsRequest(topics=[]), 0
    )
    assert nothing.topics == []


@pytest.mark.slow
@on_broker(AUTHORIZER, both=False)
async def test_groups_of_the_consumer_protocol(broker: RunningBroker) -> None:
    admin, alice = await with_topic(broker)
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])

    async def is_found() -> bool:
        return not (await admin.ask(find, 4)).coordinators[0].error_code

    await until(is_found)
    beat = consumer_heartbeat("g", "m", topics=["t"])
    assert (await alice.ask(beat, 1)).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    await allow(broker, READ, GROUP, "g")
    assert (await alice.ask(beat, 1)).error_code == NO_TOPIC_RIGHT
    await allow(broker, DESCRIBE, TOPIC, "t")

    async def has_joined() -> bool:  # once the group is loaded
        return not (await alice.ask(beat, 1)).error_code

    await until(has_joined)
    describe = ConsumerGroupDescribeRequest(
        group_ids=["g", "other"], include_authorized_operations=True
    )
    shown, refused = (await alice.ask(describe, 1)).groups
    assert (shown.error_code, len(shown.members)) == (0, 1)
    assert shown.authorized_operations == (1 << READ) + (1 << DESCRIBE)
    assert refused.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    await take_away(broker, TOPIC, "t")
    hidden = (await alice.ask(describe, 1)).groups[0]
    assert (hidden.error_code, hidden.members) == (NO_TOPIC_RIGHT, [])


@on_broker({**AUTHORIZER, "group.consumer.assignment.interval.ms": "0"}, both=False)
async def test_a_pattern_gives_no_topic_that_the_member_may_not_describe(
    broker: RunningBroker,
) -> None:
    admin, alice = await with_topic(broker)
    await admin.create_topic("t-hidden")
    await allow(broker, READ, GROUP, "g")
    await allow(broker, DESCRIBE, TOPIC, "t")
    await admin.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    beat = consumer_heartbeat("g", "m", topics=[])
    beat.subscribed_topic_regex = "t.*"

    async def has_joined() -> bool:  # once the group is loaded
        return not (await alice.ask(beat, 1)).error_code

    await until(has_joined)
    assigned = (await alice.ask(consumer_heartbeat("g", "m", 1), 1)).assignment.topic_partitions
    names = [broker.node.metadata.topic_name(topic.topic_id) for topic in assigned]
    assert names == ["t"]


@on_broker(AUTHORIZER, both=False)
async def test_our_own_apis(broker: RunningBroker) -> None:
    broker.node.local.is_alone = False
    _, alice = await with_topic(broker)
    ends = DescribeLogEndsRequest(topics=[LogEndsTopic(name="t", partition_indexes=[0])])
    groups = DescribeGroupJournalRequest(groups=["g"])
    ids = DescribeTransactionJournalRequest(transactional_ids=["x"])

    async def codes() -> tuple[int, int, int]:
        return (
            (await alice.ask(ends, 0)).topics[0].partitions[0].error_code,
            (await alice.ask(groups, 0)).groups[0].error_code,
            (await alice.ask(ids, 0)).transactions[0].error_code,
        )

    assert await codes() == (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
    await allow(broker, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    await allow(broker, DESCRIBE, GROUP, "g")
    await allow(broker, DESCRIBE, ResourceType.TRANSACTIONAL_ID, "x")
    ends_code, *others = await codes()
    assert ends_code == 0
    assert not {30, 53} & set(others)


# The APIs of ACLs.


@on_broker(AUTHORIZER, both=False)
async def test_acls_are_added_shown_and_removed(broker: RunningBroker) -> None:
    admin, alice = await with_topic(broker)
    wrong = read_acl("t", principal="nobody")
    create = CreateAclsRequest(creations=[read_acl("t"), wrong, read_acl("u")])
    answer = await admin.ask(create, 3)
    codes = [result.error_code for result in answer.results]
    assert codes == [0, ErrorCode.INVALID_REQUEST, 0]
    assert (await alice.fetch("t")).error_code == 0
    shown = (await admin.ask(every_acl(), 3)).resources
    assert {(each.resource_name, each.acls[0].principal) for each in shown} == {
        ("t", ALICE),
        ("u", ALICE),
    }
    filters = [
        DeleteAclsFilter(
            resource_type_filter=2,
            resource_name_filter=name,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        for name in ("t", None, "none")
    ]
    removed = (await admin.ask(DeleteAclsRequest(filters=filters), 3)).filter_results
    assert [[acl.resource_name for acl in each.matching_acls] for each in removed] == [
        ["t"],
        ["u"],
        [],
    ]
    assert (await admin.ask(every_acl(), 3)).resources == []
    assert (await alice.fetch("t")).error_code == NO_TOPIC_RIGHT


@on_broker(AUTHORIZER, both=False)
async def test_unknown_elements_of_filters(broker: RunningBroker) -> None:
    admin = await client_of(broker, "admin")
    described = every_acl()
    described.operation = 99
    assert (await admin.ask(described, 3)).error_code == ErrorCode.INVALID_REQUEST
    unknown = DeleteAclsFilter(resource_type_filter=99, operation=1, permission_type=1)
    many = [DeleteAclsFilter(resource_type_filter=1, operation=1, permission_type=1)] * 1001
    for filters in ([unknown], many):
        answer = await admin.ask(DeleteAclsRequest(filters=filters), 3)
        assert {r.error_code for r in answer.filter_results} == {ErrorCode.INVALID_REQUEST}


@on_broker(both=False)
async def test_without_an_authorizer(broker: RunningBroker) -> None:
    client = await broker.client()
    assert (await client.ask(every_acl(), 3)).error_code == ErrorCode.SECURITY_DISABLED
    created = await client.ask(CreateAclsRequest(creations=[read_acl("t")]), 3)
    assert created.results[0].error_code == ErrorCode.SECURITY_DISABLED
    filters = [DeleteAclsFilter(resource_type_filter=1, operation=1, permission_type=1)]
    removed = await client.ask(DeleteAclsRequest(filters=filters), 3)
    assert removed.filter_results[0].error_code == ErrorCode.SECURITY_DISABLED


# The start.


def test_acls_survive_a_restart_and_are_not_left_without_effect(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, AUTHORIZER) as broker:
            await allow(broker, READ, TOPIC, "t")
        broker, runtime = make_broker(tmp_path)
        try:
            with pytest.raises(StartupError, match=r"has ACLs.*authorizer\.class\.name"):
                await broker.start()
        finally:
            await broker.stop()
            runtime.close()
        async with running(tmp_path, {"odradek.acls.ignore": "true"}) as broker:
            client = await broker.client()
            await client.create_topic("t")
        kraft = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        async with running(tmp_path, {**AUTHORIZER, "authorizer.class.name": kraft}) as broker:
            alice = await client_of(broker, "alice")
            assert (await alice.fetch("t")).error_code == 0
            await take_away(broker, TOPIC, "t")
        async with running(tmp_path):
            pass  # there is no ACL any more

    asyncio.run(main())


@on_broker(AUTHORIZER, both=False)
async def test_ipv6_addresses_are_written_as_by_java(broker: RunningBroker) -> None:
    _, alice = await with_topic(broker)
    assert broker.node.acls is not None
    for connection in broker.connections._open:
        connection.host = "::1"
    for host, is_allowed in (("::1", False), ("0:0:0:0:0:0:0:1", True)):
        entry = Entry(ALICE, Permission.ALLOW, READ, host)
        await broker.node.acls.add(Pattern(TOPIC, "t"), [entry])
        code = (await alice.fetch("t")).error_code
        assert code == (0 if is_allowed else NO_TOPIC_RIGHT), host


@pytest.mark.slow
@on_broker(AUTHORIZER, both=False)
async def test_who_may_not_write_markers_is_throttled(broker: RunningBroker) -> None:
    broker.node.quotas.change({"user": None}, {"request_percentage": 0.0})
    alice, admin = await client_of(broker, "alice"), await client_of(broker, "admin")
    request = write_markers((0, 0), "t", 0)
    (code,) = set(codes_in(await alice.ask(request, 1)))
    assert code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    await admin.ask(request, 1)
    muted = {
        connection.principal.name
        for connection in broker.connections._open
        if connection.dispatcher.parked
    }
    assert muted == {"alice"}


class Elected:
    """A controller that begins its term just after it was first asked whether it has one."""

    def __init__(self, controller: ClusterController) -> None:
        self._controller = controller
        self._was_asked = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._controller, name)

    def _has_begun(self) -> bool:
        has_begun, self._was_asked = self._was_asked, True
        return has_begun

    @property
    def is_active(self) -> bool:
        return self._has_begun()

    def require_active(self) -> None:
        if not self._has_begun():
            raise Refused(ErrorCode.NOT_CONTROLLER)


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (CreateTopicsRequest(topics=[creatable("new")]), 5),
        (create_partitions("t", 9), 1),
    ],
)
@on_broker(AUTHORIZER, both=False)
async def test_who_asks_during_an_election_gets_no_rights_by_it(
    broker: RunningBroker, request_: Message, version: int
) -> None:
    _, alice = await with_topic(broker)
    controller = broker.node.controller
    broker.node.controller = cast(ClusterController, Elected(controller))
    answer = await alice.ask(request_, version)
    broker.node.controller = controller
    topics = broker.node.metadata.topics
    assert set(topics) == {"t"}
    assert len(topics["t"].partitions) == 1
    assert set(codes_in(answer)) & {ErrorCode.NOT_CONTROLLER, ErrorCode.TOPIC_AUTHORIZATION_FAILED}


# The audit log.


@on_broker(AUTHORIZER, both=False)
async def test_who_was_refused_what_is_in_the_log(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    _, alice = await with_topic(broker)
    await alice.ask(DescribeGroupsRequest(groups=["g'\n"]), 5)
    await alice.ask(metadata(), 12)
    (line,) = [line for line in caplog.messages if line.startswith("access denied")]
    assert line == (
        "access denied principal='User:alice' host=127.0.0.1 api=DescribeGroups "
        'operation=Describe resource=Group:"g\'\\n"'
    )
