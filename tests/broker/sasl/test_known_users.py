"""What an absent user of SCRAM seems to have: nothing that would tell that it is absent."""

import re
from collections import Counter

import pytest

from odradek.broker.sasl.known_users import KnownUsers, Shape, random_text
from odradek.broker.sasl.scram import SHA_256, SHA_512, Credential

ABSENT = [f"absent-{number}" for number in range(1_000)]
TEXT = b"1k0s9vq2m8h5d7c3x4z6a0bnw"


def credential(iterations: int = 4096, salt: bytes = TEXT) -> Credential:
    return Credential(salt, b"stored", b"server", iterations)


def users_with(counts: dict[Shape, int]) -> KnownUsers:
    users = KnownUsers()
    for shape, count in counts.items():
        for number in range(count):
            salt = bytes(shape.salt_size_bytes) or TEXT
            users.put(f"{shape}-{number}", credential(shape.iterations, salt))
    return users


def fakes_of(users: KnownUsers, secret: bytes = b"secret") -> list[Credential]:
    return [users.fake(SHA_256, secret, name) for name in ABSENT]


def test_without_users_it_is_what_kafka_s_admin_clients_make() -> None:
    fakes = fakes_of(KnownUsers())
    assert {fake.iterations for fake in fakes} == {4096}
    assert all(re.fullmatch(rb"[0-9a-z]{22,26}", fake.salt) for fake in fakes)
    assert len({fake.salt for fake in fakes}) == len(ABSENT)


def test_it_depends_on_name_mechanism_and_secret_alone() -> None:
    users = KnownUsers()
    fake = users.fake(SHA_256, b"secret", "eve")
    assert users.fake(SHA_256, b"secret", "eve") == fake
    others = [
        users.fake(SHA_512, b"secret", "eve"),
        users.fake(SHA_256, b"other", "eve"),
        users.fake(SHA_256, b"secret", "eva"),
    ]
    assert len({fake.salt, *(other.salt for other in others)}) == 4


def test_each_shape_is_as_frequent_as_among_the_users() -> None:
    counts = {Shape(4096, 0): 50, Shape(8192, 0): 30, Shape(16384, 64): 20}
    found = Counter(Shape.of(fake) for fake in fakes_of(users_with(counts)))
    assert found.keys() == counts.keys()
    for shape, count in counts.items():
        assert abs(found[shape] - 10 * count) < 60, shape


@pytest.mark.slow
def test_it_stays_when_users_come_and_go_and_otherwise_looks_like_a_new_password() -> None:
    users = users_with({Shape(4096, 0): 50, Shape(8192, 0): 50})
    before = fakes_of(users)
    users.put("another", credential(8192))
    after = fakes_of(users)
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) < 20
    assert all(old.salt != new.salt for old, new in changed)
    users.put("another", None)
    assert fakes_of(users) == before


def test_a_shape_goes_with_its_last_user() -> None:
    users = KnownUsers()
    assert users.put("alice", credential(8192))
    assert not users.put("alice", credential(8192))
    assert {fake.iterations for fake in fakes_of(users)} == {8192}
    assert users.put("alice", None)
    assert not users.put("alice", None)
    assert {fake.iterations for fake in fakes_of(users)} == {4096}


def test_random_texts_are_those_of_kafka() -> None:
    assert random_text(0) == "0"
    assert random_text(35) == "z"
    assert random_text(36) == "10"
    assert len(random_text((1 << 130) - 1)) == 26
