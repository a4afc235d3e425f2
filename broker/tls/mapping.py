"""`ssl.principal.mapping.rules`: from the subject of a certificate to the name of a user.

The rules are `DEFAULT` (the subject as it is) and `RULE:pattern/replacement/` with an optional L or
U for lower or upper case, with commas between them. The first rule whose pattern matches the whole
subject decides. As in Kafka, the replacement then takes the place of every match in the subject,
and `$1` in it stands for a group.

Clients choose their subjects, so patterns are matched in linear time, by re2. It has no look-around
and no back-references in patterns.

Source: org.apache.kafka.common.security.ssl.SslPrincipalMapper.
"""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

RULES: Final = "ssl.principal.mapping.rules"
_PART: Final = r"(?:\\.|[^\\/])*"
_RULE: Final = re.compile(rf"(DEFAULT)|RULE:({_PART})/({_PART})/([LU]?)")
_GAP: Final = re.compile(r"\s*,\s*")
_PIECE: Final = re.compile(r"\\(.)|\$(\d+)|([^\\$]+)", re.DOTALL)
_AS_IT_IS: Final[dict[str, Callable[[str], str]]] = {"": str, "L": str.lower, "U": str.upper}


class BadRules(ValueError):
    """The rules can't be used; the text is the end of a sentence."""


class NoRuleFits(Exception):
    """No rule matches the subject."""


class _Rule(NamedTuple):
    pattern: Any  # compiled by re2, which has no types
    pieces: tuple[str | int, ...]
    """The replacement: texts, and numbers of groups."""
    change_case: Callable[[str], str]

    def apply(self, subject: str) -> str | None:
        if self.pattern.fullmatch(subject) is None:
            return None
        return self.change_case(self.pattern.sub(self._expanded, subject))

    def _expanded(self, match: Any) -> str:
        return "".join(
            piece if isinstance(piece, str) else match.group(piece) or "" for piece in self.pieces
        )


class MappingRules:
    """The parsed rules of a listener."""

    def __init__(self, text: str) -> None:
        """Raises: BadRules."""
        self._rules: list[_Rule | None] = []  # None: DEFAULT
        text, position = text.strip(), 0
        while position < len(text):
            match = _RULE.match(text, position)
            gap = _GAP.match(text, match.end()) if match else None
            if match is None or (gap is None and match.end() != len(text)):
                raise BadRules(f"{text[position:]!r} does not begin with DEFAULT or a whole RULE:")
            self._rules.append(None if match.group(1) else _parsed(*match.group(2, 3, 4)))
            position = gap.end() if gap else len(text)

    def user(self, subject: str) -> str:
        """The name of the user with this subject.  Raises: NoRuleFits."""
        for rule in self._rules:
            name = subject if rule is None else rule.apply(subject)
            if name is not None:
                return name
        raise NoRuleFits(f"no rule of {RULES} fits {subject[:200]!r}")


def _parsed(pattern: str, replacement: str, case: str) -> _Rule:
    import re2  # rarely needed

    options = re2.Options()
    options.log_errors = False  # they would go to stderr, bypassing the logs
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace")
        raise BadRules(f"the pattern {pattern!r} is not one of RE2: {why}") from None
    return _Rule(compiled, tuple(_pieces(replacement, compiled.groups)), _AS_IT_IS[case])


def _pieces(replacement: str, groups: int) -> list[str | int]:
    pieces: list[str | int] = []
    position = 0
    while position < len(replacement):
        match = _PIECE.match(replacement, position)
        if match is None:
            raise BadRules(f"in the replacement {replacement!r} a number must follow each $")
        escaped, digits, text = match.groups()
        if digits is None:
            pieces.append(escaped or text)
        else:
            pieces += _reference(digits, groups)
        position = match.end()
    return pieces


def _reference(digits: str, groups: int) -> list[str | int]:
    """`$12` is group 12, or group 1 and a 2 where there are fewer; with no such group, text."""
    for size in range(len(digits), 0, -1):
        if int(digits[:size]) <= groups:
            return [int(digits[:size]), digits[size:]]
    return [f"${digits}"]
