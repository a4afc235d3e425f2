"""Consumer groups whose topics come, grow and go; patterns; offsets; how they are seen and kept."""

from collections.abc import Callable
from typing import Any

from odradek.protocol.messages.k09_offset_fetch import OffsetFetchRequest
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k13_leave_group import LeaveGroupRequest
from odradek.protocol.messages.k14_sync_group import SyncGroupRequest
from odradek.protocol.messages.k16_list_groups import ListGroupsRequest
from odradek.protocol.messages.k20_delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from tests.wire.consumer_talk import (
    LEAVE_FOR_A_WHILE,
    SLOW_TIMEOUT_S,
    Consumer,
    extend,
    is_given,
    note_described,
    seen_topic,
)
from tests.wire.conversations_offsets import ask_delete, commit, fetch, fetched_group, position
from tests.wire.group_talk import GroupTalk


def topic_grows(talk: GroupTalk) -> None:
    """New partitions are assigned without a word of the member's."""
    topic, _ = seen_topic(talk, "t", 2)
    a = Consumer(talk, "a")
    a.enter("joins", topic)
    a.own("owns")
    extend(talk, topic, 3)
    a.beat_until("is given more", is_given)
    a.own("owns more")
    note_described(talk, "described", a.group_id)


def topic_comes_later(talk: GroupTalk) -> None:
    """A member waits for a topic that is not there yet."""
    a = Consumer(talk, "a")
    a.enter("joins", talk.topic("t"))
    a.beat("waits")
    note_described(talk, "waits, described", a.group_id)
    talk.create_with_id("t", 2)
    a.beat_until("is given", is_given)
    note_described(talk, "described", a.group_id)


def topic_goes(talk: GroupTalk) -> None:
    """A topic is deleted under its owner, and comes back as another."""
    topic, topic_id = seen_topic(talk, "t", 2)
    kept, _ = seen_topic(talk, "kept", 1)
    a = Consumer(talk, "a")
    a.enter("joins", topic, kept)
    a.own("owns")
    talk.exchange(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5)
    a.beat_until("loses it", lambda answer: answer.assignment is not None)
    a.own("has let go")
    note_described(talk, "described", a.group_id)
    _, new_id = talk.create_with_id("t", 2)
    talk.topic_ids[topic_id], talk.topic_ids[new_id] = "the old id", "the new id"
    a.beat_until("is given the new one", is_given)


def patterns(talk: GroupTalk) -> None:
    """Topics by a pattern, alone and with names; another pattern; none."""
    topic, _ = seen_topic(talk, "t-one", 2)
    other, _ = seen_topic(talk, "u-two", 2)
    pattern = f"{talk.topic_prefix}-t-.*"
    a, b = Consumer(talk, "a"), Consumer(talk, "b", "names")
    both = Consumer(talk, "both", "both")
    a.enter("joins", subscribed_topic_names=None, subscribed_topic_regex=pattern)
    a.beat_until("is given", is_given)
    a.own("owns")
    note_described(talk, "described", a.group_id)
    note_described(talk, "described in v0", a.group_id, version=0)
    a.beat("the same pattern", subscribed_topic_regex=pattern)
    a.beat("another pattern", subscribed_topic_regex=f"{talk.topic_prefix}-u-.*")
    a.own("has given up")
    a.beat_until("the other one", is_given)
    a.own("owns the other")
    a.beat("no pattern", subscribed_topic_regex="")
    a.own("has given up all")
    note_described(talk, "described without", a.group_id)
    b.enter("names", topic, subscribed_topic_regex="")
    both.enter("both", other, subscribed_topic_regex=pattern)
    both.beat_until("both are given", lambda answer: len(both.assigned) == 2)
    note_described(talk, "both described", both.group_id)


def patterns_of_two(talk: GroupTalk) -> None:
    """A second member with the same pattern, one with another, one with a name."""
    seen_topic(talk, "t-one", 4)
    pattern = f"{talk.topic_prefix}-(t|x)-.*"
    a, b = Consumer(talk, "a"), Consumer(talk, "b")
    a.enter("a joins", subscribed_topic_names=None, subscribed_topic_regex=pattern)
    a.beat_until("a is given", is_given)
    a.own("a owns")
    b.enter("b joins", subscribed_topic_names=None, subscribed_topic_regex=pattern)
    a.beat_until("a is told", is_given)
    a.own("a has given up")
    b.beat_until("b is given", is_given)
    b.own("b owns")
    note_described(talk, "described", a.group_id)


def bad_patterns(talk: GroupTalk) -> None:
    """What is no pattern in RE2's syntax."""
    for number, pattern in enumerate(("(", "[a", "*a", "a{2,1}", "(?=a)", "\\1", "a**", "(?P<n")):
        a = Consumer(talk, "a", f"g{number}")
        a.enter(pattern, subscribed_topic_names=None, subscribed_topic_regex=pattern)
        talk.note_group(f"{pattern} described", a.group_id)
    a = Consumer(talk, "a")
    # Nothing matches: when Kafka would give topics of other conversations is its own affair.
    none = f"{talk.topic_prefix}-none-.*"
    a.enter("joins", subscribed_topic_names=None, subscribed_topic_regex=none)
    a.beat("changes to a bad one", subscribed_topic_regex="(")
    a.beat("goes on")


