"""What the hash of a recording is of: all that determines what Kafka answers, and nothing else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.apache import ApacheKafka, Kafka39, Kafka43
from tests.wire import talk, test_against_kafka, test_groups_against_kafka
from tests.wire.compactions import SCENARIOS
from tests.wire.fingerprint import fingerprint


def helper() -> int:
    return SECRET


def unrelated() -> int:
    return 2


SECRET = 1


def conversation(number: int) -> int:
    return helper() + number


@contextmanager
def opened() -> Iterator[int]:
    yield helper()


@cache
def known() -> int:
    return helper()


def twice(function: Callable[[], int]) -> Callable[[], int]:
    return lambda: 2 * function()


doubled = twice(helper)


class Kept:
    """Its body asks."""

    secret = helper()


class Heir(Kept):
    """Its base does."""


class Made:
    """An object of it is a constant; what it does is not seen in how it is shown."""

    def __repr__(self) -> str:
        return "Made()"

    def told(self) -> int:
        return helper()


MADE = Made()


def uses_opened() -> None:
    with opened():
        pass


def uses_known() -> int:
    return known()


def uses_doubled() -> int:
    return doubled()


def uses_heir() -> int:
    return Heir.secret


def uses_made() -> int:
    return MADE.told()


def by_default(number: int = helper()) -> int:
    return number


def uses_module() -> float:
    return talk.DEADLINE_S


def is_annotated(number: "Annotated") -> "Annotated":
    return number


Annotated = int


def imports() -> int:
    from tests.wire.talk import DEADLINE_S

    return int(DEADLINE_S)


def passes_a_module_on() -> object:
    return getattr(talk, "DEADLINE" + "_S")


def hides_nothing() -> int:
    """It has its helper from elsewhere, and only it."""
    from random import randint as helper

    return helper(1, 2)


def test_the_hash_is_of_all_that_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(partial(conversation, 1))
    assert fingerprint(partial(conversation, 1)) == before
    assert fingerprint(partial(conversation, 2)) != before
    monkeypatch.setitem(globals(), "unrelated", helper)
    assert fingerprint(partial(conversation, 1)) == before
    monkeypatch.setitem(globals(), "SECRET", 3)  # two calls away
    assert fingerprint(partial(conversation, 1)) != before


@pytest.mark.parametrize(
    "function",
    [uses_opened, opened, uses_known, uses_doubled, uses_heir, uses_made, MADE.told, by_default],
    ids=lambda function: function.__qualname__,
)
def test_the_hash_looks_into_what_is_decorated_inherited_and_made(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprint(function)
    monkeypatch.setitem(globals(), "SECRET", 3)
    assert fingerprint(function) != before


def test_the_hash_looks_into_other_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(uses_module)
    monkeypatch.setattr(talk, "DEADLINE_S", -1.0)
    assert fingerprint(uses_module) != before


def test_annotations_determine_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(is_annotated)
    monkeypatch.setitem(globals(), "Annotated", helper)
    assert fingerprint(is_annotated) == before


def test_what_cannot_be_looked_into_is_refused() -> None:
    class Local:
        """Its methods may use variables of this function."""

    for thing in (Local, imports, passes_a_module_on, object(), Path("/data")):
        with pytest.raises(TypeError, match=r"not followed|not found|can't be seen|not the same"):
            fingerprint(thing)


def test_the_hash_is_of_the_brokers_fixed_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    suite, other = test_against_kafka.ANSWERS, test_groups_against_kafka.CONSUMER_GROUPS
    (scenario, *_), says = SCENARIOS, uses_opened
    before = suite.fingerprint(says), other.fingerprint(says), scenario.hash
    changed = {**Kafka39.fixed, "zookeeper.session.timeout.ms": "1"}
    monkeypatch.setattr(Kafka39, "fixed", changed)
    now = suite.fingerprint(says), other.fingerprint(says), scenario.hash
    assert [a == b for a, b in zip(before, now, strict=True)] == [False, True, False]


@pytest.mark.java
@pytest.mark.parametrize("kind", [Kafka39, Kafka43])
def test_only_addresses_and_directories_are_no_fixed_settings(
    kind: type[ApacheKafka], tmp_path: Path
) -> None:
    given = kind(tmp_path, jvm_options=())._properties()
    more = set(given) - set(kind.fixed)
    addresses = {"listeners", "advertised.listeners", "controller.quorum.voters"}
    assert more <= {*addresses, "zookeeper.connect", "log.dirs"}
    assert {name: given[name] for name in kind.fixed} == kind.fixed
