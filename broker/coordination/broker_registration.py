"""The broker registration in the znode /brokers/ids/N."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from .json_fields import Fields, MalformedZnode, decode_object, encode_object, number

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
ENDPOINT: Final = re.compile(r"([^:]+)://(?:\[([0-9a-zA-Z\-%._:]*)\]|([0-9a-zA-Z\-%._]*)):(-?\d+)")


class RegisteredEndpoint(NamedTuple):
    """An advertised endpoint of a broker."""

    listener_name: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener_name}://{host}:{self.port}"

    @classmethod
    def parse(cls, text: str, protocols: Mapping[str, str]) -> Self:
        """Parse `NAME://host:port`; `protocols` is by listener name.  Raises: MalformedZnode."""
        match = ENDPOINT.fullmatch(text)
        if match is None:
            raise MalformedZnode(f"{text[:200]!r} is not an endpoint")
        listener_name, host_v6, host, port = match.groups()
        security_protocol = protocols.get(listener_name, listener_name)
        if security_protocol not in SECURITY_PROTOCOLS:
            raise MalformedZnode(f"endpoint {text[:200]!r} has no known security protocol")
        host_text = host if host_v6 is None else host_v6
        return cls(listener_name, host_text, number(port, "port"), security_protocol)


class VersionRange(NamedTuple):
    """The versions of a feature that a broker supports."""

    version_min: int
    version_max: int


NO_FEATURES: Final[Mapping[str, VersionRange]] = {}


class BrokerRegistration(NamedTuple):
    """The value of /brokers/ids/N."""

    endpoints: tuple[RegisteredEndpoint, ...]
    timestamp_ms: int
    jmx_port: int = -1
    rack: str | None = None
    features: Mapping[str, VersionRange] = NO_FEATURES

    def encode(self) -> bytes:
        """Encode as version 5."""
        plaintext = [end for end in self.endpoints if end.security_protocol == "PLAINTEXT"]
        values: dict[str, object] = {
            "features": {
                name: {"min_version": versions.version_min, "max_version": versions.version_max}
                for name, versions in self.features.items()
            },
            "listener_security_protocol_map": {
                end.listener_name: end.security_protocol for end in self.endpoints
            },
            "endpoints": [str(end) for end in self.endpoints],
            "jmx_port": self.jmx_port,
            "port": plaintext[0].port if plaintext else -1,
            "host": plaintext[0].host if plaintext else None,
            "version": 5,
            "timestamp": str(self.timestamp_ms),
        }
        if self.rack is not None:
            values["rack"] = self.rack
        return encode_object(values)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode versions 1 to 5.  Raises: MalformedZnode."""
        fields = decode_object("broker registration", data)
        version = fields.int32("version")
        if version < 1:
            raise MalformedZnode(f"broker registration has version {version}")
        protocols = fields.mapping_or_empty("listener_security_protocol_map")
        features = fields.mapping_or_empty("features")
        return cls(
            endpoints=_decode_endpoints(fields, {name: protocols.text(name) for name in protocols})
            if version > 1
            else (
                RegisteredEndpoint(
                    "PLAINTEXT", fields.text("host"), fields.int32("port"), "PLAINTEXT"
                ),
            ),
            timestamp_ms=fields.int64("timestamp", -1),
            jmx_port=fields.int32("jmx_port", -1),
            rack=fields.text("rack") if "rack" in fields else None,
            features={name: _decode_version_range(features.mapping(name)) for name in features},
        )


def _decode_endpoints(
    fields: Fields, protocols: Mapping[str, str]
) -> tuple[RegisteredEndpoint, ...]:
    return tuple(RegisteredEndpoint.parse(text, protocols) for text in fields.texts("endpoints"))


def _decode_version_range(fields: Fields) -> VersionRange:
    return VersionRange(fields.int32("min_version"), fields.int32("max_version"))
