"""`TopicSetting`, the declaration of a topic setting.

Each has a broker setting (or several, the finest unit first) that gives its value unless the topic
sets its own.  A topic's own settings are stored as the texts that a client sent, and parsed into a
`TopicConfig` once, when they change.

The effect of a setting:
    BUILT    it has its effect
    STORED   many clients set it, so any valid value is accepted, stored and shown; a warning says
             that it is not applied yet
    DEFAULT  any value but the broker's is refused, as it would have no effect
"""

from collections.abc import Callable, Container
from typing import Final

from .declaration import INT32_MAX, Kind, Setting, T_co, Value

BUILT: Final = "built"
STORED: Final = "stored"
DEFAULT: Final = "default"

EVERY_REPLICA: Final = "*"

Synonyms = tuple[tuple[str, int], ...]
"""Settings of the broker, with factors for their values; the first one that is set counts."""


class TopicSetting(Setting[T_co]):
    """One setting of a topic."""

    __slots__ = ("effect", "synonyms")

    def __init__(
        self,
        name: str,
        kind: Kind[T_co],
        default: T_co,
        doc: str,
        *,
        synonyms: str | Synonyms = (),
        effect: str = BUILT,
        at_least: float | None = None,
        at_most: float | None = None,
        choices: tuple[str, ...] = (),
        built: tuple[Value, ...] = (),
        check: Callable[[str], str | None] | None = None,
    ) -> None:
        """`default`: the value if the broker's settings are not set."""
        super().__init__(
            name,
            kind,
            default,
            doc,
            at_least=at_least,
            at_most=at_most,
            choices=choices,
            built=built,
            check=check,
        )
        self.synonyms: Synonyms = ((synonyms, 1),) if isinstance(synonyms, str) else synonyms
        self.effect = effect


def throttled_replicas(text: str) -> str | None:
    """None if `text` is a valid list of replicas to throttle, or else what is allowed."""
    items = [item.strip() for item in text.split(",")]
    if "".join(items) == EVERY_REPLICA:
        return None
    pairs = (item.split(":") for item in items if item)
    if all(len(pair) == 2 and all(map(_is_number, pair)) for pair in pairs):
        return None
    return "* or a list of PARTITION:BROKER"


def _is_number(text: str) -> bool:
    digits_max = len(str(INT32_MAX))
    plain = text.isascii() and text.isdigit() and len(text) <= digits_max
    return plain and int(text) <= INT32_MAX


class _Every:
    """A container of all replicas of a topic."""

    def __contains__(self, replica: object) -> bool:
        return True


def replicas_of(items: tuple[str, ...]) -> Container[tuple[int, int]]:
    """The (partition, broker) pairs in a list of throttled replicas."""
    if EVERY_REPLICA in items:
        return _Every()
    pairs = (item.split(":") for item in items if item)
    return frozenset((int(partition), int(broker)) for partition, broker in pairs)
