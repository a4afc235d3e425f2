"""Groups of real consumers: members that come, leave, crash and sleep; patterns; static members."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.support.brokers import UniqueName, create_topic
from tests.support.waiting import until
from tests.wire.clients import Settings, librdkafka
from tests.wire.group_members import (
    CLASSIC,
    FLAVOURS,
    QUICK,
    Crew,
    Member,
    committed_in,
    fill,
    latest_commits,
    quick_server,
)
from tests.wire.servers import Server

PARTITIONS: Final = 6
RECORDS: Final = 50
LONG_MS: Final = 120_000
LONGEST_OF_CONSUMERS_MS: Final = 60_000  # group.consumer.max.session.timeout.ms
NewTopic = Callable[..., str]


@pytest.fixture(scope="module")
def broker(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with quick_server(target, tmp_path_factory.mktemp("quick")) as server:
        yield server


@pytest.fixture
def topic(broker: Server, unique_name: UniqueName) -> str:
    name = unique_name("shared")
    create_topic(broker.bootstrap_servers, name, partitions=PARTITIONS)
    return name


@pytest.fixture
def group(unique_name: UniqueName) -> str:
    return unique_name("group")


@pytest.fixture(params=list(FLAVOURS))
def flavour(request: pytest.FixtureRequest, target: str) -> str:
    chosen: str = request.param
    if chosen == "confluent-consumer" and target == "kafka-3.9":
        pytest.skip("3.9 with ZooKeeper serves classic groups only")
    return chosen


def names(topic: str, partitions: int = PARTITIONS) -> list[str]:
    return [f"{topic}:{partition}" for partition in range(partitions)]


def long_session(broker: Server, group: str, flavour: str) -> dict[str, Any]:
    """Settings of a member whose session outlasts a test; with KIP-848 it is the group's."""
    if flavour != "confluent-consumer":
        return {"session_timeout_ms": LONG_MS}
    setting = ConfigEntry(
        "consumer.session.timeout.ms",
        str(LONGEST_OF_CONSUMERS_MS),
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[setting])
    admin = AdminClient(librdkafka(broker.bootstrap_servers))
    admin.incremental_alter_configs([resource])[resource].result(timeout=30)
    return {}


def test_members_come_leave_and_crash(broker: Server, topic: str, group: str, flavour: str) -> None:
    """Two members, then three; one leaves, one crashes; the last has everything and goes on."""
    ends = fill(broker, topic, PARTITIONS, RECORDS)
    with Crew(broker, group, flavour, topics=[topic]) as crew:
        # Its session outlasts the test: that the others inherit shows that it said good-bye.
        is_classic = flavour != "confluent-consumer"
        patient: dict[str, Any] = {"session_timeout_ms": LONG_MS} if is_classic else {}
        leaving = crew.start(enable_auto_commit=False, **patient)
        first = crew.start(enable_auto_commit=False)
        crew.wait_for_owners(names(topic), [leaving, first])
        second = crew.start(enable_auto_commit=False)
        crew.wait_for_owners(names(topic), [leaving, first, second])
        crew.wait_until(lambda: crew.covers(ends), "all read")

        leaving.leave()
        crew.wait_for_owners(names(topic), [first, second])
        leaving.wait()
        assert leaving.said("left")
        first.crash()
        crew.wait_for_owners(names(topic), [second])

        ends = {name: end + RECORDS for name, end in ends.items()}
        fill(broker, topic, PARTITIONS, RECORDS)
        crew.wait_until(lambda: crew.covers(ends), "all read by the last")
        crew.wait_until(lambda: latest_commits(crew) == ends, "all committed")
        assert committed_in(broker, group, names(topic)) == ends


