"""Unsecured tokens of OAUTHBEARER for the clients of tests, as each client asks for them."""

import time
from typing import Any

from .broker.tokens.unsecured import Login


def unsecured_login(user: str) -> Login:
    """Tokens that say that their owner is this user, and that nobody signs."""
    return Login.of({"unsecuredLoginStringClaim_sub": user})


def new_token(user: str) -> str:
    """Such a token, which lasts an hour."""
    return unsecured_login(user).token(int(time.time() * 1000))


def for_kafka_python(user: str) -> object:
    """What a client of kafka-python asks for tokens."""
    try:
        from kafka.net.sasl.oauth import AbstractTokenProvider
    except ImportError:  # before 3.0
        from kafka.sasl.oauth import AbstractTokenProvider

    def token(_: Any) -> str:
        return new_token(user)

    return type("UnsecuredTokens", (AbstractTokenProvider,), {"token": token})()


def for_aiokafka(user: str) -> object:
    """What a client of aiokafka asks for tokens."""
    from aiokafka.abc import AbstractTokenProvider

    async def token(_: Any) -> str:
        return new_token(user)

    return type("UnsecuredTokens", (AbstractTokenProvider,), {"token": token})()
