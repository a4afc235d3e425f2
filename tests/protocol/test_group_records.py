"""Records of `__consumer_offsets` as bytes: what Kafka writes, and what cannot be read."""

import pytest

from odradek.protocol.errors import MalformedMessage, UnsupportedVersion
from odradek.protocol.group_records import (
    GroupRecord,
    classic,
    consumer,
    decode_record,
    encode_record,
)

COMMIT = GroupRecord(
    classic.OffsetCommitKey(group="g", topic="t", partition=3),
    classic.OffsetCommitValue(offset=7, leader_epoch=2, metadata="m", commit_timestamp=9),
)


def test_an_offset_is_written_as_kafka_writes_it() -> None:
    key, value = encode_record(COMMIT)
    assert key.hex() == "0001" + "000167" + "000174" + "00000003"
    assert value is not None
    assert value.hex() == "0003" + f"{7:016x}" + "00000002" + "00016d" + f"{9:016x}"
    assert decode_record(key, value) == COMMIT


def test_a_tombstone_has_no_value() -> None:
    gone = GroupRecord(classic.GroupMetadataKey(group="g"), None)
    key, value = encode_record(gone)
    assert (key.hex(), value) == ("0002" + "000167", None)
    assert decode_record(key, value) == gone


def test_the_oldest_form_of_an_offset_key_is_read() -> None:
    key, value = encode_record(COMMIT)
    assert decode_record(b"\0\0" + key[2:], value) == COMMIT


def test_an_unknown_type_is_left_alone() -> None:
    assert decode_record((999).to_bytes(2, "big") + b"whatever", b"") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"", b""), (b"\0", None), (b"\0\1\0", b""), (b"\0\2\0\1gg", None), (b"\0\2\0\1g", b"\0")],
)
def test_broken_bytes_are_malformed(key: bytes, value: bytes | None) -> None:
    with pytest.raises(MalformedMessage):
        decode_record(key, value)


def test_a_value_of_a_newer_version_is_refused() -> None:
    with pytest.raises(UnsupportedVersion):
        decode_record(b"\0\2\0\1g", b"\0\x63")


def test_a_member_without_classic_metadata_is_read_as_kafka_writes_it() -> None:
    # As Kafka 4.3.1 wrote it: the tagged struct is there, and null.
    key = bytes.fromhex("000500046f672d3100036e6577")
    value = bytes.fromhex(
        "00000000076d6f6465726e0b2f3132372e302e302e3102037430010000ea600001000100"
    )
    record = decode_record(key, value)
    assert record is not None
    assert isinstance(record.value, consumer.ConsumerGroupMemberMetadataValue)
    assert record.value.classic_member_metadata is None
    assert record.value.subscribed_topic_names == ["t0"]
