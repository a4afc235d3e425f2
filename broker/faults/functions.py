"""Functions that compute the fields of an answer, for tests in the process of the broker.

A function can't go through the admin API, but its name here can: the fixture registers it, and
gives the rule `{"odradek.function": name}` as its answer.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.protocol.schema import Message

AnswerFunction = Callable[[Message, Message], Mapping[str, Any]]
"""The fields to set in a response; gets the request and the response."""

NAME_FIELD: Final = "odradek.function"
_registered: Final[dict[str, AnswerFunction]] = {}
_numbers: Final = itertools.count(1)


def register(function: AnswerFunction) -> dict[str, str]:
    """Make a function known in this process; returns the answer of a rule that uses it."""
    name = str(next(_numbers))
    _registered[name] = function
    return {NAME_FIELD: name}


def forget(answer: Mapping[str, str]) -> None:
    """The end of what `register` has begun; rules that use the function keep it."""
    _registered.pop(answer[NAME_FIELD], None)


def registered(answer: Mapping[str, Any]) -> AnswerFunction | None:
    """The function of a rule's answer, if it names one that is known here."""
    return _registered.get(str(answer[NAME_FIELD])) if list(answer) == [NAME_FIELD] else None
