"""Encoding of the records of a coordinator's topic."""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

RecordT = TypeVar("RecordT")


class RecordCodec(NamedTuple, Generic[RecordT]):
    """From records to keys and values, and back."""

    encode: Callable[[RecordT], tuple[bytes, bytes | None]]
    """Raises: struct.error if a field can't be written."""
    decode: Callable[[bytes, bytes | None], RecordT | None]
    """None: a type of record that only newer brokers know.  Raises: MalformedMessage."""
