"""Ids that a broker gives to clients: in a replay, others than were recorded.

What was recorded in an answer and what the replay's answer has instead are learned as a pair, and
replaced in all later requests.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.records import iter_batches, set_producer
from odradek.protocol.schema import ArrayOf, Message, Struct

PRODUCERS: Final = (
    ("producer_id", "producer_epoch"),
    ("v3_and_below_producer_id", "v3_and_below_producer_epoch"),
)
GENERATIONS: Final = ("generation_id", "generation_id_or_member_epoch", "member_epoch")


class Ids:
    """The pairs that are known so far."""

    def __init__(self) -> None:
        self._producers: dict[int, int] = {}
        self._epochs: dict[tuple[int, int], int] = {}
        self._members: dict[str, str] = {}
        self._generations: dict[tuple[str, int], int] = {}
        self._sessions: dict[int, int] = {}
        self.topics: dict[bytes, bytes] = {}
        """Ids of topics."""

    def learn(self, request: Message, given: Mapping[str, Any], response: Message) -> None:
        """Note what the recorded answer gave, and what this one gives in its place."""
        if given.get("producer_id", -1) >= 0 and _of(response, "producer_id", -1) >= 0:
            pair = given["producer_id"], given["producer_epoch"]
            self._producers[pair[0]] = _of(response, "producer_id", -1)
            self._epochs[pair] = _of(response, "producer_epoch", 0)
        if given.get("member_id") and _of(response, "member_id", ""):
            self._members[given["member_id"]] = _of(response, "member_id", "")
        group = getattr(request, "group_id", "")
        for name in ("generation_id", "member_epoch"):
            if given.get(name, -1) >= 0 and _of(response, name, -1) >= 0:
                self._generations[group, given[name]] = _of(response, name, -1)
        if given.get("session_id"):
            self._sessions[given["session_id"]] = _of(response, "session_id", 0)

    def replace(self, request: Message) -> None:
        """Put in the ids of the replay for the recorded ones.

        Leader epochs that a client expects are left out: those of another cluster are others.
        """
        self._replace(request, getattr(request, "group_id", ""))

    def _replace(self, struct: Struct, group: str) -> None:
        for producer_id, epoch in PRODUCERS:
            if hasattr(struct, producer_id) and hasattr(struct, epoch):
                new = self._producer(getattr(struct, producer_id), getattr(struct, epoch))
                setattr(struct, producer_id, new[0])
                setattr(struct, epoch, new[1])
        group = getattr(struct, "group_id", group)
        for field in struct.FIELDS:
            value = getattr(struct, field.name)
            if isinstance(value, Struct):
                self._replace(value, group)
            elif isinstance(field.type, ArrayOf):
                for element in value or ():
                    if isinstance(element, Struct):
                        self._replace(element, group)
            elif field.type == "records" and value is not None:
                setattr(struct, field.name, self._batches(bytearray(value)))
            else:
                setattr(struct, field.name, self._value(field.name, value, group))

    def _value(self, name: str, value: Any, group: str) -> Any:
        if name in GENERATIONS:
            return self._generations.get((group, value), value)
        if name == "member_id":
            return self._members.get(value, value)
        if name == "session_id":
            return self._sessions.get(value, value)
        if name == "topic_id":
            return self.topics.get(value, value)
        return -1 if name == "current_leader_epoch" else value

    def _producer(self, producer_id: int, epoch: int) -> tuple[int, int]:
        return (
            self._producers.get(producer_id, producer_id),
            self._epochs.get((producer_id, epoch), epoch),
        )

    def _batches(self, records: bytearray) -> bytes:
        """The batches with the producer's new id and epoch, and new checksums.

        What is no batch of format v2 stays: it has no producer, or is meant to be refused.
        """
        with suppress(MalformedMessage):
            self._replace_in_batches(records)
        return bytes(records)

    def _replace_in_batches(self, records: bytearray) -> None:
        for position, header in iter_batches(records):
            if header.producer_id not in self._producers:
                continue
            batch = memoryview(records)[position : position + header.size_bytes]
            set_producer(batch, *self._producer(header.producer_id, header.producer_epoch))


def _of(response: Message, name: str, otherwise: Any) -> Any:
    """A field of a response, if this API has it."""
    return getattr(response, name, otherwise)
