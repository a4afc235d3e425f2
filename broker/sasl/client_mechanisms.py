"""The client side of a mechanism with a password, by the mechanism's name."""

from collections.abc import Callable
from functools import partial

from . import plain, scram
from .client import ClientMechanism
from .client_plain import PlainClient
from .client_scram import Password, ScramClient


def logins_of(
    mechanism: str, user: str, password: str, new_nonce: Callable[[], str]
) -> Callable[[], ClientMechanism]:
    """What begins a login; its SCRAM password is stretched once for all of them.

    `new_nonce` returns a text that nobody can guess.  Raises: KeyError for another mechanism.
    """
    if mechanism == plain.NAME:
        return partial(PlainClient, user, password)
    return partial(ScramClient, Password(scram.MECHANISMS[mechanism], user, password), new_nonce)
