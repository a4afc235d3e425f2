"""The steps that make up every decision of a consumer group, in Kafka's order.

The member and its pattern are updated; the group epoch is bumped if the subscription has changed; a
new target assignment is computed if its epoch is behind; and the member is moved one step towards
it. Each step adds its records to the draft and sees the results of earlier steps.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from .assignors import ASSIGNORS, GroupSpec, MemberSpec
from .consumer_member import (
    ConsumerMember,
    MemberState,
    Partitions,
    current_assignment_record,
    member_record,
    removal_records,
)
from .consumer_reconcile import Goal, Owned, reconcile
from .consumer_records import (
    group_epoch_record,
    partition_metadata_tombstone,
    regex_tombstone,
    target_epoch_record,
    target_record,
)
from .consumer_state import Draft, GroupState, Timer
from .group import TopicsImage
from .metadata_hash import metadata_hash
from .settings import ConsumerSettings

NAMES_SHOWN_MAX: Final = 5


class Terms(NamedTuple):
    """The settings, topics and time for a decision."""

    settings: ConsumerSettings
    topics: TopicsImage
    wall_ms: int


def put_member(draft: Draft, new: ConsumerMember) -> bool:
    """Write a member's metadata if it has changed; returns whether its topic names have changed."""
    old = draft.state.members.get(new.member_id)
    if old == new:
        return False
    draft.add(member_record(draft.state.group_id, new))
    before = frozenset() if old is None else old.subscribed_topic_names
    if before == new.subscribed_topic_names:
        return False
    draft.note("subscribed", f"to {shown(new.subscribed_topic_names)}", new.member_id)
    return True


def why_rebalance(before: GroupState, member_id: str) -> str:
    """The reason for the rebalance, for a member that is new or has changed its subscription.

    `before` is the group before the change.
    """
    known = member_id in before.members
    return f"member {member_id} {'subscribes to something else' if known else 'joined'}"


def update_epoch(draft: Draft, terms: Terms, *, why: str | None) -> None:
    """Bump the group epoch if there is a reason, or if the subscribed topics have changed."""
    state = draft.state
    found = hash_of(state.subscribed_topics(), terms.topics)
    if why is None and found != state.metadata_hash:
        why = "its topics were created, deleted or extended"
    if why is None:
        return
    bump_epoch(draft, found, why)
    if state.has_partition_metadata:
        draft.add(partition_metadata_tombstone(state.group_id))


def bump_epoch(draft: Draft, found_hash: int, why: str) -> None:
    """Raise the group epoch, so that a new target assignment is computed."""
    epoch = draft.state.group_epoch + 1
    draft.add(group_epoch_record(draft.state.group_id, epoch, found_hash))
    draft.note("rebalance", f"group epoch {epoch}: {why}")


def hash_of(names: Iterable[str], topics: TopicsImage) -> int:
    """A hash that changes when one of these topics is created, deleted or extended."""
    images = ((name, topics.get(name)) for name in names)
    return metadata_hash({name: image for name, image in images if image is not None})


def preferred_assignor(state: GroupState, settings: ConsumerSettings) -> str:
    """The assignor that most members ask for, or else the first one in the settings."""
    votes: dict[str, int] = {}
    for member in state.members.values():
        if member.server_assignor is not None:
            votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
    known = [(count, name) for name, count in votes.items() if name in settings.assignors]
    return max(known)[1] if known else settings.assignors[0]


def update_target(draft: Draft, terms: Terms) -> None:
    """Compute the target assignment if its epoch is behind, and the minimum interval is over."""
    state = draft.state
    age_ms = terms.wall_ms - state.assignment_wall_ms
    too_soon = 0 <= age_ms < terms.settings.assignment_interval_ms
    if state.assignment_epoch >= state.group_epoch or (state.assignment_wall_ms and too_soon):
        return
    name = preferred_assignor(state, terms.settings)
    assigned = ASSIGNORS[name](_spec(state, terms.topics))
    changed = 0
    for member_id in state.members:
        target: Partitions = assigned.get(member_id, {})
        target = {topic_id: numbers for topic_id, numbers in target.items() if numbers}
        if state.target.get(member_id) != target:
            draft.add(target_record(state.group_id, member_id, target))
            changed += 1
    epoch = state.group_epoch
    draft.add(target_epoch_record(state.group_id, epoch, terms.wall_ms))
    draft.note(
        "assigned",
        f"epoch {epoch} by {name}: {changed} of {len(state.members)} "
        "members get another assignment",
    )


