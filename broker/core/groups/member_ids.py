"""The ids that the coordinator gives to members."""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from uuid import UUID

_UUID_BYTES = 16
_PREFIX_BYTES_MAX = 32_767 - len("-00000000-0000-0000-0000-000000000000")
"""The longest string that a message can carry is an int16 long."""


class MemberIds:
    """Draws ids that nobody else has; `randbytes` is given, so that a run can be repeated."""

    def __init__(self, randbytes: Callable[[int], bytes]) -> None:
        self._randbytes = randbytes

    def classic(self, prefix: str) -> str:
        """For a member of a classic group: its client id, or its instance id, and a UUID.

        Of a name that is so long that no message could carry the id, the beginning has to do.
        """
        prefix = prefix.encode()[:_PREFIX_BYTES_MAX].decode(errors="ignore")
        return f"{prefix}-{UUID(bytes=self._randbytes(_UUID_BYTES), version=4)}"

    def consumer(self) -> str:
        """For a member of a consumer group whose client draws none itself: Kafka's short form."""
        drawn = UUID(bytes=self._randbytes(_UUID_BYTES), version=4).bytes
        text = urlsafe_b64encode(drawn).rstrip(b"=").decode()
        return self.consumer() if text.startswith("-") else text
