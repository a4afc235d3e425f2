"""What a broker does when its controller speaks."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.cluster.broker_requests import PARTITIONS_MAX, ActiveController, build_requests
from odradek.broker.coordination.embedded import EmbeddedStore
from odradek.broker.coordination.interface import SessionExpired
from odradek.broker.coordination.znodes import BrokerRegistration
from odradek.broker.core.controller.requests import BrokerRequests, StoppedReplica
from odradek.broker.core.partition_state import (
    LEADER_IS_DELETED,
    NO_LEADER,
    REPLICAS_MAX,
    PartitionState,
)
from odradek.broker.member.control import FullUpdate
from odradek.broker.member.control_messages import Sender
from odradek.broker.member.membership import Membership
from odradek.broker.node import Node
from odradek.broker.partitions.replica_logs import MADE_AT_ONCE, Serve
from odradek.broker.runtime import Runtime
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.records import BatchHeader, read_header
from odradek.protocol.schema import Message
from odradek.storage.errors import LogDirFailed
from odradek.storage.log.plans import create_together
from tests.support.awaiting import until
from tests.support.messages import batch_of, records_in

from ..controlled import OTHER, SENDER, SETTINGS, TOPIC_ID, lead, state, take_control, update
from ..faulty_files import FULL, FaultyFiles
from ..running import RunningBroker, make_broker, on_broker, running

OK, STORAGE_ERROR = ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR
ONE_OFFSETS_PARTITION = {**SETTINGS, "offsets.topic.num.partitions": "1"}


def directories(broker: RunningBroker) -> list[str]:
    return sorted(path.name for path in Path(broker.data_dir).iterdir() if path.is_dir())


@on_broker(SETTINGS, both=False)
async def test_the_life_of_a_replica(broker: RunningBroker) -> None:
    replicator, replicas = await take_control(broker), broker.node.replicas
    assert await lead(broker, state(0), state(1, leader=OTHER)) == [OK, OK]
    assert replicator.changed == [("t", 0), ("t", 1)], "leaders first"
    leader, follower = replicas.partitions["t", 0], replicas.partitions["t", 1]
    assert (leader.is_leader, follower.is_leader) == (True, False)
    assert leader.log.epochs.entries() == [(0, 0)], "noted though nothing was written"
    assert follower.log.epochs.entries() == []
    turned = [
        state(0, leader=OTHER, leader_epoch=1, is_new=False),
        state(1, leader_epoch=1, is_new=False),
    ]
    assert await lead(broker, *turned) == [OK, OK]
    assert replicator.changed[2:] == [("t", 1), ("t", 0)], "leaders first"
    assert (leader.is_leader, follower.is_leader) == (False, True)
    stopped = [StoppedReplica("t", 0, 1, False), StoppedReplica("t", 1, 1, True)]
    codes = await broker.node.control.stop_replicas(SENDER, stopped)
    assert codes == {("t", 0): OK, ("t", 1): OK}
    assert replicator.gone == [("t", 0), ("t", 1)]
    assert set(replicas.partitions) == {("t", 0)}, "the other one is only not fetched any more"
    assert "t-0" in directories(broker)
    assert "t-1" not in directories(broker)


@on_broker(SETTINGS, both=False)
async def test_nobody_has_so_many_replicas(broker: RunningBroker) -> None:
    """The work for each grows with their number, and anybody may send such a request."""
    await take_control(broker)
    many = tuple(range(REPLICAS_MAX + 1))
    refused = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    asked = state(0)._replace(replicas=many), state(1)._replace(isr=many), state(2)
    assert await lead(broker, *asked) == [refused, refused, OK]
    assert set(broker.node.replicas.partitions) == {("t", 2)}


@on_broker(SETTINGS, both=False)
async def test_two_controllers_at_once(broker: RunningBroker) -> None:
    await take_control(broker)
    node, newer = broker.node, Sender(8, SENDER.controller_epoch + 1)
    old = [state(number, leader=OTHER) for number in range(40)]
    first = asyncio.ensure_future(node.control.leader_and_isr(SENDER, old))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(node.control.leader_and_isr(newer, [state(leader_epoch=1)]))
    late = asyncio.ensure_future(node.control.leader_and_isr(SENDER, [state(leader_epoch=2)]))
    later = asyncio.ensure_future(node.control.stop_replicas(SENDER, []))
    assert set((await first).values()) == {OK}
    assert await second == {("t", 0): OK}
    for stale in (late, later):
        with pytest.raises(Refused) as refused:
            await stale
        assert refused.value.code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert node.replicas.partitions["t", 0].state.leader_epoch == 1


@on_broker(SETTINGS, both=False)
async def test_the_partitions_of_a_refused_request_are_not_read(broker: RunningBroker) -> None:
    """A hundred thousand of them would hold the loop."""
    await take_control(broker)
    control = broker.node.control
    assert broker.node.local.broker_epoch > 0

    def partitions() -> Iterator[Any]:
        pytest.fail("one is read")
        yield

    old_controller = Sender(SENDER.controller_id, SENDER.controller_epoch - 1)
    old_registration = SENDER._replace(broker_epoch=0)
    for sender in (old_controller, old_registration):
        for request in (
            control.leader_and_isr(sender, partitions()),
            control.stop_replicas(sender, partitions()),
            control.update_metadata(sender, [], partitions()),
        ):
            with pytest.raises(Refused):
                await request


@pytest.mark.slow
@on_broker(SETTINGS, both=False)
async def test_others_have_their_turn(broker: RunningBroker) -> None:
    await take_control(broker)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    for leader_epoch in range(2):
        turns = 0
        states = [state(n, leader_epoch=leader_epoch) for n in range(150)]
        assert set(await lead(broker, *states)) == {OK}
        assert turns > 1
    counting.cancel()


@on_broker(SETTINGS, both=False)
async def test_a_leader_that_is_not_alive_is_not_followed(broker: RunningBroker) -> None:
    replicator = await take_control(broker)
    for nobody in (NO_LEADER, 77):
        topic = f"of-{nobody}"
        assert await lead(broker, state(topic=topic, leader=nobody)) == [OK]
        partition = broker.node.replicas.partitions[topic, 0]
        assert partition.state.leader == NO_LEADER, "the log is there, but has no role"
        assert not replicator.changed
        assert await lead(broker, state(topic=topic)) == [OK], "the same epoch is still news"
        assert partition.is_leader
        gone = state(topic=topic, leader=nobody, leader_epoch=1)
        assert await lead(broker, gone) == [OK]
        assert partition.is_leader, "Kafka too leaves it as it is"
        replicator.changed.clear()


@on_broker(SETTINGS, both=False)
async def test_names_that_no_directory_may_have(broker: RunningBroker) -> None:
    await take_control(broker)
    before = directories(broker)
    for topic in ("../t", "", ".", "a/b", "x" * 250, "a b"):
        assert await lead(broker, state(topic=topic)) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert await lead(broker, state(-1)) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert directories(broker) == before


def test_what_is_known_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, SETTINGS) as broker:
            await take_control(broker)
            alone = state()._replace(isr=(0,), partition_epoch=0)
            assert await lead(broker, alone) == [OK]
            await update(broker, [alone])
            client = await broker.client()
            await client.append("t", batch_of(b"committed"))
            # With another one in sync nothing more is committed.
            assert await lead(broker, state(leader_epoch=1)) == [OK]
            await client.append("t", batch_of(b"not yet"), acks=1)
            log = broker.node.replicas.partitions["t", 0].log
            assert (log.high_watermark, log.log_end_offset) == (1, 2)
        async with running(tmp_path, SETTINGS) as broker:
            await take_control(broker)
            old = state(leader_epoch=1, topic_id=bytes(range(1, 17)), is_new=False)
            assert await lead(broker, old) == [ErrorCode.INCONSISTENT_TOPIC_ID]
            again = state(leader_epoch=2, is_new=False)
            assert await lead(broker, again) == [OK]
            await update(broker, [again])
            log = broker.node.replicas.partitions["t", 0].log
            assert (log.high_watermark, log.log_end_offset) == (1, 2)
            found = await (await broker.client()).fetch("t")
            assert [value for _, value in records_in(found.records)] == [b"committed"]

    asyncio.run(main())


def test_only_roles_that_are_older_than_known_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A new controller tells everybody everything; most of it is known."""

    async def main() -> None:
        async with running(tmp_path, SETTINGS) as broker:
            await take_control(broker)
            stale = ErrorCode.STALE_CONTROLLER_EPOCH
            asked = [state(number, leader_epoch=1) for number in range(3)]
            await lead(broker, *asked)
            caplog.clear()
            assert await lead(broker, *asked) == [stale] * 3
            assert "refused" not in caplog.text
            older = [state(0), state(1), state(2, leader_epoch=1)]
            assert await lead(broker, *older) == [stale] * 3

    with caplog.at_level(logging.INFO):
        asyncio.run(main())
    refused = [record.message for record in caplog.records if "refused" in record.message]
    assert refused == ["roles refused code=STALE_CONTROLLER_EPOCH count=2 topic=t partition=0"]


