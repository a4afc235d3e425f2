"""The ids that the coordinator gives to members."""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from uuid import UUID

_UUID_BYTES = 16


class MemberIds:
    """Draws ids that nobody else has; `randbytes` is given, so that a run can be repeated."""

    def __init__(self, randbytes: Callable[[int], bytes]) -> None:
        self._randbytes = randbytes

    def classic(self, prefix: str) -> str:
        """For a member of a classic group: its client id, or its instance id, and a UUID."""
        return f"{prefix}-{UUID(bytes=self._randbytes(_UUID_BYTES), version=4)}"

    def consumer(self) -> str:
        """For a member of a consumer group whose client draws none itself: Kafka's short form."""
        drawn = UUID(bytes=self._randbytes(_UUID_BYTES), version=4).bytes
        text = urlsafe_b64encode(drawn).rstrip(b"=").decode()
        return self.consumer() if text.startswith("-") else text
