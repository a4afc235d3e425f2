"""Consumer groups (KIP-848): heartbeats, epochs, hand-over, refusals."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from odradek.protocol.messages.k68_consumer_group_heartbeat import TopicPartitions
from tests.wire.admin_talk import (
    APPEND,
    DELETE,
    GROUP,
    Op,
    Resource,
    change,
    eventually,
    replace,
    show,
    value_of,
)
from tests.wire.consumer_talk import (
    LEAVE,
    LEAVE_FOR_A_WHILE,
    Consumer,
    configure,
    is_given,
    note_described,
    owning,
    seen_topic,
)
from tests.wire.group_talk import SHORT_MS, GroupTalk

UNKNOWN_ID: Final = bytes(range(16))


def heartbeat_versions(talk: GroupTalk) -> None:
    """Before v1 the coordinator makes up an id for who has none."""
    topic, _ = seen_topic(talk)
    for version in (0, 1):
        for member_id in ("", "mine"):
            a = Consumer(talk, f"a{version}{member_id}", f"v{version}{member_id}")
            a.ask(f"v{version} {member_id!r}", a.first(topic, member_id=member_id), version)
            if a.epoch:
                a.ask(f"v{version} {member_id!r} again", a.request(member_id=a.id), version)


def join_alone(talk: GroupTalk) -> None:
    """Everything at once; what it is told again and when not."""
    topic, topic_id = seen_topic(talk)
    a = Consumer(talk, "a")
    a.enter("joins", topic)
    a.beat("beats")
    a.own("owns it")
    a.own("owns part of it", {topic_id: [1]})
    a.own("owns nothing", {})
    full: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [topic]}
    a.beat("a full heartbeat", topic_partitions=owning(a.assigned), **full)
    a.enter("joins again", topic)
    note_described(talk, "described", a.group_id)
    talk.note_group("described as classic", a.group_id)


def join_twice(talk: GroupTalk) -> None:
    """A member joins again with another subscription; members with one id in two groups."""
    topic, _ = seen_topic(talk, "t", 2)
    other, _ = seen_topic(talk, "other", 2)
    a, same = Consumer(talk, "a"), Consumer(talk, "a", "second")
    a.enter("joins", topic)
    same.enter("joins another group", topic)
    a.enter("joins again with another topic", other)
    a.beat("beats")
    note_described(talk, "described", a.group_id, same.group_id)


def hand_over(talk: GroupTalk) -> None:
    """A second member waits for what the first gives up."""
    topic, _ = seen_topic(talk)
    a, b = Consumer(talk, "a"), Consumer(talk, "b")
    a.enter("a joins", topic)
    a.own("a owns all")
    b.enter("b joins", topic)
    note_described(talk, "assigning", a.group_id)
    b.beat("b waits")
    a.beat("a is told to give up")
    note_described(talk, "a revokes", a.group_id)
    a.beat("a has not yet")
    b.beat("b still waits")
    a.own("a has given up")
    b.beat("b is given")
    b.own("b owns it")
    note_described(talk, "stable", a.group_id)
    talk.note_group("described as classic", a.group_id)
    b.quit("b leaves")
    a.beat("a is given all")
    a.own("a owns all again")
    note_described(talk, "a alone", a.group_id)


def three_members(talk: GroupTalk) -> None:
    """A third takes from both; the second leaves meanwhile."""
    topic, _ = seen_topic(talk, partitions=6)
    members = a, b, c = [Consumer(talk, name) for name in "abc"]
    for count, member in enumerate(members, 1):
        member.enter(f"{member.name} joins", topic)
        for round_number in range(3):
            for other in members[:count]:
                other.own(f"{other.name}, {count} in the group, {round_number}")
    note_described(talk, "three", a.group_id)
    b.quit("b leaves")
    for round_number in range(2):
        for member in (a, c):
            member.own(f"{member.name} without b, {round_number}")
    note_described(talk, "two", a.group_id)


def epochs(talk: GroupTalk) -> None:
    """Epochs of before and to come; the previous one passes with what was owned then."""
    topic, topic_id = seen_topic(talk)
    a, b = Consumer(talk, "a"), Consumer(talk, "b")
    a.enter("a joins", topic)
    a.own("a owns all")
    b.enter("b joins", topic)
    a.beat("a revokes")
    before = dict(a.assigned)
    a.own("a has given up")
    for label, epoch in (("future", 99), ("present", a.epoch), ("two before", a.epoch - 2)):
        a.beat(label, member_epoch=epoch)
    for label, owned in (
        ("previous, owns what it had", before),
        ("previous, owns part", {topic_id: before[topic_id][:1]}),
        ("previous, owns nothing", {}),
        ("previous, owns all", {topic_id: [0, 1, 2, 3]}),
        ("previous, owns another topic", {UNKNOWN_ID: [0]}),
    ):
        previous = a.request(member_epoch=a.epoch - 1, topic_partitions=owning(owned))
        a.ask(label, previous, 1)
        a.epoch = 2
    a.beat("previous, says nothing", member_epoch=1)
    a.beat("-3", member_epoch=-3)


def unknown_members(talk: GroupTalk) -> None:
    """Who is not in the group, groups that are not there."""
    topic, _ = seen_topic(talk)
    a, stranger = Consumer(talk, "a"), Consumer(talk, "stranger")
    lost = Consumer(talk, "lost", "absent")
    for label, epoch in (("beats", 1), ("leaves", LEAVE), ("leaves a while", LEAVE_FOR_A_WHILE)):
        lost.beat(f"absent, {label}", member_epoch=epoch)
        lost.beat(f"absent, {label}, instance", member_epoch=epoch, instance_id="i")
    a.enter("a joins", topic)
    for label, epoch in (("beats", 1), ("leaves", LEAVE), ("leaves a while", LEAVE_FOR_A_WHILE)):
        stranger.beat(label, member_epoch=epoch)
        stranger.beat(f"{label}, instance", member_epoch=epoch, instance_id="i")
    talk.note_group("absent", lost.group_id)


def leaving(talk: GroupTalk) -> None:
    """The last one leaves: an empty group that keeps its epoch, and can be joined again."""
    topic, _ = seen_topic(talk)
    a = Consumer(talk, "a")
    a.enter("joins", topic)
    a.quit("leaves")
    a.quit("leaves again")
    note_described(talk, "empty", a.group_id)
    talk.note_group("described as classic", a.group_id)
    a.beat("beats", member_epoch=1)
    a.enter("joins again", topic)
    a.ask("leaves in v0", a.request(member_epoch=LEAVE), 0)


def static_members(talk: GroupTalk) -> None:
    """Away for a while: nothing moves; the replacement gets the same partitions."""
    topic, _ = seen_topic(talk)
    a, b = Consumer(talk, "a", instance="one"), Consumer(talk, "b", instance="two")
    a.enter("a joins", topic)
    b.enter("b joins", topic)
    a.own("a gives up")
    b.own("b is given")
    b.own("b owns it")
    a.own("a owns")
    b.quit("b is away", LEAVE_FOR_A_WHILE)
    note_described(talk, "b is away, described", a.group_id)
    a.beat("a goes on")
    b.beat("b beats while away", member_epoch=2)
    back = Consumer(talk, "back", instance="two")
    back.enter("b is back", topic)
    back.own("it owns")
    b.beat("b is fenced", member_epoch=2)
    note_described(talk, "described", a.group_id)
    back.quit("it leaves for good")
    a.beat("a is given all")
    note_described(talk, "a alone", a.group_id)


def static_replacement_differs(talk: GroupTalk) -> None:
    """Who comes back subscribes to something else."""
    topic, _ = seen_topic(talk)
    other, _ = seen_topic(talk, "other", 2)
    a = Consumer(talk, "a", instance="one")
    a.enter("joins", topic)
    a.quit("is away", LEAVE_FOR_A_WHILE)
    back = Consumer(talk, "back", instance="one")
    back.enter("is back with another topic", other)
    back.own("owns")
    note_described(talk, "described", a.group_id)


def unreleased_instance(talk: GroupTalk) -> None:
    """An instance that is in use, and requests with the wrong one."""
    topic, _ = seen_topic(talk)
    a = Consumer(talk, "a", instance="one")
    a.enter("joins", topic)
    twin = Consumer(talk, "twin", instance="one")
    twin.enter("its twin joins", topic)
    twin.beat("its twin beats", member_epoch=1)
    twin.quit("its twin leaves")
    twin.quit("its twin leaves for a while", LEAVE_FOR_A_WHILE)
    a.beat("without the instance", instance_id=None)
    a.beat("with another", instance_id="two")
    a.quit("leaves", LEAVE)
    note_described(talk, "described", a.group_id)
    dynamic = Consumer(talk, "dynamic")
    dynamic.enter("dynamic joins", topic)
    dynamic.quit("dynamic leaves for a while", LEAVE_FOR_A_WHILE)
    dynamic.beat("dynamic names an instance", instance_id="late")


def invalid_requests(talk: GroupTalk) -> None:
    """What a heartbeat must say, and must not."""
    topic, _ = seen_topic(talk)
    variants: tuple[tuple[str, dict[str, Any]], ...] = (
        ("empty group", {"group_id": ""}),
        ("blank group", {"group_id": "  "}),
        ("no member", {"member_id": ""}),
        ("blank member", {"member_id": "  "}),
        ("empty instance", {"instance_id": ""}),
        ("empty rack", {"rack_id": ""}),
        ("no rebalance timeout", {"rebalance_timeout_ms": -1}),
        ("rebalance timeout 0", {"rebalance_timeout_ms": 0}),
        ("no subscription", {"subscribed_topic_names": None}),
        ("empty subscription", {"subscribed_topic_names": []}),
        ("no partitions said", {"topic_partitions": None}),
        ("owns something", {"topic_partitions": owning({UNKNOWN_ID: [0]})}),
        ("owns nothing of a topic", {"topic_partitions": [TopicPartitions(topic_id=UNKNOWN_ID)]}),
        ("epoch -3", {"member_epoch": -3}),
        ("empty assignor", {"server_assignor": ""}),
        ("unknown assignor", {"server_assignor": "sticky"}),
        ("assignor in capitals", {"server_assignor": "Range"}),
        ("empty regex", {"subscribed_topic_regex": "", "subscribed_topic_names": None}),
        ("away without an instance", {"member_epoch": LEAVE_FOR_A_WHILE}),
        ("topic twice", {"subscribed_topic_names": [topic, topic]}),
        ("bad topic", {"subscribed_topic_names": ["a b", "", topic]}),
    )
    for number, (label, fields) in enumerate(variants):
        for version in (0, 1):
            a = Consumer(talk, f"a{number}", f"{number}v{version}")
            a.ask(f"v{version} {label}", a.first(topic, **fields), version)
    a = Consumer(talk, "a", "stable")
    a.enter("joins", topic)
    for label, fields in variants:
        if label not in ("epoch -3", "rebalance timeout 0"):
            a.beat(f"as a member, {label}", **fields)


def assignors(talk: GroupTalk) -> None:
    """Range and uniform over two topics; members vote, the broker's first is the default."""
    topic, _ = seen_topic(talk, "t", 3)
    other, _ = seen_topic(talk, "u", 3)
    for assignor in ("range", "uniform", None):
        a, b = [Consumer(talk, name, str(assignor)) for name in "ab"]
        # Of several topics, uniform takes that with the smaller id first: ids are random.
        topics = [topic, other] if assignor == "range" else [topic]
        _settle_two(talk, f"{assignor}: ", a, b, topics, assignor)
    a, b, c = [Consumer(talk, name, "votes") for name in "abc"]
    a.enter("a votes for range", topic, server_assignor="range")
    note_described(talk, "range", a.group_id)
    b.enter("b votes for uniform", topic, server_assignor="uniform")
    note_described(talk, "a tie", a.group_id)
    c.enter("c votes for uniform", topic, server_assignor="uniform")
    note_described(talk, "uniform", a.group_id)
    b.beat("b changes its mind", server_assignor="range")
    note_described(talk, "range again", a.group_id)