def test_a_new_replica_where_a_log_of_another_topic_lies(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, SETTINGS) as broker:
            await take_control(broker)
            await lead(broker, state())
        async with running(tmp_path, SETTINGS) as broker:
            await take_control(broker)
            other = state(topic_id=bytes(range(1, 17)))
            assert await lead(broker, other) == [OK]
            assert [name[-6:] for name in directories(broker)] == ["t-0", "-stray"]

    asyncio.run(main())


def test_a_log_that_a_full_disk_lets_nobody_rename(tmp_path: Path) -> None:
    """It is not deleted, and none of another topic is made on top of it."""

    async def main() -> None:
        files = FaultyFiles()
        async with running(tmp_path, SETTINGS, files=files) as broker:
            await take_control(broker)
            await lead(broker, state())
            kept = broker.node.replicas.partitions["t", 0].log
            kept.append(*one_batch(), leader_epoch=0, wall_ms=0)
            files.where, files.faults = "t-0", {"rename": FULL}
            stopped = [StoppedReplica("t", 0, 0, delete=True)]
            control = broker.node.control
            assert await control.stop_replicas(SENDER, stopped) == {("t", 0): STORAGE_ERROR}
            other = state(topic_id=bytes(range(1, 17)))
            assert await lead(broker, other) == [STORAGE_ERROR]
            assert files.read_bytes(kept.segments.active.file.path)
            files.faults = {}
            assert await lead(broker, other) == [OK]
            assert [name[-6:] for name in directories(broker)] == ["t-0", "-stray"]
            assert await control.stop_replicas(SENDER, stopped) == {("t", 0): OK}

    asyncio.run(main())


