"""Encoding of the records of `__consumer_offsets`."""

from typing import Final

from odradek.protocol.group_records import decode_record, encode_record

from ..coordinators.codec import RecordCodec

GROUP_RECORDS: Final = RecordCodec(encode_record, decode_record)
