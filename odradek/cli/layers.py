"""Properties from several places: what is nearer to the user counts, and errors name the place."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from odradek.broker.settings.declaration import ConfigError
from odradek.broker.settings.properties import parse_properties

from .errors import CommandError
from .properties import canonical

OPTION: Final = "-X"
# Of these only the nearest counts; in one place only one may be given.
_ONE_OF: Final = (
    {"ssl.ca.location", "ssl.ca.pem"},
    {"ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location"},
    {"ssl.key.location", "ssl.key.pem", "ssl.keystore.location"},
)
# Two ways to tokens, each with several properties: whoever gives one of a way does not want what
# others have given of the other way.
_WAYS: Final = (
    {"sasl.jaas.config", "sasl.login.callback.handler.class"},
    {"enable.sasl.oauthbearer.unsecure.jwt", "sasl.oauthbearer.config", "sasl.oauthbearer.method"},
)


@dataclass(frozen=True, slots=True)
class Layer:
    """Properties under librdkafka's names, and the file or option that they come from."""

    source: str
    properties: Mapping[str, str]


def layer_of(source: str, given: Mapping[str, str]) -> Layer:
    """The layer of properties as users write them.  Raises: CommandError."""
    try:
        properties = canonical(given)
        for names in _ONE_OF:
            if len(both := sorted(names & properties.keys())) > 1:
                raise ValueError(f"{both[0]} and {both[1]} exclude each other: give one of them")
    except ValueError as error:
        raise CommandError(place(source, str(error))) from None
    return Layer(source, properties)


def read_layer(path: str | Path) -> Layer:
    """The properties in a file of a Java client or of librdkafka.  Raises: CommandError."""
    try:
        given = parse_properties(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        reason = error.strerror if isinstance(error, OSError) else error  # without the path again
        raise CommandError(f"{path} can't be read as a properties file: {reason}") from None
    return layer_of(str(path), given)


def merged(layers: Iterable[Layer]) -> tuple[dict[str, str], dict[str, str]]:
    """The properties of layers, the nearest to the user last, and the source of each."""
    properties: dict[str, str] = {}
    sources: dict[str, str] = {}
    for layer in layers:
        for names in _ONE_OF:
            if names & layer.properties.keys():
                for name in names:
                    properties.pop(name, None)
        for way, other in (_WAYS, _WAYS[::-1]):
            if way & layer.properties.keys():
                for name in other:
                    properties.pop(name, None)
        properties |= layer.properties
        sources |= dict.fromkeys(layer.properties, layer.source)
    return properties, sources


def place(source: str, text: str) -> str:
    """A text about a property, after its file or option."""
    separator = " " if source == OPTION else ": "
    return f"{source}{separator}{text}" if source else text