def one_batch() -> tuple[memoryview, BatchHeader]:
    batch = memoryview(batch_of(b"a"))
    return batch, read_header(batch)


@on_broker(SETTINGS)
async def test_it_is_safe_whose_new_replicas_are_before_they_are_served(
    broker: RunningBroker,
) -> None:
    """In a power cut they would be taken for those of any topic of that name."""
    await take_control(broker)
    states = [state(number) for number in range(70)]
    del broker.files.synced[:]
    await lead(broker, *states)
    synced = broker.files.synced
    directories = {log.directory for log in broker.node.replicas.log_dirs.all_logs()}
    assert len(directories) == 70
    assert {f"{path}/partition.metadata" for path in directories} < set(synced)
    assert directories < set(synced)
    parents = [path for path in synced if path == broker.node.replicas.log_dirs.first.path]
    assert 3 <= len(parents) <= 10, "they are made in groups"


def test_replicas_of_a_log_directory_that_fails(tmp_path: Path) -> None:
    async def main() -> None:
        settings = {**SETTINGS, "log.dirs": f"{tmp_path}/a,{tmp_path}/b"}
        async with running(tmp_path, settings) as broker:
            await take_control(broker)
            assert set(await lead(broker, *(state(n) for n in range(6)))) == {OK}
            replicas = broker.node.replicas
            first, second = replicas.log_dirs.online
            lost, kept = set(second.logs), set(first.logs)
            assert lost
            assert kept
            replicas.take_offline(LogDirFailed("broken", second.path))
            states = [state(n, leader_epoch=1, is_new=False) for n in range(7)]
            codes = await broker.node.control.leader_and_isr(SENDER, states)
            wanted = {*lost, ("t", 6)}  # of which nobody knows whether it lay there
            assert {key for key, code in codes.items() if code == STORAGE_ERROR} == wanted
            assert {key for key, code in codes.items() if code == OK} == kept
            assert await lead(broker, state(7)) == [OK], "a new one is made where there is room"
            stopped = [StoppedReplica(*key, -2, True) for key in sorted({*lost, *kept})]
            codes = await broker.node.control.stop_replicas(SENDER, stopped)
            assert {key for key, code in codes.items() if code == STORAGE_ERROR} == lost
            assert not first.logs.keys() & kept

    asyncio.run(main())