def _spec(state: GroupState, topics: TopicsImage) -> GroupSpec:
    images: dict[str, tuple[bytes, int]] = {}
    for topic in state.subscribed_topics():
        image = topics.get(topic)
        if image is not None:
            images[topic] = (image.topic_id, image.partition_count)
    ids: dict[frozenset[str], frozenset[bytes]] = {}
    members: dict[str, MemberSpec] = {}
    for member in state.members.values():
        names = state.topics_of(member)
        if names not in ids:
            ids[names] = frozenset(images[name][0] for name in names if name in images)
        members[member.member_id] = MemberSpec(
            member.instance_id, member.rack_id, ids[names], state.target_of(member.member_id)
        )
    return GroupSpec(members, dict(images.values()))


def move_member(
    draft: Draft, terms: Terms, member_id: str, owned: Owned | None, *, subscription_changed: bool
) -> ConsumerMember:
    """Move a member one step towards its target assignment and the assignment epoch.

    Raises: Refused (FENCED_MEMBER_EPOCH).
    """
    state = draft.state
    member = state.members[member_id]
    if not subscription_changed and member.is_reconciled_to(state.assignment_epoch):
        return member
    images = (terms.topics.get(name) for name in state.topics_of(member))
    goal = Goal(
        epoch=state.assignment_epoch,
        partitions=state.target_of(member_id),
        topic_ids={image.topic_id for image in images if image is not None},
        is_owned=lambda topic_id, partition: (topic_id, partition) in state.owners,
        owned=owned,
        subscription_changed=subscription_changed,
    )
    moved = reconcile(member, goal)
    if moved != member:
        draft.add(current_assignment_record(state.group_id, moved))
        _note_move(draft, member, moved)
        if moved.classic is None:
            waits = moved.state is MemberState.UNREVOKED_PARTITIONS
            draft.time(Timer.REBALANCE, member_id, moved.rebalance_timeout_ms if waits else None)
    return draft.state.members[member_id]


def _note_move(draft: Draft, old: ConsumerMember, new: ConsumerMember) -> None:
    count = sum(len(epochs) for epochs in new.assigned.values())
    if new.state is MemberState.UNREVOKED_PARTITIONS:
        revoked = sum(len(epochs) for epochs in new.pending_revocation.values())
        draft.note(
            "revoking",
            f"must give up {revoked} partitions within {new.rebalance_timeout_ms} ms, "
            f"keeps {count}",
            new.member_id,
        )
    elif new.state is MemberState.UNRELEASED_PARTITIONS:
        draft.note(
            "waiting",
            f"epoch {new.member_epoch}, {count} partitions; others have yet to give up more",
            new.member_id,
        )
    elif old.assigned != new.assigned or not old.is_reconciled_to(old.member_epoch):
        draft.note("stable", f"epoch {new.member_epoch}, {count} partitions", new.member_id)


def remove_members(draft: Draft, terms: Terms, member_ids: Iterable[str], why: str) -> None:
    """Delete members and the patterns that no other member has, and bump the group epoch."""
    group_id = draft.state.group_id
    for member_id in member_ids:
        draft.add(*removal_records(group_id, member_id))
        draft.clear_timers(member_id)
    unused = [text for text in draft.state.regexes if text not in draft.state.patterns]
    draft.add(*(regex_tombstone(group_id, text) for text in unused))
    bump_epoch(draft, hash_of(draft.state.subscribed_topics(), terms.topics), why)


def replace_member(draft: Draft, old: ConsumerMember, new: ConsumerMember) -> None:
    """Replace a static member that came back with another member id; it keeps everything."""
    group_id = draft.state.group_id
    target = draft.state.target_of(old.member_id)
    draft.clear_timers(old.member_id)
    draft.add(
        *removal_records(group_id, old.member_id),
        member_record(group_id, new),
        target_record(group_id, new.member_id, target),
        current_assignment_record(group_id, new),
    )


def shown(names: Iterable[str] | Mapping[str, object]) -> str:
    """Names as text for the journal, shortened if there are many."""
    found = sorted(names)
    more = f" and {len(found) - NAMES_SHOWN_MAX} more" if len(found) > NAMES_SHOWN_MAX else ""
    return (", ".join(found[:NAMES_SHOWN_MAX]) or "nothing") + more
