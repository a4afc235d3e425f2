"""The assignors: one owner for all, evenly, few moves, and the same answer as Kafka's."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.core.groups.assignors import ASSIGNORS, Assignment, GroupSpec, MemberSpec
from tests.kafka.java import run_program


def topic(number: int) -> bytes:
    return number.to_bytes(16, "big")


def member(
    *topics: int, assigned: dict[int, set[int]] | None = None, instance_id: str | None = None
) -> MemberSpec:
    return MemberSpec(
        instance_id,
        None,
        frozenset(map(topic, topics)),
        {topic(number): frozenset(some) for number, some in (assigned or {}).items()},
    )


def again(spec: GroupSpec, target: Assignment, **changed: MemberSpec | None) -> GroupSpec:
    """The group with its new target, after members came, changed or went (None)."""
    members = {
        member_id: old._replace(assigned=target[member_id])
        for member_id, old in spec.members.items()
    }
    for member_id, new in changed.items():
        if new is None:
            del members[member_id]
        else:
            members[member_id] = new._replace(assigned=target.get(member_id, {}))
    return GroupSpec(members, spec.topics)


def owners(target: Assignment) -> dict[tuple[bytes, int], str]:
    found: dict[tuple[bytes, int], str] = {}
    for member_id, mine in target.items():
        for topic_id, partitions in mine.items():
            for partition in partitions:
                assert (topic_id, partition) not in found, "two owners"
                found[topic_id, partition] = member_id
    return found


def check_owners(spec: GroupSpec, target: Assignment) -> None:
    wanted = {topic_id for one in spec.members.values() for topic_id in one.topic_ids}
    found = owners(target)
    assert found.keys() == {
        (topic_id, partition) for topic_id in wanted for partition in range(spec.topics[topic_id])
    }
    assert all(item[0] in spec.members[owner].topic_ids for item, owner in found.items())
    assert target.keys() == spec.members.keys()
    assert all(partitions for mine in target.values() for partitions in mine.values())


def loads(target: Assignment) -> list[int]:
    return sorted(sum(map(len, mine.values())) for mine in target.values())


def moves(before: Assignment, after: Assignment) -> int:
    """How many partitions changed hands though their owner is still there."""
    now = owners(after)
    return sum(
        1 for item, owner in owners(before).items() if owner in after and now.get(item) != owner
    )


TOPICS = st.dictionaries(st.integers(0, 9), st.integers(1, 9), min_size=1, max_size=6)


@st.composite
def groups(draw: st.DrawFn, *, mixed: bool | None = None) -> GroupSpec:
    counts = draw(TOPICS)
    some = st.frozensets(st.sampled_from(sorted(counts)))
    mixed = draw(st.booleans()) if mixed is None else mixed
    names = draw(st.lists(st.sampled_from("abcdefghij"), min_size=1, unique=True))
    same = draw(some)
    wanted = {name: draw(some) if mixed else same for name in names}
    had: dict[str, dict[int, set[int]]] = {name: {} for name in names}
    for number, count in counts.items():
        for partition in range(count):
            owner = draw(st.sampled_from([None, *names]))
            if owner is not None:
                had[owner].setdefault(number, set()).add(partition)
    members = {
        name: member(
            *wanted[name],
            assigned=had[name],
            instance_id=draw(st.sampled_from([None, "i" + name, "h" + name])),
        )
        for name in names
    }
    return GroupSpec(members, {topic(number): count for number, count in counts.items()})


@pytest.mark.slow
@pytest.mark.parametrize("name", ASSIGNORS)
@given(spec=groups())
@settings(max_examples=60)
def test_every_partition_has_one_owner_who_wants_it(name: str, spec: GroupSpec) -> None:
    target = ASSIGNORS[name](spec)
    check_owners(spec, target)
    shuffled = dict(sorted(spec.members.items(), key=lambda item: random.random()))
    assert ASSIGNORS[name](GroupSpec(shuffled, spec.topics)) == target


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_group_without_members_or_wishes(name: str) -> None:
    assert ASSIGNORS[name](GroupSpec({}, {})) == {}
    assert ASSIGNORS[name](GroupSpec({"a": member()}, {})) == {"a": {}}


@pytest.mark.slow
@pytest.mark.parametrize("name", ASSIGNORS)
@given(spec=groups())
@settings(max_examples=40)
def test_a_target_is_stable(name: str, spec: GroupSpec) -> None:
    target = ASSIGNORS[name](spec)
    if spec.is_homogeneous or name == "range":
        assert ASSIGNORS[name](again(spec, target)) == target


@pytest.mark.slow
@given(spec=groups(mixed=False))
@settings(max_examples=60)
def test_uniform_gives_all_the_same_and_one_join_or_leave_moves_no_more_than_it_must(
    spec: GroupSpec,
) -> None:
    uniform = ASSIGNORS["uniform"]
    target = uniform(spec)
    assert max(loads(target)) - min(loads(target)) <= 1

    one = next(iter(spec.members.values()))
    joined = uniform(again(spec, target, z=one._replace(instance_id=None)))
    assert moves(target, joined) == sum(map(len, joined["z"].values()))
    assert max(loads(joined)) - min(loads(joined)) <= 1

    left = uniform(again(spec, target, **{next(iter(spec.members)): None}))
    assert moves(target, left) == 0


def check_no_move_would_help(spec: GroupSpec, target: Assignment) -> None:
    size = {member_id: sum(map(len, mine.values())) for member_id, mine in target.items()}
    for (topic_id, _), owner in owners(target).items():
        for other, one in spec.members.items():
            if topic_id in one.topic_ids:
                assert size[owner] - size[other] <= 1


@pytest.mark.slow
@given(spec=groups(mixed=True))
@settings(max_examples=60)
def test_uniform_leaves_no_topic_where_one_move_would_help(spec: GroupSpec) -> None:
    check_no_move_would_help(spec, ASSIGNORS["uniform"](spec))


def test_uniform_comes_back_to_a_topic_when_another_one_has_moved() -> None:
    """a takes one partition of b's topic, and can take a second once it has given c its own."""
    spec = GroupSpec(
        {"a": member(0, 1), "b": member(1, assigned={1: {0, 1, 2, 3}}), "c": member(0)},
        {topic(0): 1, topic(1): 4},
    )
    target = ASSIGNORS["uniform"](spec)
    check_owners(spec, target)
    check_no_move_would_help(spec, target)


