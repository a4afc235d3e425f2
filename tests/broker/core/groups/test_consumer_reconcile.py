"""Partitions change hands only when the old owner has given them up."""

from odradek.broker.core.groups.consumer_member import ConsumerMember, MemberState
from odradek.broker.core.groups.consumer_reconcile import Goal, Owned, reconcile
from odradek.protocol.errors import ErrorCode, Refused

from .consumer_running import Running

A, B = b"a" * 16, b"b" * 16
STABLE = ConsumerMember(member_id="m", member_epoch=5, assigned={A: {0: 3, 1: 5}})


def goal(
    target: dict[bytes, set[int]],
    owned: Owned | None = None,
    taken: Owned = frozenset(),
    *,
    epoch: int = 6,
    changed: bool = False,
    topic_ids: frozenset[bytes] = frozenset({A, B}),
) -> Goal:
    return Goal(
        epoch=epoch,
        partitions={topic_id: frozenset(numbers) for topic_id, numbers in target.items()},
        topic_ids=topic_ids,
        is_owned=lambda topic_id, number: (topic_id, number) in taken,
        owned=owned,
        subscription_changed=changed,
    )


def test_a_member_at_its_target_stays() -> None:
    assert reconcile(STABLE, goal({B: {1}}, epoch=5)) is STABLE


def test_new_partitions_are_added_at_once_and_keep_their_epochs() -> None:
    new = reconcile(STABLE, goal({A: {0, 1}, B: {0}}))
    assert new.assigned == {A: {0: 3, 1: 5}, B: {0: 6}}
    assert (new.state, new.member_epoch, new.previous_member_epoch) == (MemberState.STABLE, 6, 5)


def test_partitions_of_others_are_waited_for() -> None:
    new = reconcile(STABLE, goal({A: {0, 1}, B: {0, 1}}, taken={(B, 0)}))
    assert new.assigned == {A: {0: 3, 1: 5}, B: {1: 6}}
    assert (new.state, new.member_epoch) == (MemberState.UNRELEASED_PARTITIONS, 6)
    later = reconcile(new, goal({A: {0, 1}, B: {0, 1}}))
    assert (later.assigned[B], later.state) == ({0: 6, 1: 6}, MemberState.STABLE)


def test_a_member_gives_up_first_and_stays_in_its_epoch() -> None:
    revoking = reconcile(STABLE, goal({A: {1}, B: {0}}))
    assert revoking.assigned == {A: {1: 5}}
    assert revoking.pending_revocation == {A: {0: 3}}
    assert (revoking.state, revoking.member_epoch) == (MemberState.UNREVOKED_PARTITIONS, 5)
    target: dict[bytes, set[int]] = {A: {1}, B: {0}}
    assert reconcile(revoking, goal(target)) is revoking  # it does not say what it owns
    assert reconcile(revoking, goal(target, {(A, 0), (A, 1)})) is revoking
    given_up = reconcile(revoking, goal(target, {(A, 1)}))
    assert given_up.assigned == {A: {1: 5}, B: {0: 6}}
    assert (given_up.state, given_up.pending_revocation) == (MemberState.STABLE, {})


def test_what_it_gave_up_before_being_told_is_not_asked_for() -> None:
    new = reconcile(STABLE, goal({A: {1}}, {(A, 1)}))
    assert (new.state, new.assigned) == (MemberState.STABLE, {A: {1: 5}})


def test_it_may_get_back_what_it_was_about_to_give_up() -> None:
    revoking = reconcile(STABLE, goal({A: {1}}))
    back = reconcile(revoking, goal({A: {0, 1}}, {(A, 1)}, taken={(A, 0), (A, 1)}, epoch=7))
    assert (back.state, back.assigned) == (MemberState.STABLE, {A: {0: 7, 1: 5}})


def test_topics_it_left_are_taken_back_although_the_target_is_old() -> None:
    kept = frozenset({B})
    asked = reconcile(STABLE, goal({A: {0, 1}}, epoch=5, changed=True, topic_ids=kept))
    assert (asked.assigned, asked.pending_revocation) == ({}, STABLE.assigned)
    assert asked.state is MemberState.UNREVOKED_PARTITIONS
    gone = reconcile(STABLE, goal({A: {0, 1}}, set(), epoch=5, changed=True, topic_ids=kept))
    assert (gone.assigned, gone.state) == ({}, MemberState.STABLE)


def test_a_member_in_an_unknown_state_must_join_again() -> None:
    unknown = ConsumerMember(member_id="m", member_epoch=5, state=MemberState.UNKNOWN)
    for owned in (None, {(A, 0)}):
        try:
            reconcile(unknown, goal({A: {0}}, owned))
        except Refused as refused:
            assert refused.code == ErrorCode.FENCED_MEMBER_EPOCH
        else:
            raise AssertionError("it was let in")
    assert reconcile(unknown, goal({A: {0}}, set())).assigned == {A: {0: 6}}


def test_two_members_hand_over() -> None:
    run = Running()
    run.join("a")
    joined = run.join("b")
    assert (joined.member_epoch, run.told(joined)) == (3, {})
    assert run.group.state_name == "Reconciling"
    revoking = run.send("a", 2)
    assert (revoking.member_epoch, run.told(revoking)) == (2, {"t4": [0, 1]})
    assert run.told(run.send("b", 3)) is None  # a has not given them up
    assert run.told(run.send("a", 2, {"t4": [0, 1, 2]})) is None
    done = run.send("a", 2, {"t4": [0, 1]})
    assert (done.member_epoch, run.told(done)) == (3, None)
    assert run.told(run.send("b", 3)) == {"t4": [2, 3]}
    assert run.group.state_name == "Stable"
