"""The keys of an identity provider as a broker knows them: read at the start, and again and again.

Checking a token never waits for them. A token with an unknown key is refused, and the keys are read
again at once, though not more often than every `COOL_DOWN_MS`, as anybody can send such a token.
Source: RefreshingHttpsJwks in Kafka, whose limit of this kind is for each unknown key.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from ..settings.declaration import ConfigError
from .http_exchange import FetchFailed
from .keys import BadKeys, Keys, find_key, parse_keys

if TYPE_CHECKING:
    from jwt import PyJWK

logger = logging.getLogger(__name__)

COOL_DOWN_MS: Final = 10_000


class Pauses(NamedTuple):
    """How often keys are read; a refresh that fails is repeated, each time after a longer pause."""

    refresh_ms: int
    retry_ms: int
    retry_ms_max: int
    """After this time a refresh is given up until the next one."""


class RefreshedKeys:
    """The keys at one URL."""

    def __init__(
        self,
        url: str,
        fetch: Callable[[], Awaitable[bytes]],
        pauses: Pauses,
        now_ms: Callable[[], int],
    ) -> None:
        """`fetch` raises FetchFailed; `now_ms` is the monotonic clock."""
        self.url = url
        self._fetch = fetch
        self._pauses = pauses
        self._now_ms = now_ms
        self._keys: Keys = ()
        self._read_at_ms = 0
        self._is_wanted = asyncio.Event()

    def find(self, algorithm: str, key_id: object) -> "PyJWK | None":
        """The key that a token's header names; if it is unknown, the keys are soon read again."""
        found = find_key(self._keys, algorithm, key_id)
        is_new = isinstance(key_id, str) and all(key.key_id != key_id for key in self._keys)
        if found is None and is_new and self._now_ms() - self._read_at_ms >= COOL_DOWN_MS:
            self._is_wanted.set()
        return found

    async def read(self) -> None:
        """Read the keys; if that fails, those known so far stay.  Raises: FetchFailed, BadKeys."""
        self._read_at_ms = self._now_ms()
        self._keys = parse_keys(await self._fetch())
        logger.info("keys of tokens read url=%s count=%d", self.url, len(self._keys))

    async def read_first(self, listener_name: str) -> None:
        """Read the keys before a listener opens.  Raises: ConfigError."""
        try:
            await self.read()
        except (FetchFailed, BadKeys) as error:
            raise ConfigError(
                f"the keys for tokens on the listener {listener_name} cannot be read: {self.url} "
                f"{error}"
            ) from None

    async def refresh_forever(self) -> None:
        """Read the keys again when it is time, or an unknown one is asked for."""
        while True:
            await self._wait(self._pauses.refresh_ms)
            # What is asked for from now on is after this refresh.
            self._is_wanted.clear()
            await self._refresh()

    async def _wait(self, time_ms: int) -> None:
        try:
            async with asyncio.timeout(time_ms / 1000):
                await self._is_wanted.wait()
        except TimeoutError:
            pass

    async def _refresh(self) -> None:
        ends_ms = self._now_ms() + self._pauses.retry_ms_max
        pause_ms = self._pauses.retry_ms
        while True:
            try:
                await self.read()
                return
            except (FetchFailed, BadKeys) as error:
                if self._now_ms() + pause_ms > ends_ms:
                    logger.warning("keys of tokens not read url=%s error=%s", self.url, error)
                    return
            await asyncio.sleep(pause_ms / 1000)
            pause_ms *= 2
