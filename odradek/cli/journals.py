"""Asks coordinators for the journals that only Odradek's brokers keep."""

from collections.abc import Callable
from typing import TypeVar

from odradek.protocol.schema import Message

from .brokers import GROUP, BrokerHungUp, Brokers
from .errors import CommandError

Response = TypeVar("Response", bound=Message)


def ask_journal(
    brokers: Brokers,
    name: str,
    request: Message,
    response_type: type[Response],
    code_of: Callable[[Response], int],
    *,
    key_type: int = GROUP,
    kept_of: str,
) -> Response:
    """Ask the coordinator for a journal; `kept_of` names the kind: groups.  Raises: CommandError.

    The response may still have an error code.
    """
    try:
        return brokers.ask_coordinator(
            name, request, response_type, code_of, key_type=key_type, advertised=False
        )
    except BrokerHungUp as error:
        raise CommandError(
            f"only Odradek keeps a journal of its {kept_of}, and {name} is coordinated by a broker"
            " that does not"
        ) from error
