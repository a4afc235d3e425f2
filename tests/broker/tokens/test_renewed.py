"""A broker's own token over its life: the first one, renewals, and failures of these."""

import asyncio

import pytest

from odradek.broker.runtime import Clock
from odradek.broker.tokens.client_credentials import OwnToken, TokenRefused
from odradek.broker.tokens.http_exchange import FetchFailed
from odradek.broker.tokens.renewal import AGAIN_AFTER_MS, Retries, Window
from odradek.broker.tokens.renewed import Renewals, RenewedToken
from tests.support.awaiting import in_background, in_loop, pass_over, turns

LASTS_S = 1000
RENEWALS = Renewals(Window(0.8, 0.0, 0, 0), Retries(100, 0))
AWAY = FetchFailed("answers with status 503")


class LoopClock(Clock):
    """The loop's, which a test lets jump."""

    def now_ms(self) -> int:
        return round(asyncio.get_running_loop().time() * 1000)

    def wall_ms(self) -> int:
        return self.now_ms()


class Endpoint:
    """What answers: failures, or else tokens that are counted."""

    def __init__(self, *failures: FetchFailed) -> None:
        self.failures = list(failures)
        self.count = 0
        self.clock = LoopClock()

    async def fetch(self) -> OwnToken:
        self.count += 1
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        now_ms = self.clock.wall_ms()
        return OwnToken(f"token {self.count}", "broker", now_ms, now_ms + 1000 * LASTS_S)

    def token(self, renewals: Renewals = RENEWALS) -> RenewedToken:
        return RenewedToken("URL", self.fetch, renewals, self.clock, lambda: 0.0)


@in_loop
async def test_many_logins_share_one_request() -> None:
    endpoint = Endpoint()
    token = endpoint.token()
    found = await asyncio.gather(*(token.current() for _ in range(10)))
    assert found == ["token 1"] * 10
    assert endpoint.count == 1


@in_loop
async def test_a_token_is_renewed_before_it_ends() -> None:
    endpoint = Endpoint()
    token = endpoint.token()
    assert await token.current() == "token 1"
    async with in_background(token.renew_forever()):
        await pass_over(0.79 * LASTS_S)
        assert endpoint.count == 1
        await pass_over(0.02 * LASTS_S)
        assert endpoint.count == 2
        assert await token.current() == "token 2"
        await pass_over(0.81 * LASTS_S)
        assert await token.current() == "token 3"


@in_loop
async def test_a_login_renews_a_token_that_has_ended() -> None:
    """As after a machine has slept."""
    endpoint = Endpoint()
    token = endpoint.token()
    await token.current()
    await pass_over(LASTS_S)
    assert await token.current() == "token 2"


@in_loop
async def test_the_old_token_is_shown_while_there_is_no_new_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    endpoint = Endpoint()
    token = endpoint.token()
    await token.current()
    endpoint.failures = [AWAY] * 1000
    async with in_background(token.renew_forever()):
        await pass_over(0.9 * LASTS_S)
        assert "token not renewed endpoint=URL error=answers with status 503" in caplog.text
        assert await token.current() == "token 1"
        await pass_over(0.1 * LASTS_S)
        count = endpoint.count
        for _ in range(10):
            with pytest.raises(FetchFailed, match="answers with status 503"):
                await token.current()
        assert endpoint.count == count
        endpoint.failures.clear()
        await pass_over(AGAIN_AFTER_MS / 1000)
        assert endpoint.count == count + 1
        assert await token.current() == f"token {count + 1}"


@in_loop
async def test_a_failure_is_shared_for_a_while() -> None:
    endpoint = Endpoint(AWAY, AWAY)
    token = endpoint.token()
    found = await asyncio.gather(*(token.current() for _ in range(10)), return_exceptions=True)
    assert [str(each) for each in found] == [str(AWAY)] * 10
    assert endpoint.count == 1
    await pass_over(AGAIN_AFTER_MS / 1000)
    with pytest.raises(FetchFailed):
        await token.current()
    assert endpoint.count == 2


@in_loop
async def test_what_may_pass_is_tried_again() -> None:
    endpoint = Endpoint(AWAY, AWAY)
    token = endpoint.token(Renewals(RENEWALS.window, Retries(100_000, 1_000_000)))
    found = asyncio.ensure_future(token.current())
    for count in (1, 2, 3):
        await turns()
        assert endpoint.count == count
        await pass_over(90 * (1 << count - 1))
        assert endpoint.count == count, "the pauses grow"
        await pass_over(20 * (1 << count - 1))
    assert await found == "token 3"


@in_loop
async def test_what_will_not_pass_is_not() -> None:
    endpoint = Endpoint(TokenRefused("answers with status 401"))
    token = endpoint.token(Renewals(RENEWALS.window, Retries(100_000, 1_000_000)))
    with pytest.raises(TokenRefused):
        await token.current()
    assert endpoint.count == 1


@in_loop
async def test_a_login_that_gives_up_does_not_hold_up_others() -> None:
    endpoint = Endpoint()
    token = endpoint.token()
    first = asyncio.ensure_future(token.current())
    await asyncio.sleep(0)
    second = asyncio.ensure_future(token.current())
    first.cancel()
    assert await second == "token 2"
