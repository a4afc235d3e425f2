"""The member ids that the coordinator generates."""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from uuid import UUID

_UUID_BYTES = 16
_PREFIX_BYTES_MAX = 32_767 - len("-00000000-0000-0000-0000-000000000000")
"""The length of a string in a message is an int16."""


class MemberIds:
    """Generates unique ids; `randbytes` is a parameter, so that a run can be repeated."""

    def __init__(self, randbytes: Callable[[int], bytes]) -> None:
        self._randbytes = randbytes

    def classic(self, prefix: str) -> str:
        """An id for a member of a classic group: its client id or instance id, and a UUID.

        The name is truncated if the id would be too long for a message.
        """
        prefix = prefix.encode()[:_PREFIX_BYTES_MAX].decode(errors="ignore")
        return f"{prefix}-{UUID(bytes=self._randbytes(_UUID_BYTES), version=4)}"

    def consumer(self) -> str:
        """An id for a member of a consumer group that has none of its own: Kafka's short form."""
        drawn = UUID(bytes=self._randbytes(_UUID_BYTES), version=4).bytes
        text = urlsafe_b64encode(drawn).rstrip(b"=").decode()
        return self.consumer() if text.startswith("-") else text
