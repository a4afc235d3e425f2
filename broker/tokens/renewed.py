"""A broker's own token from an identity provider, which is renewed before it ends.

A login takes the token that is there; it waits only for the first one, or if the last one has
ended.  Many logins that wait share one request, and its failure.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from ..runtime import Clock
from .client_credentials import OwnToken, TokenRefused
from .http_exchange import FetchFailed
from .renewal import AGAIN_AFTER_MS, Retries, Window

logger = logging.getLogger(__name__)

_SLEEP_MS_MAX: Final = 60_000
"""A machine may sleep, and its clock be set: the time is looked at again."""


class Renewals(NamedTuple):
    """When a token is renewed, and how often that is tried."""

    window: Window
    retries: Retries


class RenewedToken:
    """The token of one listener."""

    def __init__(
        self,
        shown: str,
        fetch: Callable[[], Awaitable[OwnToken]],
        renewals: Renewals,
        clock: Clock,
        random: Callable[[], float],
    ) -> None:
        """`shown` names the endpoint in messages; `fetch` raises FetchFailed, TokenRefused."""
        self.shown = shown
        self._fetch = fetch
        self._renewals = renewals
        self._clock = clock
        self._random = random
        self._token: OwnToken | None = None
        self._renew_at_ms = clock.wall_ms()
        self._failure: FetchFailed | None = None
        self._failed_at_ms = 0
        self._renewing = asyncio.Lock()

    async def current(self) -> str:
        """A token for a login.  Raises: FetchFailed."""
        if self._is_over():
            async with self._renewing:
                if self._is_over():
                    self._check_failure()
                    return (await self._renew()).text
        assert self._token is not None
        return self._token.text

    async def renew_forever(self) -> None:
        """Renew the token when it is time, or after a failure."""
        while True:
            left_ms = self._renew_at_ms - self._clock.wall_ms()
            if left_ms > 0:
                await asyncio.sleep(min(left_ms, _SLEEP_MS_MAX) / 1000)
                continue
            async with self._renewing:
                if self._renew_at_ms <= self._clock.wall_ms():  # no login has done it
                    await self._renew_or_complain()

    def _is_over(self) -> bool:
        return self._token is None or self._token.expires_ms <= self._clock.wall_ms()

    def _check_failure(self) -> None:
        """Raise the last failure again while it is fresh."""
        if self._failure is not None and self._clock.now_ms() - self._failed_at_ms < AGAIN_AFTER_MS:
            raise FetchFailed(str(self._failure))

    async def _renew_or_complain(self) -> None:
        try:
            await self._renew()
        except FetchFailed as error:
            logger.warning(
                "token not renewed endpoint=%s error=%s again_in_ms=%d",
                self.shown,
                error,
                AGAIN_AFTER_MS,
            )

    async def _renew(self) -> OwnToken:
        """Get another token, with retries.  Raises: FetchFailed."""
        try:
            token = await self._fetched()
        except FetchFailed as error:
            self._failure, self._failed_at_ms = error, self._clock.now_ms()
            self._renew_at_ms = self._clock.wall_ms() + AGAIN_AFTER_MS
            raise
        now_ms = self._clock.wall_ms()
        self._failure, self._token = None, token
        self._renew_at_ms = self._renewals.window.renew_at_ms(
            token.issued_ms, token.expires_ms, now_ms, self._random()
        )
        logger.info(
            "token renewed endpoint=%s user=%r lasts_ms=%d renewed_in_ms=%d",
            self.shown,
            token.user,
            token.expires_ms - now_ms,
            self._renew_at_ms - now_ms,
        )
        return token

    async def _fetched(self) -> OwnToken:
        begun_ms, tries = self._clock.now_ms(), 0
        while True:
            try:
                return await self._fetch()
            except TokenRefused:
                raise
            except FetchFailed:
                tries += 1
                spent_ms = self._clock.now_ms() - begun_ms
                pause_ms = self._renewals.retries.pause_after_ms(tries, spent_ms)
                if pause_ms is None:
                    raise
            await asyncio.sleep(pause_ms / 1000)
