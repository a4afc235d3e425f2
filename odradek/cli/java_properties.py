"""Properties of a client under Java's names, from librdkafka's, under which all are kept.

The way back of properties.py. Java reads a key and its certificate from one store, so two files in
PEM are given as texts.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from odradek.jaas import jaas_text

from .client_sasl import OAUTHBEARER, TOKEN_PROPERTIES, is_librdkafkas

_STORES: Final = (
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
)
_SAME: Final = ("security.", "ssl.", "sasl.mechanism")


def java_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """What a Java client needs to connect as these properties say.

    Raises: ValueError for what Java can't do.
    """
    if properties.get("enable.ssl.certificate.verification", "true").lower() == "false":
        raise ValueError("Java verifies certificates: enable.ssl.certificate.verification=false")
    if "ssl.crl.location" in properties:
        raise ValueError("Java has no property for revoked certificates: ssl.crl.location")
    java = {
        name: value
        for name, value in properties.items()
        if name.startswith(_SAME) and name not in _STORES
    }
    if java.get("ssl.endpoint.identification.algorithm") == "none":
        java["ssl.endpoint.identification.algorithm"] = ""
    return {**java, **_trusted(properties), **_own(properties), **_login(properties)}


def _trusted(properties: Mapping[str, str]) -> dict[str, str]:
    pem = {"ssl.truststore.type": "PEM"}
    if (location := properties.get("ssl.ca.location")) is not None:
        if Path(location).is_dir():
            raise ValueError(f"Java reads no directory of certificates: ssl.ca.location={location}")
        return {**pem, "ssl.truststore.location": location}
    if "ssl.ca.pem" in properties:
        return {**pem, "ssl.truststore.certificates": properties["ssl.ca.pem"]}
    return {}


def _own(properties: Mapping[str, str]) -> dict[str, str]:
    pem = {"ssl.keystore.type": "PEM"}
    if "ssl.keystore.location" in properties:
        return {"ssl.keystore.type": "PKCS12"}
    chain, key = (_text(properties, f"ssl.{part}") for part in ("certificate", "key"))
    if chain is None:
        return {}
    location = properties.get("ssl.certificate.location")
    if location is not None and location == properties.get("ssl.key.location", location):
        return {**pem, "ssl.keystore.location": location}
    return {**pem, "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key or ""}


def _text(properties: Mapping[str, str], name: str) -> str | None:
    """The PEM that is given, or that is in the file that is given.  Raises: ValueError."""
    if (location := properties.get(f"{name}.location")) is None:
        return properties.get(f"{name}.pem")
    try:
        return Path(location).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name}.location={location} can't be read: {error}") from None


def _login(properties: Mapping[str, str]) -> dict[str, str]:
    if not properties.get("security.protocol", "").startswith("SASL"):
        return {}
    if is_librdkafkas(properties):
        raise ValueError("Java can't get tokens as librdkafka does: sasl.oauthbearer.method=oidc")
    if properties["sasl.mechanism"] == OAUTHBEARER:
        return {name: properties[name] for name in TOKEN_PROPERTIES if name in properties}
    user, password = properties["sasl.username"], properties["sasl.password"]
    text = jaas_text(properties["sasl.mechanism"], username=user, password=password)
    return {"sasl.jaas.config": text}