def _settle_two(
    talk: GroupTalk,
    label: str,
    a: Consumer,
    b: Consumer,
    topics: list[str],
    assignor: str | None = None,
) -> None:
    a.enter(f"{label}a joins", *topics, server_assignor=assignor)
    a.own(f"{label}a owns")
    b.enter(f"{label}b joins", *topics, server_assignor=assignor)
    a.beat(f"{label}a revokes")
    a.own(f"{label}a has given up")
    b.beat(f"{label}b is given")
    b.own(f"{label}b owns")
    note_described(talk, f"{label}described", a.group_id)


def different_subscriptions(talk: GroupTalk) -> None:
    """Members that want different topics."""
    topic, _ = seen_topic(talk, "t", 4)
    other, _ = seen_topic(talk, "u", 2)
    for assignor in ("range", "uniform"):
        a, b, c = [Consumer(talk, name, assignor) for name in "abc"]
        a.enter(f"{assignor}: a joins", topic, server_assignor=assignor)
        b.enter(f"{assignor}: b joins", other, topic, server_assignor=assignor)
        c.enter(f"{assignor}: c joins", other, server_assignor=assignor)
        for round_number in range(3):
            for member in (a, b, c):
                member.own(f"{assignor}: {member.name}, {round_number}")
        note_described(talk, f"{assignor}: described", a.group_id)


