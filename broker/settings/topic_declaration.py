"""How a setting of a topic is declared.

Each has a broker's setting (or several, the finest unit first) from which it takes its value unless
the topic sets its own.  A topic's own settings are kept as the texts that a client sent, and read
into a `TopicConfig` once, when they change.

What a setting does:
    BUILT    it has its effect
    STORED   many clients set it, so any legal value is taken, kept and shown; a warning says that
             it is not applied yet
    DEFAULT  anything but the broker's value is refused: taking it would promise too much
"""

from collections.abc import Callable
from typing import Final

from .declaration import Kind, Setting, T_co, Value

BUILT: Final = "built"
STORED: Final = "stored"
DEFAULT: Final = "default"

Synonyms = tuple[tuple[str, int], ...]
"""Settings of the broker, the first that is set counts; and by what its value is multiplied."""


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
        """`default` is the value if the broker's settings are at theirs."""
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
    """What is allowed, if `text` is no list of replicas to throttle."""
    pairs = (item.strip().split(":") for item in text.split(",")) if text not in ("", "*") else ()
    if all(len(pair) == 2 and pair[0].isdecimal() and pair[1].isdecimal() for pair in pairs):
        return None
    return "* or a list of PARTITION:BROKER"