def patterns_that_match_nothing(talk: GroupTalk) -> None:
    """A pattern matches whole names only; those of internal topics too."""
    seen_topic(talk, "t-one", 1)
    internal = Consumer(talk, "a", "internal")
    fields = {"subscribed_topic_names": None, "subscribed_topic_regex": "__consumer_offset."}
    internal.enter("internal joins", **fields)
    internal.beat_until("internal is given", is_given)
    for number, pattern in enumerate((f"{talk.topic_prefix}-t", "t-one", "no-such-.*", "\u00e4")):
        a = Consumer(talk, "a", f"g{number}")
        a.enter(f"{number} joins", subscribed_topic_names=None, subscribed_topic_regex=pattern)
        a.beat(f"{number} beats")


def pattern_and_topics_to_come(talk: GroupTalk) -> None:
    """A topic that is made later and matches is found, in Kafka's own time."""
    a = Consumer(talk, "a")
    pattern = f"{talk.topic_prefix}-t-.*"
    a.enter("joins", subscribed_topic_names=None, subscribed_topic_regex=pattern)
    a.beat("nothing yet")
    talk.create_with_id("t-one", 2)
    a.beat_until("is given", is_given, timeout_s=SLOW_TIMEOUT_S)


def offsets_of_members(talk: GroupTalk) -> None:
    """Commits and fetches with member epochs: right, stale, to come, of strangers, from outside."""
    topic, _ = seen_topic(talk, "t", 2)
    a = Consumer(talk, "a")
    a.enter("joins", topic)
    for version in range(2, 10):  # Kafka 4 has forgotten those before
        for label, who in _epochs_of(a):
            asked = commit(a.group_id, topic, position(0, version), **who)
            talk.ask(f"commit v{version} {label}", asked, version)
    for label, who in _epochs_of(a):
        fields = {"member_id": who["member_id"], "member_epoch": _epoch_in(who)}
        group = fetched_group(a.group_id, {topic: [0, 1]}, **fields)
        talk.ask(f"fetch {label}", OffsetFetchRequest(groups=[group]), 9)
        group = fetched_group(a.group_id, None, **fields)
        talk.ask(f"fetch all {label}", OffsetFetchRequest(groups=[group]), 9)
    for version in range(1, 10):
        talk.ask(f"fetch v{version}", fetch(a.group_id, version, {topic: [0]}), version)
    a.quit("leaves")
    outside = commit(a.group_id, topic, position(1, 5))
    talk.ask("from outside an empty group", outside, 9)
    asked = commit(a.group_id, topic, position(1, 6), **_epochs_of(a)[0][1])
    talk.ask("of a member that left", asked, 9)


def offsets_of_late_members(talk: GroupTalk) -> None:
    """Commits in epochs that are over (KIP-1251): of partitions kept, given up, and taken over."""
    topic, topic_id = seen_topic(talk)
    a, b = Consumer(talk, "a"), Consumer(talk, "b")
    a.enter("a joins", topic)
    first = a.epoch
    b.enter("b joins", topic)
    a.beat("a is told")
    kept = a.assigned[topic_id][0]
    gone = next(number for number in range(4) if number not in a.assigned[topic_id])
    _commit_late(talk, "revoking, still in it", a, first, topic, gone)
    a.own("a has given up")
    b.beat("b is given")
    for label, member, epoch, partitions in (
        ("kept", a, first, [kept]),
        ("given up", a, first, [gone]),
        ("kept and given up", a, first, [kept, gone]),
        ("kept, and one that is not there", a, first, [kept, 9]),
        ("before it had any", a, first - 1, [kept]),
        ("b's before it was", b, b.epoch - 1, [gone]),
        ("b's", b, b.epoch, [gone, kept]),
    ):
        _commit_late(talk, label, member, epoch, topic, *partitions)
    talk.ask("fetched", fetch(a.group_id, 9, {topic: [0, 1, 2, 3]}), 9)


def _commit_late(
    talk: GroupTalk, label: str, member: Consumer, epoch: int, topic: str, *partitions: int
) -> None:
    positions = [position(number, 7) for number in partitions]
    who = {"member_id": member.id, "generation_id_or_member_epoch": epoch}
    talk.ask(label, commit(member.group_id, topic, *positions, **who), 9)


def _epoch_in(who: dict[str, Any]) -> int:
    return int(who["generation_id_or_member_epoch"])


def _epochs_of(a: Consumer) -> list[tuple[str, dict[str, Any]]]:
    epochs = (
        ("itself", "a", 2),
        ("stale", "a", 1),
        ("to come", "a", 9),
        ("no epoch", "a", -1),
        ("unknown", "b", 2),
        ("outside", "", -1),
        ("no member", "", 2),
    )
    return [
        (label, {"member_id": name, "generation_id_or_member_epoch": epoch})
        for label, name, epoch in epochs
    ]


