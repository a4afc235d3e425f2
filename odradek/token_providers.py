"""Tokens of OAUTHBEARER, as each client asks for them; for tests, unsecured ones."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from .broker.tokens.unsecured import Login


def new_token(user: str) -> str:
    """A token that says that its owner is this user, and that nobody signs; it lasts an hour."""
    login = Login.of({"unsecuredLoginStringClaim_sub": user})
    return login.token(int(time.time() * 1000))


def for_kafka_python(next_token: Callable[[], str], extensions: Mapping[str, str] = {}) -> object:
    """What a client of kafka-python asks for tokens."""
    try:
        from kafka.net.sasl.oauth import AbstractTokenProvider
    except ImportError:  # before 3.0
        from kafka.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return next_token()

        def extensions(self) -> dict[str, str]:
            return dict(extensions)

    return Provider()


def for_aiokafka(next_token: Callable[[], str]) -> object:
    """What a client of aiokafka asks for tokens."""
    from aiokafka.abc import AbstractTokenProvider

    async def token(_: Any) -> str:
        return await asyncio.to_thread(next_token)  # it may ask an identity provider

    return type("TokenProvider", (AbstractTokenProvider,), {"token": token})()