def subscription_changes(talk: GroupTalk) -> None:
    """A member changes what it wants, then wants nothing."""
    topic, _ = seen_topic(talk, "t", 2)
    other, _ = seen_topic(talk, "u", 2)
    a = Consumer(talk, "a")
    a.enter("joins", topic)
    a.own("owns")
    a.beat("wants both", subscribed_topic_names=[topic, other])
    a.own("owns both")
    a.beat("the same in another order", subscribed_topic_names=[other, topic])
    a.beat("wants the other", subscribed_topic_names=[other])
    a.own("has given up the first")
    a.beat("wants nothing", subscribed_topic_names=[])
    a.own("has given up all")
    a.beat("wants what is not there", subscribed_topic_names=[talk.topic("absent")])
    a.beat("another rack", rack_id="r1")
    a.beat("another timeout", rebalance_timeout_ms=10_000)
    note_described(talk, "described", a.group_id)


def group_is_full(talk: GroupTalk) -> None:
    """A fifth member where four are allowed."""
    topic, _ = seen_topic(talk)
    members = [Consumer(talk, name) for name in "abcd"]
    for member in members:
        member.enter(f"{member.name} joins", topic)
    Consumer(talk, "e").enter("e joins", topic)
    members[0].enter("a joins again", topic)
    members[3].quit("d leaves")
    Consumer(talk, "e").enter("e joins at last", topic)