def test_a_broker_without_a_store_of_its_own_needs_no_certain_directory(tmp_path: Path) -> None:
    """As Kafka it goes on until none is left."""

    async def main() -> None:
        settings = {**SETTINGS, "log.dirs": f"{tmp_path}/a,{tmp_path}/b"}
        store = EmbeddedStore(f"{tmp_path}/store", runtime=Runtime.system())
        await store.start()
        broker, runtime = make_broker(tmp_path, settings)
        broker._shared_store = store
        try:
            await broker.start()
            replicas = broker.node.replicas
            first, second = replicas.log_dirs.online
            replicas.take_offline(LogDirFailed("broken", first.path))
            assert replicas.log_dirs.online == [second]
            assert not broker._has_failed()
            replicas.take_offline(LogDirFailed("broken", second.path))
            assert (await broker.failed()).startswith("the last log directory is offline")
        finally:
            await broker.stop()
            await store.close()
            runtime.close()

    asyncio.run(main())


@on_broker(ONE_OFFSETS_PARTITION, both=False)
async def test_groups_are_where_their_partition_is_led(broker: RunningBroker) -> None:
    await take_control(broker)
    client = await broker.client()
    offsets = state(topic="__consumer_offsets")

    async def answer() -> int:
        request = HeartbeatRequest(group_id="g", member_id="nobody")
        code: int = (await client.ask(request, 4)).error_code
        return code

    async def is_led() -> int:
        await until(lambda: not broker.node.groups.is_loading)
        return await answer()

    await update(broker, [offsets])
    assert await answer() == ErrorCode.NOT_COORDINATOR
    await lead(broker, offsets)
    assert await is_led() == ErrorCode.UNKNOWN_MEMBER_ID
    away = offsets._replace(leader=OTHER, leader_epoch=1, partition_epoch=1, is_new=False)
    await lead(broker, away)
    assert await answer() == ErrorCode.NOT_COORDINATOR
    await update(broker, [away])
    found = await client.ask(FindCoordinatorRequest(key="g"), 3)
    assert (found.node_id, found.port) == (OTHER, 1)
    await lead(broker, offsets._replace(leader_epoch=2, partition_epoch=2))
    assert await is_led() == ErrorCode.UNKNOWN_MEMBER_ID
    stopped = StoppedReplica("__consumer_offsets", 0, 2, True)
    await broker.node.control.stop_replicas(SENDER, [stopped])
    assert await answer() == ErrorCode.NOT_COORDINATOR
    dead = away._replace(leader=77)
    await update(broker, [dead])
    found = await client.ask(FindCoordinatorRequest(key="g"), 3)
    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


