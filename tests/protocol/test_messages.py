"""Every declared message: what is encoded decodes to the same, and damaged bytes are named."""

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.broker.handlers import APIS
from odradek.protocol.errors import BadLength, MalformedMessage, Truncated, UnsupportedVersion
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.schema import Message

from .every_message import (
    layout,
    message_classes,
    message_versions,
    requests_and_responses,
    values,
)


def case(cls: type[Message], version: int) -> Any:
    """`make unit` takes the newest layout of each message: nearly every field is in it."""
    marks = [] if version == newest_layout(cls) else [pytest.mark.slow]
    return pytest.param(cls, version, id=f"{cls.__name__}-v{version}", marks=marks)


def newest_layout(cls: type[Message]) -> int:
    """The first version that is laid out as the last one."""
    version = cls.VERSIONS.last
    while version > cls.VERSIONS.first and layout(cls, version - 1) == layout(cls, version):
        version -= 1
    return version


each_version = pytest.mark.parametrize(
    ("cls", "version"), [case(cls, version) for cls, version in message_versions()]
)
# Hundreds of cases: a few examples of each while one works, more where everything is tested.
THOROUGH = bool(os.environ.get("ODRADEK_REQUIRE"))


def examples(few: int, many: int) -> settings:
    """How many examples of each case."""
    return settings(
        max_examples=many if THOROUGH else few,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@each_version
@given(data=st.data())
@examples(2, 4)
def test_what_is_encoded_decodes_to_the_same(
    cls: type[Message], version: int, data: st.DataObject
) -> None:
    message = data.draw(values(cls, version))
    encoded = memoryview(bytes(message.encode(version)))
    decoded, position = cls.decode(encoded, version)
    assert position == len(encoded)
    assert decoded == message


@each_version
@given(data=st.data())
@examples(1, 2)
def test_every_prefix_is_truncated(cls: type[Message], version: int, data: st.DataObject) -> None:
    encoded = bytes(data.draw(values(cls, version)).encode(version))
    for size in range(len(encoded)):
        with pytest.raises(Truncated):
            cls.decode(encoded[:size], version)


@pytest.mark.parametrize("cls", message_classes(), ids=lambda cls: cls.__name__)
@given(data=st.binary(max_size=300))
@examples(6, 10)
def test_random_bytes_are_malformed_or_a_message(cls: type[Message], data: bytes) -> None:
    for version in range(cls.VERSIONS.first, cls.VERSIONS.last + 1):
        try:
            decoded, position = cls.decode(data, version)
        except MalformedMessage:
            continue
        assert isinstance(decoded, cls), version
        assert 0 <= position <= len(data), version


def test_versions_outside_the_range_are_refused() -> None:
    accepted = [
        (cls.__name__, version)
        for cls in message_classes()
        for version in (cls.VERSIONS.first - 1, cls.VERSIONS.last + 1)
        if not (refuses(cls.decode, b"", version) and refuses(cls().encode, version))
    ]
    assert not accepted


def refuses(code: Callable[..., object], *arguments: object) -> bool:
    try:
        code(*arguments)
    except UnsupportedVersion:
        return True
    return False


def test_the_table_of_apis_agrees_with_the_messages() -> None:
    declared: dict[int, list[Any]] = {}
    for cls in requests_and_responses():
        never = cls.FLEXIBLE.last < cls.FLEXIBLE.first
        flexible = cls.VERSIONS.last + 1 if never else cls.FLEXIBLE.first
        declared.setdefault(cls.API_KEY, []).append((cls.VERSIONS, flexible))
    served = {api.key: [((api.first, api.last_of_v2), api.flexible)] * 2 for api in APIS.values()}
    assert declared == served


@pytest.mark.parametrize(
    ("version", "body"),
    [(0, b"\xff\xff"), (3, b"\0\0"), (0, b"\xff\xfe")],
    ids=["null", "null, flexible", "shorter than null"],
)
def test_null_is_refused_where_a_field_has_none(version: int, body: bytes) -> None:
    with pytest.raises(BadLength):
        FindCoordinatorRequest.decode(body, version)


def test_absent_fields_have_their_default_and_are_not_shared() -> None:
    for cls in message_classes():
        first, second = cls(), cls()
        assert first == second
        for field in cls.FIELDS:
            if isinstance(getattr(first, field.name), list):
                assert getattr(first, field.name) is not getattr(second, field.name)
