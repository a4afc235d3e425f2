"""What a request's replay needs beside the entry in the journal: its bytes, and what it was given.

A client gets ids from the broker (of producers, members, fetch sessions) and sends them back. A
replay gets others, so it must know which of the recorded ones were answers to what.
"""

from dataclasses import dataclass, field
from typing import Final

from odradek.protocol.schema import Struct

GIVEN: Final = (
    "producer_id",
    "producer_epoch",
    "member_id",
    "generation_id",
    "member_epoch",
    "session_id",
)
"""The fields of responses that clients send back."""


@dataclass(slots=True, kw_only=True)
class Recording:
    """One request, and what its answer gave the client."""

    frame: bytes
    """Header and body, without the size before them."""
    topic_ids: dict[str, str] = field(default_factory=dict)
    """The names of the topics that it names by id; the ids in hexadecimal digits."""
    given: dict[str, int | str] = field(default_factory=dict)
    answered_before: int | None = None
    """The number of the last request that came before its answer was known; None: it is not."""


def given_by(response: Struct) -> dict[str, int | str]:
    """What a response gives the client."""
    return {name: getattr(response, name) for name in GIVEN if hasattr(response, name)}
