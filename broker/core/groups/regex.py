"""SubscribedTopicRegex: which topics a pattern of a peer means (KIP-848).

RE2 is Kafka's dialect too, and it runs in linear time. What is left to bound is the size of the
program that a short pattern can unfold to, and the memory that matching may take.

re2 is imported on first use: most brokers never see a pattern.
"""

from typing import Final, Protocol

from odradek.protocol.errors import ErrorCode, Refused

PATTERN_SIZE_MAX: Final = 32_768
"""Characters; room for the names of more than a hundred topics."""

MEMORY_MAX: Final = 512 * 1024
"""Bytes of one compiled pattern; matching one topic name then takes 3 ms at the very worst."""


class Pattern(Protocol):
    """A compiled pattern."""

    @property
    def programsize(self) -> int:
        """How many instructions it has: what matching a character takes at the worst."""

    def fullmatch(self, text: str) -> object | None:
        """Not None if the whole text matches."""


def compile_pattern(text: str) -> Pattern:
    """Compile a peer's pattern.  Raises: Refused (INVALID_REGULAR_EXPRESSION)."""
    import re2

    if len(text) > PATTERN_SIZE_MAX:
        raise _refused(text, f"longer than {PATTERN_SIZE_MAX} characters")
    options = re2.Options()
    options.log_errors = False  # to stderr, past all logging
    options.never_capture = True
    options.max_mem = MEMORY_MAX
    try:
        pattern: Pattern = re2.compile(text, options)
    except re2.error as error:
        raise _refused(text, error.args[0].decode(errors="replace")) from None
    except UnicodeEncodeError:
        raise _refused(ascii(text), "not Unicode") from None
    finally:
        re2.purge()  # it would keep the last 128 programs, however large
    return pattern


def _refused(text: str, why: str) -> Refused:
    return Refused(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{text[:200]}` cannot be used: {why[:200]}.",
    )