def test_successors_go_on_where_the_last_left(
    broker: Server, topic: str, group: str, flavour: str
) -> None:
    """Automatic commits, on the clock and on leaving: nobody reads a record a second time."""
    ends = fill(broker, topic, PARTITIONS, RECORDS)
    # Who is put out while its process stands still reads again what it had not committed.
    patient = long_session(broker, group, flavour)
    with Crew(broker, group, flavour, topics=[topic]) as crew:
        member = crew.start(auto_commit_interval_ms=100, **patient)
        crew.wait_until(lambda: crew.covers(ends), "all read")
        until(lambda: committed_in(broker, group, names(topic)) == ends)
        fill(broker, topic, PARTITIONS, RECORDS)
        ends = {name: end + RECORDS for name, end in ends.items()}
        crew.wait_until(lambda: crew.covers(ends), "more read")
        member.leave()
        member.wait()
        assert committed_in(broker, group, names(topic)) == ends

        fill(broker, topic, PARTITIONS, RECORDS)
        ends = {name: end + RECORDS for name, end in ends.items()}
        crew.start(**patient)
        crew.wait_until(lambda: crew.covers(ends), "the rest read")
        read = sum(event["last"] - event["first"] + 1 for event in crew.events("read"))
        assert read == sum(ends.values())


@pytest.mark.parametrize(
    "flavour", ["kafka-python", "aiokafka", "confluent-range", "confluent-consumer"], indirect=True
)
def test_a_pattern_finds_its_topics(
    broker: Server, unique_name: UniqueName, group: str, flavour: str
) -> None:
    stem = unique_name("pattern")
    found = [f"{stem}-a", f"{stem}-b"]
    for name in [*found, f"not-{stem}"]:
        create_topic(broker.bootstrap_servers, name, partitions=2)
    with Crew(broker, group, flavour, pattern=f"^{stem}-.*") as crew:
        is_confluent = flavour.startswith("confluent")
        refresh = "topic_metadata_refresh_interval_ms" if is_confluent else "metadata_max_age_ms"
        settings: dict[str, Any] = {refresh: 200}
        member = crew.start(**settings)
        crew.wait_for_owners([p for name in found for p in names(name, 2)], [member])
        if flavour == "confluent-consumer":
            return  # the broker looks for new topics at most every ten seconds
        create_topic(broker.bootstrap_servers, f"{stem}-c", partitions=2)
        every = [*found, f"{stem}-c"]
        crew.wait_for_owners([p for name in every for p in names(name, 2)], [member])


@pytest.mark.parametrize(
    "flavour",
    ["kafka-python", "aiokafka", "confluent-range", "confluent-cooperative", "confluent-consumer"],
    indirect=True,
)
def test_a_static_member_restarts_without_a_rebalance(
    broker: Server, topic: str, group: str, flavour: str
) -> None:
    with Crew(broker, group, flavour, topics=[topic]) as crew:
        patient = long_session(broker, group, flavour)
        stays = crew.start(group_instance_id="stays", **patient)
        crew.wait_for_owners(names(topic), [stays])
        goes = crew.start(group_instance_id="goes", **patient)
        crew.wait_for_owners(names(topic), [stays, goes])
        its_own, kept, generation = goes.owned, stays.owned, stays.generation
        heard = len(stays.events)
        back = crew.start(go=False, group_instance_id="goes", **patient)
        crew.wait_until(lambda: bool(back.said("ready")), "ready")
        goes.leave()
        goes.wait()
        back.go()
        crew.wait_until(lambda: back.owned == its_own, "given what it had")
        assert not [e for e in stays.events[heard:] if e["event"] == "gives_up"]
        assert (stays.owned, stays.generation) == (kept, generation)


