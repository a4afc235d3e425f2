"""Reads and writes values of sasl.jaas.config: how a client logs in, or whom a broker lets in.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="…";

A login module is known by its name; none is ever loaded.  Texts are accepted as Kafka accepts them,
but a quote that the line does not close and a single `/` are refused, where Kafka cuts the value
off.  No error shows a part of the text that may be a secret.
Source: JaasConfig and JaasContext in Kafka, java.io.StreamTokenizer.
"""

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
CONTROL_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
# The login module that Kafka has for each mechanism.
MODULE_OF: Final = {
    "PLAIN": PLAIN_MODULE,
    "SCRAM-SHA-256": SCRAM_MODULE,
    "SCRAM-SHA-512": SCRAM_MODULE,
    "OAUTHBEARER": OAUTHBEARER_MODULE,
    "GSSAPI": KERBEROS_MODULE,
}

_LETTER: Final = r"A-Za-z_$\u00a0-\U0010ffff"
_WORD: Final = rf"[{_LETTER}][{_LETTER}0-9.\-]*"
_TOKEN: Final = rf"""
    (?P<blank> [\x00-\x20]+ | //[^\r\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<word> {_WORD} )
    | (?P<quoted> "(?:\\.|[^"\\\r\n])*" | '(?:\\.|[^'\\\r\n])*' )
    | (?P<open> ["'] )
    | (?P<other> . )
    """
"""Compiled by the first that reads a value, as that takes long: most brokers have none."""
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))


# ("text", a word or what stood in quotes) and ("sign", any other character)
_Tokens = deque[tuple[str, str]]


class JaasError(ValueError):
    """A sentence that names the setting and shows no value."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """The one login module of a setting."""

    class_name: str
    control_flag: str  # in lower case
    options: Mapping[str, str] = field(repr=False)  # may be secrets

    def is_module(self, class_name: str) -> bool:
        """Is it this one?  Some builds of Kafka's clients have a prefix before the package."""
        return f".{self.class_name}".endswith(f".{class_name}")


def parse_jaas(text: str, setting: str = "sasl.jaas.config") -> LoginModule:
    """The login module that a value of `setting` names.  Raises: JaasError."""
    tokens = _tokens(text, setting)
    modules = []
    while tokens:
        modules.append(_login_module(tokens, setting))
    if len(modules) != 1:
        raise JaasError(f"{setting} has {len(modules) or 'no'} login modules: it must have one")
    return modules[0]


def parse_jaas_for(
    mechanism: str, text: str, setting: str = "sasl.jaas.config"
) -> Mapping[str, str]:
    """The options of the login module that `mechanism`, one of `MODULE_OF`, needs.

    Raises: JaasError, if it is another one, too.
    """
    module = parse_jaas(text, setting)
    needed = MODULE_OF[mechanism]
    if module.is_module(needed):
        return module.options
    if any(module.is_module(known) for known in MODULE_OF.values()):
        raise JaasError(f"{setting} has {module.class_name}, but {mechanism} needs {needed}")
    raise JaasError(f"{setting} has a login module that is not known here: use {needed}")


def jaas_text(mechanism: str, **options: str) -> str:
    """A value with the login module of `mechanism`, one of `MODULE_OF`, and these options."""
    pairs = [f"{_name(name)}={_quoted(value)}" for name, value in options.items()]
    return f"{MODULE_OF[mechanism]} required {' '.join(pairs)};"


def _name(text: str) -> str:
    """The name of an option, which may have the name of a user in it."""
    return text if re.fullmatch(_WORD, text) else _quoted(text)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    on_one_line = escaped.replace("\n", "\\n").replace("\r", "\\r")
    return f'"{on_one_line}"'


def _tokens(text: str, setting: str) -> _Tokens:
    """A text's tokens, without blanks and comments."""
    tokens: _Tokens = deque()
    for match in re.finditer(_TOKEN, text, re.VERBOSE | re.DOTALL):
        token = match.group()
        match match.lastgroup:
            case "word":
                tokens.append(("text", token))
            case "quoted":
                tokens.append(("text", _ESCAPE.sub(_unescaped, token[1:-1])))
            case "open":
                raise JaasError(f"{setting} has a quote that is not closed on its line")
            case "other":
                tokens.append(("sign", token))
    return tokens


def _login_module(tokens: _Tokens, setting: str) -> LoginModule:
    """Take the tokens of one login module."""
    class_name = _take_text(tokens)
    if class_name is None:
        raise JaasError(f"{setting} does not begin with the class of a login module")
    flag = (_take_text(tokens) or "").lower()
    if flag not in CONTROL_FLAGS:
        raise JaasError(
            f"{setting} must have one of {', '.join(CONTROL_FLAGS)} after the login module's class"
        )
    options: dict[str, str] = {}
    while not _take_sign(tokens, ";"):
        if not tokens:
            raise JaasError(f"{setting} does not end with ';'")
        name = _take_text(tokens)
        value = _take_text(tokens) if _take_sign(tokens, "=") else None
        if name is None or value is None:
            raise JaasError(
                f"{setting}: option {len(options) + 1} of the login module is not NAME=VALUE: quote"
                " a value that begins with a digit, or has more than letters, digits and - . _ $"
            )
        options[name] = value
    return LoginModule(class_name, flag, options)


def _take_text(tokens: _Tokens) -> str | None:
    return tokens.popleft()[1] if tokens and tokens[0][0] == "text" else None


def _take_sign(tokens: _Tokens, sign: str) -> bool:
    if not tokens or tokens[0] != ("sign", sign):
        return False
    tokens.popleft()
    return True


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPED.get(code, code)