def session_ends(talk: GroupTalk) -> None:
    """A silent member is put out, what it had goes to the other."""
    topic, _ = seen_topic(talk)
    configure(talk, "g", 100, consumer_session_timeout_ms=SHORT_MS)
    a, b = Consumer(talk, "a"), Consumer(talk, "b")
    b.enter("b joins", topic)
    a.enter("a joins", topic)
    a.beat_until("a has all", lambda answer: sum(map(len, a.assigned.values())) == 4)
    b.beat("b is unknown")
    note_described(talk, "described", a.group_id)
    static = Consumer(talk, "static", "static", instance="one")
    configure(talk, "static", 100, consumer_session_timeout_ms=SHORT_MS)
    static.enter("static joins", topic)
    static.quit("static is away", LEAVE_FOR_A_WHILE)
    talk.wait_state(a.group_id, "Dead")
    note_described(talk, "static did not come back", static.group_id)


def rebalance_ends(talk: GroupTalk) -> None:
    """Who does not give up in its rebalance timeout is put out, though it beats."""
    topic, _ = seen_topic(talk)
    a, b = Consumer(talk, "a"), Consumer(talk, "b")
    a.enter("a joins", topic, rebalance_timeout_ms=300)
    a.own("a owns all")
    b.enter("b joins", topic)
    a.beat("a is told")
    b.beat_until("b is given all", is_given)
    a.beat("a is unknown")
    note_described(talk, "described", a.group_id)