def seen_from_outside(talk: GroupTalk) -> None:
    """Described, listed, deleted: consumer groups beside classic ones and none at all."""
    topic, _ = seen_topic(talk, "t", 2)
    a, left = Consumer(talk, "a", "live"), Consumer(talk, "left", "left")
    a.enter("a joins", topic)
    left.enter("left joins", topic)
    left.quit("left leaves")
    talk.exchange(commit(left.group_id, topic, position(0, 3)), 9)
    classic = talk.member("classic", "classic")
    classic.settle("classic")
    names = [talk.group(stem) for stem in ("live", "left", "classic", "absent")]
    for version in (0, 1):
        note_described(talk, f"consumer v{version}", *names, "", names[0], version=version)
        note_described(talk, f"none v{version}", version=version)
    for name in names:
        talk.note_group(f"classic {name.rpartition('-')[2]}", name)
    for version in range(6):
        talk.note_listed(f"listed v{version}", ListGroupsRequest(), version)
    for types in (["consumer"], ["Consumer"], ["classic"], ["share"], ["x"]):
        talk.note_listed(f"types {types}", ListGroupsRequest(types_filter=types), 5)
    for states in (["Stable"], ["Empty"], ["assigning", "STABLE"], ["Reconciling"]):
        talk.note_listed(f"states {states}", ListGroupsRequest(states_filter=states), 5)
    ask_delete(talk, "offset of a subscribed topic", names[0], {topic: [0]})
    ask_delete(talk, "offset of an empty group", names[1], {topic: [0, 1]})
    talk.ask("deleted", DeleteGroupsRequest(groups_names=names), 2)
    talk.ask("deleted again", DeleteGroupsRequest(groups_names=names), 2)
    a.beat("a goes on")


def classic_requests(talk: GroupTalk) -> None:
    """What classic members would say, said by a consumer member and by a stranger."""
    topic, _ = seen_topic(talk, "t", 2)
    a = Consumer(talk, "a")
    a.enter("joins", topic)
    for name in ("a", "stranger", ""):
        fields: dict[str, Any] = {"group_id": a.group_id, "member_id": name}
        beat = HeartbeatRequest(generation_id=2, **fields)
        talk.ask(f"heartbeat of {name!r}", beat, 4)
        sync = SyncGroupRequest(
            generation_id=2, protocol_type="consumer", protocol_name="range", **fields
        )
        talk.ask(f"sync of {name!r}", sync, 5)
        talk.ask(f"leave of {name!r}", LeaveGroupRequest(**fields), 2)
    a.beat("goes on")


def consumer_records(talk: GroupTalk) -> None:
    """A hand-over, a static member, a leave and a deletion in their records."""
    topic, _ = seen_topic(talk, "t", 2)
    a, b = Consumer(talk, "a"), Consumer(talk, "b", instance="two")
    a.enter("a joins", topic)
    a.own("a owns")
    b.enter("b joins", topic, server_assignor="range", rack_id="r")
    a.beat("a revokes")
    a.own("a has given up")
    b.beat("b is given")
    member = {"member_id": "a", "generation_id_or_member_epoch": a.epoch}
    talk.ask("commit", commit(a.group_id, topic, position(0, 5, "note"), **member), 9)
    b.quit("b is away", LEAVE_FOR_A_WHILE)
    back = Consumer(talk, "back", instance="two")
    back.enter("b is back", topic)
    a.quit("a leaves")
    back.quit("b leaves")
    gone = Consumer(talk, "gone", "gone")
    gone.enter("gone joins", topic)
    gone.quit("gone leaves")
    talk.ask("gone is deleted", DeleteGroupsRequest(groups_names=[gone.group_id]), 2)
    talk.note_records("records")


def consumer_restart(talk: GroupTalk) -> None:
    """Members go on after a clean stop of the broker, in the middle of a hand-over."""
    _live_through(talk, talk.server.stop)


def consumer_kill(talk: GroupTalk) -> None:
    """And after a crash."""
    _live_through(talk, talk.server.kill)


def _live_through(talk: GroupTalk, end: Callable[[], None]) -> None:
    topic, _ = seen_topic(talk)
    a, b = Consumer(talk, "a"), Consumer(talk, "b")
    away = Consumer(talk, "away", "away", instance="one")
    away.enter("away joins", topic)
    away.quit("away is away", LEAVE_FOR_A_WHILE)
    a.enter("a joins", topic)
    a.own("a owns all")
    b.enter("b joins", topic)
    a.beat("a revokes")
    talk.restart(end)
    note_described(talk, "described", a.group_id, away.group_id)
    b.beat("b waits")
    a.own("a has given up")
    b.beat("b is given")
    b.own("b owns")
    back = Consumer(talk, "back", "away", instance="one")
    back.enter("back", topic)
    note_described(talk, "described at last", a.group_id, away.group_id)


CONVERSATIONS: tuple[Callable[[GroupTalk], None], ...] = (
    topic_grows,
    topic_comes_later,
    topic_goes,
    patterns,
    patterns_of_two,
    bad_patterns,
    patterns_that_match_nothing,
    pattern_and_topics_to_come,
    offsets_of_members,
    offsets_of_late_members,
    seen_from_outside,
    classic_requests,
    consumer_records,
    consumer_restart,
    consumer_kill,
)