@on_broker(ONE_OFFSETS_PARTITION, both=False)
async def test_groups_are_gone_before_the_logs_of_others_are_made(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Making logs takes its time, in which the old coordinator would tell of old offsets."""
    await take_control(broker)
    client, offsets = await broker.client(), state(topic="__consumer_offsets")
    await update(broker, [offsets])
    await lead(broker, offsets)
    await until(lambda: not broker.node.groups.is_loading)
    logs, begun, may_be_made = broker.node.replicas.logs, asyncio.Event(), asyncio.Event()
    make = logs.make

    async def make_later(missing: Sequence[PartitionState], serve: Serve) -> None:
        if missing:
            begun.set()
            await may_be_made.wait()
        await make(missing, serve)

    monkeypatch.setattr(logs, "make", make_later)
    away = offsets._replace(leader=OTHER, leader_epoch=1, partition_epoch=1, is_new=False)
    told = asyncio.create_task(lead(broker, away, state(leader=OTHER)))
    await begun.wait()
    request = HeartbeatRequest(group_id="g", member_id="nobody")
    assert (await client.ask(request, 4)).error_code == ErrorCode.NOT_COORDINATOR
    may_be_made.set()
    assert await told == [OK, OK]


@on_broker(SETTINGS, both=False)
async def test_a_controller_dies_while_its_request_is_handled(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its successor says is no news where a role was taken: all must hear of it by then."""
    await take_control(broker)
    runtime, calls, may_go_on = broker.node.runtime, 0, asyncio.Event()
    offload = runtime.offload

    async def offload_slowly(function: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal calls
        calls += function is create_together
        if function is create_together and calls > 1:
            await may_go_on.wait()
        return await offload(function, *arguments)

    monkeypatch.setattr(runtime, "offload", offload_slowly)
    states = [state(number, topic="__consumer_offsets") for number in range(MADE_AT_ONCE + 8)]
    client, controller = await broker.client(), await broker.peer()
    sender = ActiveController(SENDER.controller_id, SENDER.controller_epoch, "PLAINTEXT")
    asked = BrokerRequests(0, states)
    (request,) = build_requests(asked, sender, broker.node.local.broker_epoch, [])
    controller.send(request, 7)
    served = broker.node.replicas.partitions
    await until(lambda: len(served) == MADE_AT_ONCE)
    controller.abort()
    await until(lambda: len(broker.connections) == 1)
    may_go_on.set()
    successor = Sender(8, SENDER.controller_epoch + 1)
    codes = await broker.node.control.leader_and_isr(successor, states)
    assert codes[states[0].key] == ErrorCode.STALE_CONTROLLER_EPOCH
    assert len(served) == len(states)
    await update(broker, states, sender=successor)
    await until(lambda: not broker.node.groups.is_loading)
    for number in range(10):
        heartbeat = HeartbeatRequest(group_id=f"g{number}", member_id="nobody")
        assert (await client.ask(heartbeat, 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@on_broker(SETTINGS, both=False)
async def test_who_hears_of_brokers_and_of_topics_that_go(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicator = await take_control(broker)
    forgotten: list[str] = []
    monkeypatch.setattr(broker.node.groups, "forget_topic", forgotten.append)
    assert replicator.brokers_changes == 1
    await update(broker, [state(0), state(1)])
    assert replicator.brokers_changes == 1, "they are the same"
    await update(broker, [state(0, leader=LEADER_IS_DELETED)])
    assert not forgotten
    await update(broker, [state(1, leader=LEADER_IS_DELETED)])
    assert forgotten == ["t"]
    assert broker.node.metadata.topic_name(TOPIC_ID) is None


@on_broker(SETTINGS, both=False)
async def test_a_full_update_ends_the_topics_that_it_does_not_name(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were deleted while the broker had no session, or by a controller that then died."""
    await take_control(broker)
    forgotten: list[str] = []
    monkeypatch.setattr(broker.node.groups, "forget_topic", forgotten.append)
    controller, known = await broker.peer(), broker.node.metadata.topics
    sender = ActiveController(SENDER.controller_id, SENDER.controller_epoch, "PLAINTEXT")

    def full_update(sender: ActiveController, count: int) -> list[Message]:
        """Of topics from 1 to `count`, in parts; 0 was deleted."""
        named = [
            state(partition, topic=f"t{number}", topic_id=bytes([number] * 16))
            for number in range(1, count + 1)
            for partition in range(PARTITIONS_MAX // 2)
        ]
        asked = BrokerRequests(0, update_metadata=named, is_full=True)
        return list(build_requests(asked, sender, broker.node.local.broker_epoch, []))

    async def ask(request: Message) -> None:
        assert (await controller.ask(request, 8)).error_code == ErrorCode.NONE

    await update(broker, [state(0, topic=f"t{number}") for number in range(3)])
    first, second, last = full_update(sender, 5)
    await ask(first)
    await ask(first)  # again: its answer was lost
    await update(broker, [state(0, topic="t9")])
    assert sorted(known) == ["t0", "t1", "t2", "t9"]
    # Its controller dies; the next one tells less.
    following = sender._replace(controller_epoch=sender.controller_epoch + 1)
    (only,) = full_update(following, 1)
    await ask(only)
    assert (sorted(known), sorted(forgotten)) == (["t1"], ["t0", "t2", "t9"])
    assert broker.node.metadata.topic_name(bytes([2] * 16)) is None
    await update(broker, [state(0)], sender=SENDER._replace(controller_epoch=following[1]))
    await ask(only)  # read late: what came to be after it stays
    assert sorted(known) == ["t", "t1"]
    for stale in (second, last):
        answer = await controller.ask(stale, 8)
        assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert sorted(known) == ["t", "t1"]


def test_a_part_for_an_earlier_registration_ends_no_full_update() -> None:
    update, earlier, later = FullUpdate(), Sender(1, 5, 10), Sender(1, 5, 20)
    a, b = state(topic="a"), state(topic="b")
    assert update.add(earlier, [a], more_to_come=True) is None
    assert update.add(earlier, [b], more_to_come=False) == {"a", "b"}
    assert update.add(later, [a], more_to_come=True) is None
    assert update.add(earlier, [b], more_to_come=False) is None, "read late"
    assert update.add(later, [b], more_to_come=False) == {"a", "b"}
    assert update.add(later, [b], more_to_come=False) is None, "again: its answer was lost"


@on_broker(SETTINGS, both=False)
async def test_a_store_that_does_not_answer(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await take_control(broker)

    async def get(path: str, watch: object = None) -> None:
        raise SessionExpired(path)

    with monkeypatch.context() as patch:
        patch.setattr(broker.node.control._session, "get", get)
        with pytest.raises(SessionExpired):
            await lead(broker, state())
    assert not broker.node.replicas.partitions
    assert await lead(broker, state()) == [OK], "it is asked again"


@on_broker(SETTINGS, both=False)
async def test_broken_settings_of_a_topic(broker: RunningBroker) -> None:
    await take_control(broker)
    await broker.session.create("/config/topics/t", b"{")
    assert await lead(broker, state()) == [OK], "it gets the broker's"


def test_who_comes_knows_of_the_controllers_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has a successor may see this broker come, and must not be listened to."""
    nodes: list[Node] = []
    known: list[int] = []
    make_node, register = RunningBroker._make_node, Membership.register

    async def made(self: RunningBroker, *arguments: Any) -> Node:
        nodes.append(await make_node(self, *arguments))
        return nodes[-1]

    async def heard(self: Membership, registration: BrokerRegistration) -> int:
        known.append(nodes[-1].control.controller_epoch)
        return await register(self, registration)

    async def main() -> None:
        async with running(tmp_path) as broker:
            assert broker.node.control.controller_epoch == len(known)

    monkeypatch.setattr(RunningBroker, "_make_node", made)
    monkeypatch.setattr(Membership, "register", heard)
    for _ in range(3):
        asyncio.run(main())
    assert known == [0, 1, 2], "each start has a controller of its own"
