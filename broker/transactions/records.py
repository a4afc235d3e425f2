"""Encoding of the records of `__transaction_state`."""

from typing import Final

from odradek.protocol.transaction_records import decode_record, encode_record

from ..coordinators.codec import RecordCodec

TRANSACTION_RECORDS: Final = RecordCodec(encode_record, decode_record)
