"""Compiles SubscribedTopicRegex, the patterns of topic names that clients send (KIP-848).

Kafka also uses RE2, which matches in linear time. The broker must still limit the size of the
program that a short pattern can expand to, and the memory that matching takes.

re2 is imported on first use: most brokers never see a pattern.
"""

from typing import Final, Protocol

from odradek.protocol.errors import ErrorCode, Refused

PATTERN_SIZE_MAX: Final = 32_768
"""In characters; enough for the names of more than a hundred topics."""

MEMORY_MAX: Final = 512 * 1024
"""In bytes, for one compiled pattern; matching one topic name then takes 3 ms at most."""


class Pattern(Protocol):
    """A compiled pattern."""

    @property
    def programsize(self) -> int:
        """The number of instructions: the most that matching one character takes."""

    def fullmatch(self, text: str) -> object | None:
        """Match the whole text; None if it does not match."""


def compile_pattern(text: str) -> Pattern:
    """Compile a client's pattern.  Raises: Refused (INVALID_REGULAR_EXPRESSION)."""
    import re2

    if len(text) > PATTERN_SIZE_MAX:
        raise _refused(text, f"longer than {PATTERN_SIZE_MAX} characters")
    options = re2.Options()
    options.log_errors = False  # they would go to stderr, bypassing the logs
    options.never_capture = True
    options.max_mem = MEMORY_MAX
    try:
        pattern: Pattern = re2.compile(text, options)
    except re2.error as error:
        raise _refused(text, error.args[0].decode(errors="replace")) from None
    except UnicodeEncodeError:
        raise _refused(ascii(text), "not Unicode") from None
    finally:
        re2.purge()  # re2 would cache the last 128 programs, whatever their size
    return pattern


def _refused(text: str, why: str) -> Refused:
    return Refused(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{text[:200]}` cannot be used: {why[:200]}.",
    )
