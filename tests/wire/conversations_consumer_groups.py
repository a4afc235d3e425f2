"""Consumer groups (KIP-848)."""

from collections.abc import Callable

from tests.wire.group_talk import GroupTalk

CONVERSATIONS: tuple[Callable[[GroupTalk], None], ...] = ()