def group_settings(talk: GroupTalk) -> None:
    """A group's own heartbeat interval, before and while it lives."""
    topic, _ = seen_topic(talk)
    configure(talk, "g", 777)
    a = Consumer(talk, "a")
    a.beat_until(
        "told on joining",
        lambda answer: answer.heartbeat_interval_ms == 777,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
        member_epoch=0,
    )
    configure(talk, "g", 888)
    a.beat_until("told later", lambda answer: answer.heartbeat_interval_ms == 888)


GROUP_CHANGES: Final[dict[str, Sequence[Op]]] = {
    "one": [Op("consumer.session.timeout.ms", "50000")],
    "the same again": [Op("consumer.session.timeout.ms", "50000")],
    "an unknown one": [Op("consumer.no.such", "1")],
    "a setting of brokers": [Op("group.consumer.session.timeout.ms", "50000")],
    "no number": [Op("consumer.session.timeout.ms", "long")],
    "below the broker's minimum": [Op("consumer.session.timeout.ms", "1")],
    "above the broker's maximum": [Op("consumer.heartbeat.interval.ms", "999999")],
    "null": [Op("consumer.session.timeout.ms", None)],
    "appended": [Op("consumer.session.timeout.ms", "1", APPEND)],
    "deleted": [Op("consumer.session.timeout.ms", None, DELETE)],
    "deleted again": [Op("consumer.session.timeout.ms", None, DELETE)],
    "nothing": [],
}
SHOWN: Final = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms")


def _wait_until_shown(talk: GroupTalk, group_id: str, value: str) -> None:
    eventually(lambda: value_of(talk, GROUP, group_id, SHOWN[0])[0] == value)


def group_settings_changed(talk: GroupTalk) -> None:
    """What is said about changes of a group's settings, and what is shown afterwards."""
    group_id = talk.group("g")
    show(talk, "shown at first", GROUP, group_id, *SHOWN)
    for label, ops in GROUP_CHANGES.items():
        change(talk, label, Resource(GROUP, group_id, ops))
        if label in ("one", "deleted"):
            _wait_until_shown(talk, group_id, "50000" if label == "one" else "45000")
            show(talk, f"{label}, shown", GROUP, group_id, *SHOWN)
    for label, ops in GROUP_CHANGES.items():
        if label != "appended":
            replace(talk, f"{label}, replaced", Resource(GROUP, group_id, ops))
    show(talk, "of no group", GROUP, "", *SHOWN)


CONVERSATIONS: tuple[Callable[[GroupTalk], None], ...] = (
    heartbeat_versions,
    join_alone,
    join_twice,
    hand_over,
    three_members,
    epochs,
    unknown_members,
    leaving,
    static_members,
    static_replacement_differs,
    unreleased_instance,
    invalid_requests,
    assignors,
    different_subscriptions,
    subscription_changes,
    group_is_full,
    session_ends,
    rebalance_ends,
    group_settings,
    group_settings_changed,
)
