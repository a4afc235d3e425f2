import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.core import topic_names
from odradek.protocol.errors import ErrorCode, Refused

LEGAL = string.ascii_letters + string.digits + "._-"


@pytest.mark.parametrize("name", ["a", "a.b", "a_b-C9", "...", "x" * 249, "__consumer_offsets"])
def test_legal_names(name: str) -> None:
    topic_names.check_topic_name(name)
    assert topic_names.is_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "٣", "a\0"])
def test_illegal_names(name: str) -> None:
    with pytest.raises(Refused) as refused:
        topic_names.check_topic_name(name)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not topic_names.is_topic_name(name)


@pytest.mark.slow
@given(st.text(max_size=260))
def test_only_legal_characters_pass(name: str) -> None:
    legal = 0 < len(name) <= 249 and set(name) <= set(LEGAL) and name not in (".", "..")
    assert topic_names.is_topic_name(name) is legal


def test_dot_and_underscore_collide() -> None:
    topics = ["plain", "a.b_c", "other_one"]
    with pytest.raises(Refused) as refused:
        topic_names.check_collision("a_b.c", topics)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "a.b_c" in str(refused.value)
    topic_names.check_collision("a.b_c", topics)  # itself: the caller says that it exists
    topic_names.check_collision("plain", topics)
    topic_names.check_collision("a.b_d", topics)


def test_internal_topics() -> None:
    assert topic_names.is_internal("__consumer_offsets")
    assert topic_names.is_internal("__transaction_state")
    assert not topic_names.is_internal("__mine")
