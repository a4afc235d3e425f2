"""The sources of a broker's settings: a properties file, environment variables, the command line.

The environment variable ODRADEK_LOG_SEGMENT_BYTES stands for log.segment.bytes: in capitals, with
'_' for '.'.  As that can't be reversed, the declared names are converted to this form and compared.
ODRADEK_FLUSH_BYTES is odradek.flush.bytes: the prefix is not doubled.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from .built import BUILT
from .declaration import ConfigError

_ENVIRONMENT_PREFIX: Final = "ODRADEK_"
_NOT_SETTINGS: Final = frozenset(  # variables of Odradek that are not settings of the broker
    {
        "ODRADEK_ADMIN_URL",
        "ODRADEK_BOOTSTRAP_SERVERS",
        "ODRADEK_CLIENT_FILES",
        "ODRADEK_CONFIG",
        "ODRADEK_CONTEXT",
        "ODRADEK_HEALTH_CONFIG",
        "ODRADEK_REQUIRE",
        "ODRADEK_SEED",
        "ODRADEK_SIM_SEED",
        "ODRADEK_ZOOKEEPER_JARS",
    }
)


class Given(NamedTuple):
    """The text that a user gave for a setting, and its source, for error messages."""

    text: str
    origin: str = ""


def given_settings(
    *,
    file: str | None,
    environ: Mapping[str, str] | None,
    overrides: Mapping[str, str] | None,
) -> dict[str, Given]:
    """What all sources give, by name, in ascending priority: file, environment, `overrides`.

    Raises: ConfigError if the file cannot be read.
    """
    given: dict[str, Given] = {}
    if file is not None:
        from .properties import parse_properties  # brokers of tests have no file

        for name, text in parse_properties(_read(file)).items():
            given[name] = Given(text, f"in {file}")
    for variable, text in (environ or {}).items():
        if variable.startswith(_ENVIRONMENT_PREFIX) and variable not in _NOT_SETTINGS:
            given[_setting_of(variable)] = Given(text, f"environment variable {variable}")
    for name, text in (overrides or {}).items():
        given[name] = Given(text)
    return given


def _read(file: str) -> str:
    try:
        with open(file, "rb") as stream:
            data = stream.read()
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")  # the encoding of Java's properties before Java 9


def _setting_of(variable: str) -> str:
    """The setting that a variable stands for; if none is known, the name it seems to mean."""
    wanted = (variable, variable.removeprefix(_ENVIRONMENT_PREFIX))
    for name in BUILT:
        if environment_form(name) in wanted:
            return name
    from .known import UNBUILT

    for name in UNBUILT:
        if environment_form(name) in wanted:
            return name
    return wanted[1].lower().replace("_", ".")


def environment_form(name: str) -> str:
    """A setting's name as an environment variable, without the prefix."""
    return name.upper().replace(".", "_")