def test_uniform_takes_from_the_next_member_if_the_fullest_owns_nothing_of_the_topic() -> None:
    spec = GroupSpec(
        {"a": member(0), "b": member(0, assigned={0: {0, 1}}), "c": member(0, 1)},
        {topic(0): 2, topic(1): 2},
    )
    target = ASSIGNORS["uniform"](spec)
    check_owners(spec, target)
    check_no_move_would_help(spec, target)


def test_uniform_revokes_what_is_no_longer_wanted_or_there() -> None:
    spec = GroupSpec(
        {"a": member(1, assigned={1: {0, 1, 9}, 2: {0}}), "b": member(1, assigned={1: {1, 2}})},
        {topic(1): 4},
    )
    assert ASSIGNORS["uniform"](spec) == {
        "a": {topic(1): frozenset({0, 1})},
        "b": {topic(1): frozenset({2, 3})},
    }


def test_range_cuts_equal_topics_alike_and_serves_static_members_first() -> None:
    spec = GroupSpec(
        {
            "a": member(1, 2),
            "b": member(1, 2, instance_id="z"),
            "c": member(1, 2, instance_id="y"),
        },
        {topic(1): 4, topic(2): 4},
    )
    parts = {"c": frozenset({0, 1}), "b": frozenset({2}), "a": frozenset({3})}
    assert ASSIGNORS["range"](spec) == {
        member_id: {topic(1): some, topic(2): some} for member_id, some in parts.items()
    }


def line_of(name: str, spec: GroupSpec) -> str:
    def text(some: Assignment | dict[str, dict[bytes, frozenset[int]]], member_id: str) -> str:
        return ",".join(
            f"{int.from_bytes(topic_id, 'big')}:{'.'.join(map(str, sorted(partitions)))}"
            for topic_id, partitions in sorted(some[member_id].items())
        )

    had = {member_id: dict(one.assigned) for member_id, one in spec.members.items()}
    counts = ",".join(f"{int.from_bytes(t, 'big')}:{count}" for t, count in spec.topics.items())
    members = [
        f"{member_id};{one.instance_id or '-'};"
        f"{','.join(str(int.from_bytes(t, 'big')) for t in sorted(one.topic_ids))};"
        f"{text(had, member_id)}"
        for member_id, one in sorted(spec.members.items())
    ]
    return "\t".join(["assign", name, counts, *members])


def answer_line(target: Assignment) -> str:
    return "\t".join(
        f"{member_id};"
        + ",".join(
            f"{int.from_bytes(topic_id, 'big')}:{'.'.join(map(str, sorted(partitions)))}"
            for topic_id, partitions in sorted(mine.items())
        )
        for member_id, mine in sorted(target.items())
    )


def random_group(rng: random.Random) -> GroupSpec:
    """Larger ones than Hypothesis likes to make; `assigned` always was somebody's target."""
    counts = {number: rng.choice([1, 2, 3, 7, 12, 15]) for number in range(rng.randint(1, 8))}
    names = [f"m{number:02}" for number in range(rng.randint(1, 14))]
    mixed = rng.random() < 0.6
    same = rng.sample(sorted(counts), rng.randint(1, len(counts)))
    members = {}
    had: dict[str, dict[int, set[int]]] = {name: {} for name in names}
    keep = rng.choice([0.0, 0.5, 0.95, 1.0])
    favourite = rng.sample(names, rng.randint(1, len(names)))
    for number, count in counts.items():
        for partition in range(count):
            if rng.random() < keep:
                had[rng.choice(favourite)].setdefault(number, set()).add(partition)
    for name in names:
        wanted = rng.sample(sorted(counts), rng.randint(1, len(counts))) if mixed else same
        instance_id = rng.choice([None, None, f"i{rng.randint(0, 99):02}{name}"])
        members[name] = member(*wanted, assigned=had[name], instance_id=instance_id)
    return GroupSpec(members, {topic(number): count for number, count in counts.items()})


@pytest.mark.java
@pytest.mark.slow
def test_the_answers_are_kafkas() -> None:
    rng = random.Random(848)
    specs = [random_group(rng) for _ in range(1_500)]
    asked = [(name, spec) for spec in specs for name in ASSIGNORS]
    lines = "\n".join(line_of(name, spec) for name, spec in asked)
    answers = run_program("4.3.1", "Assignors", stdin=lines.encode()).stdout.splitlines()
    for (name, spec), answer in zip(asked, answers, strict=True):
        assert answer_line(ASSIGNORS[name](spec)) == answer, line_of(name, spec)
