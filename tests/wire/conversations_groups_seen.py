"""Groups as operators see them: described, listed, deleted."""

from collections.abc import Callable

from odradek.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.k16_list_groups import ListGroupsRequest
from odradek.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from tests.wire.conversations_offsets import commit, fetch, position
from tests.wire.group_talk import GroupTalk, Member, served, subscription


def _in_each_state(talk: GroupTalk) -> dict[str, Member]:
    """Groups named after their states, each with a member that knows its id."""
    topic = talk.create("t")
    members = {name: talk.member("a", name) for name in ("stable", "completing", "preparing")}
    members["stable"].settle("stable", (("range", subscription(topic)),))
    members["completing"].join("completing")
    members["preparing"].settle("preparing")
    other = talk.member("b", "preparing")
    other.send_join()
    talk.wait_state(talk.group("preparing"), "PreparingRebalance", members=2)
    empty = talk.member("a", "empty")
    empty.settle("empty")
    empty.leave("empty leaves")
    talk.exchange(commit(talk.group("offsets only"), topic, position(0, 1)), 9)
    connect = talk.member("a", "connect")
    connect.settle("connect", (("default", b"c"),), protocol_type="connect")
    return members


def describe_groups(talk: GroupTalk) -> None:
    """Every state in every version; unknown, empty and repeated names; operations."""
    _in_each_state(talk)
    stems = ("stable", "completing", "preparing", "empty", "offsets only", "connect", "absent")
    for version in served(DescribeGroupsRequest):
        for stem in stems:
            talk.note_group(f"v{version} {stem}", talk.group(stem), version)
        several = [talk.group("absent"), "", talk.group("stable"), talk.group("absent")]
        talk.ask(f"v{version} several", DescribeGroupsRequest(groups=several), version)
        talk.ask(f"v{version} none", DescribeGroupsRequest(groups=[]), version)
        if version >= 3:
            asked = DescribeGroupsRequest(
                groups=[talk.group("empty"), talk.group("absent")],
                include_authorized_operations=True,
            )
            talk.ask(f"v{version} operations", asked, version)


def list_groups(talk: GroupTalk) -> None:
    """All, by state, by type, by what is neither."""
    _in_each_state(talk)
    for version in served(ListGroupsRequest):
        talk.note_listed(f"v{version}", ListGroupsRequest(), version)
    for version in (4, 5):
        for states in (
            ["Stable"],
            ["Empty", "PreparingRebalance"],
            ["CompletingRebalance", "Dead"],
            ["stable"],
            ["STABLE"],
            ["NoSuch"],
            ["Assigning", "Reconciling"],
            [""],
        ):
            asked = ListGroupsRequest(states_filter=states)
            talk.note_listed(f"v{version} {states}", asked, version)
    for types in (["classic"], ["Classic"], ["consumer"], ["classic", "consumer"], ["x"], [""]):
        talk.note_listed(f"types {types}", ListGroupsRequest(types_filter=types), 5)
        both = ListGroupsRequest(types_filter=types, states_filter=["Stable"])
        talk.note_listed(f"types {types} and stable", both, 5)


def delete_groups(talk: GroupTalk) -> None:
    """Live, empty, unknown, twice; its offsets go with it and its name can be used again."""
    _in_each_state(talk)
    stems = ("stable", "completing", "preparing", "empty", "absent", "offsets only", "empty")
    for version in served(DeleteGroupsRequest):
        names = [talk.group(stem) for stem in stems]
        talk.ask(f"v{version}", DeleteGroupsRequest(groups_names=names), version)
        talk.ask(f"v{version} unnamed", DeleteGroupsRequest(groups_names=[""]), version)
        talk.ask(f"v{version} none", DeleteGroupsRequest(groups_names=[]), version)
        name = talk.group("offsets only")
        talk.ask(f"v{version} offsets", fetch(name, 9, None), 9)
        talk.exchange(commit(name, talk.topic("t"), position(0, 2)), 9)
    for stem in stems[:5]:
        talk.note_group(f"{stem} after all", talk.group(stem))
    again = talk.member("again", "empty")
    again.join("joins a deleted group")


def group_with_a_pending_member(talk: GroupTalk) -> None:
    """Who has an id and has not joined with it keeps a group from being deleted, or not."""
    a = talk.member("a")
    a.ask("id", a.join_request(), 9)
    talk.note_listed("listed", ListGroupsRequest(), 5)
    talk.ask("deleted", DeleteGroupsRequest(groups_names=[a.group_id]), 2)
    talk.note_group("described", a.group_id)
    a.ask("joins", a.join_request(), 9)


CONVERSATIONS: tuple[Callable[[GroupTalk], None], ...] = (
    describe_groups,
    list_groups,
    delete_groups,
    group_with_a_pending_member,
)