def test_a_static_member_fences_its_namesake(broker: Server, topic: str, group: str) -> None:
    settings: Settings = {**CLASSIC, "session.timeout.ms": LONG_MS}
    settings |= {"group.instance.id": "same", "group.id": group}
    older = Consumer(librdkafka(broker.bootstrap_servers, **settings))
    newer = Consumer(librdkafka(broker.bootstrap_servers, **settings))
    try:
        older.subscribe([topic])
        until(lambda: older.poll(0.05) is None and len(older.assignment()) == PARTITIONS)
        older.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
        newer.subscribe([topic])
        until(lambda: newer.poll(0.05) is None and len(newer.assignment()) == PARTITIONS)
        with pytest.raises(KafkaException) as refused:
            older.commit(offsets=[TopicPartition(topic, 0, 9)], asynchronous=False)
        # librdkafka refuses by itself (_FATAL) if a heartbeat was told first.
        fenced = (KafkaError.FENCED_INSTANCE_ID, KafkaError._FENCED, KafkaError._FATAL)
        assert refused.value.args[0].code() in fenced
        newer.commit(offsets=[TopicPartition(topic, 1, 5)], asynchronous=False)
        assert committed_in(broker, group, names(topic)) == {f"{topic}:0": 3, f"{topic}:1": 5}
    finally:
        newer.close()
        older.close()


def test_who_is_no_member_cannot_commit(broker: Server, topic: str, group: str) -> None:
    """While a group lives only its members commit; when it is empty anybody may."""
    outsider = Consumer(librdkafka(broker.bootstrap_servers, **{"group.id": group}))
    wanted = [TopicPartition(topic, 0, 7)]
    try:
        outsider.commit(offsets=wanted, asynchronous=False)
        with Crew(broker, group, "confluent-range", topics=[topic]) as crew:
            # For as long as the test lasts: of an empty group an outsider's commit is taken.
            member = crew.start(enable_auto_commit=False, session_timeout_ms=LONG_MS)
            crew.wait_for_owners(names(topic), [member])
            with pytest.raises(KafkaException) as refused:
                outsider.commit(offsets=[TopicPartition(topic, 0, 8)], asynchronous=False)
            assert refused.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
            member.leave()
            member.wait()
        assert committed_in(broker, group, names(topic)) == {f"{topic}:0": 7}
        outsider.commit(offsets=[TopicPartition(topic, 0, 9)], asynchronous=False)
        assert committed_in(broker, group, names(topic)) == {f"{topic}:0": 9}
    finally:
        outsider.close()


@pytest.mark.parametrize(
    "flavour", ["kafka-python", "aiokafka", "confluent-range", "confluent-consumer"], indirect=True
)
def test_a_member_that_was_frozen_cannot_take_offsets_back(
    broker: Server, topic: str, group: str, flavour: str
) -> None:
    """A member that slept through its session wakes up: others own its partitions by now."""
    ends = fill(broker, topic, PARTITIONS, RECORDS)
    with Crew(broker, group, flavour, topics=[topic]) as crew:
        sleeper = crew.start(enable_auto_commit=False)
        crew.wait_until(lambda: latest_commits(crew) == ends, "all committed")
        sleeper.freeze()
        awake = crew.start(enable_auto_commit=False)
        crew.wait_until(lambda: is_alone(awake, topic), "handed over")
        fill(broker, topic, PARTITIONS, RECORDS)
        ends = {name: end + RECORDS for name, end in ends.items()}
        crew.wait_until(lambda: latest_commits(crew) == ends, "all committed by the other")
        sleeper.thaw()
        crew.wait_until(lambda: bool(sleeper.owned) and bool(awake.owned), "shared again")
        crew.wait_for_owners(names(topic), [sleeper, awake])
        assert committed_in(broker, group, names(topic)) == ends


def is_alone(member: Member, topic: str) -> bool:
    return sorted(member.owned) == names(topic)


def test_the_quick_settings_are_what_the_broker_says(broker: Server) -> None:
    """What makes these tests quick is a setting of the broker, the same for both brokers."""
    admin = AdminClient(librdkafka(broker.bootstrap_servers))
    (broker_id,) = admin.list_topics(timeout=30).brokers
    resource = ConfigResource(ResourceType.BROKER, str(broker_id))
    described = admin.describe_configs([resource])[resource].result(timeout=30)
    assert {name: described[name].value for name in QUICK} == QUICK
