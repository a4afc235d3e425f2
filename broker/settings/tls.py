"""Settings of TLS: for all listeners, or with the prefix `listener.name.<listener>.` for one."""

from collections.abc import Mapping
from typing import Any, Final

from .declaration import BOOLEAN, LIST, PASSWORD, STRING, Setting, Value, declared_in

CLIENT_AUTH: Final = "ssl.client.auth"
MAPPING_RULES: Final = "ssl.principal.mapping.rules"
_PREFIX: Final = "listener.name."


class TlsSettings:
    """TLS between clients and the broker, and between brokers.

    Each setting can have the prefix `listener.name.<listener>.`, with the listener's name in small
    letters. It then applies to that listener only.
    """

    ssl_keystore_location = Setting(
        "ssl.keystore.location",
        STRING.or_none,
        None,
        "A PEM or PKCS12 file with the broker's private key, its certificate, and those between it "
        "and the root; in PEM in this order. PKCS12 needs the extra `tls`.",
    )
    ssl_keystore_type = Setting(
        "ssl.keystore.type",
        STRING,
        "JKS",
        "Ignored: the content of the file says what it is. JKS cannot be read.",
    )
    ssl_keystore_key = Setting(
        "ssl.keystore.key",
        PASSWORD.or_none,
        None,
        "The broker's private key itself, as PEM, in place of a file.",
    )
    ssl_keystore_certificate_chain = Setting(
        "ssl.keystore.certificate.chain",
        PASSWORD.or_none,
        None,
        "The certificates of ssl.keystore.key, as PEM, the broker's own first.",
    )
    ssl_key_password = Setting(
        "ssl.key.password",
        PASSWORD.or_none,
        None,
        "The password of the private key, if it is encrypted PEM. For PKCS12: unset, or "
        "ssl.keystore.password.",
    )
    ssl_keystore_password = Setting(
        "ssl.keystore.password",
        PASSWORD.or_none,
        None,
        "The password of a PKCS12 file. Refused for PEM, as in Kafka: only the key in it can have "
        "one.",
    )
    ssl_truststore_location = Setting(
        "ssl.truststore.location",
        STRING.or_none,
        None,
        "A PEM or PKCS12 file with the authorities that certificates of clients, and of other "
        "brokers, must come from.",
    )
    ssl_truststore_type = Setting(
        "ssl.truststore.type",
        STRING,
        "JKS",
        "Ignored: the content of the file says what it is. JKS cannot be read.",
    )
    ssl_truststore_certificates = Setting(
        "ssl.truststore.certificates",
        PASSWORD.or_none,
        None,
        "The authorities of ssl.truststore.location themselves, as PEM, in place of a file.",
    )
    ssl_truststore_password = Setting(
        "ssl.truststore.password",
        PASSWORD.or_none,
        None,
        "The password of a PKCS12 file. Refused for PEM.",
    )
    ssl_endpoint_identification_algorithm = Setting(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "Whether a broker that connects to another one checks that the certificate has its host "
        "name, as advertised. https: it does; empty: it does not.",
        choices=("https", ""),
    )
    ssl_client_auth = Setting(
        "ssl.client.auth",
        STRING,
        "none",
        "Whether clients must, may or need not show a certificate. Its subject becomes their name, "
        "unless they log in: then only the setting of a single listener has an effect.",
        choices=("required", "requested", "none"),
    )
    ssl_enabled_protocols = Setting(
        "ssl.enabled.protocols",
        LIST,
        ("TLSv1.2", "TLSv1.3"),
        "The TLS versions that clients may use: TLSv1.2, TLSv1.3 or both.",
    )
    ssl_protocol = Setting(
        "ssl.protocol",
        STRING,
        "TLSv1.3",
        "TLS, TLSv1.2 or TLSv1.3. No effect: ssl.enabled.protocols decides.",
    )
    ssl_cipher_suites = Setting(
        "ssl.cipher.suites",
        LIST,
        (),
        "The cipher suites that clients may use, by IANA's names; empty: OpenSSL's choice. Those "
        "of TLS 1.3 can only be named all together; if none of them is, TLS 1.3 is not offered.",
    )
    ssl_principal_mapping_rules = Setting(
        MAPPING_RULES,
        STRING,
        "DEFAULT",
        "Rules that turn the subject of a client's certificate into the name of a user. Patterns "
        "are those of RE2.",
    )
    ssl_allow_dn_changes = Setting(
        "ssl.allow.dn.changes",
        BOOLEAN,
        False,
        "Whether a certificate that replaces another one while the broker runs may have another "
        "subject.",
    )
    ssl_allow_san_changes = Setting(
        "ssl.allow.san.changes",
        BOOLEAN,
        False,
        "Whether a certificate that replaces another one while the broker runs may lack some of "
        "its subject alternative names.",
    )


TLS_SETTINGS: Final[dict[str, Setting[Value]]] = declared_in(TlsSettings)


def listener_setting(name: str) -> tuple[str, Setting[Value]] | None:
    """The listener's name in capitals and the setting, if `name` is one of a single listener."""
    if not name.startswith(_PREFIX):
        return None
    listener_name, dot, rest = name.removeprefix(_PREFIX).partition(".ssl.")
    setting = TLS_SETTINGS.get(f"ssl.{rest}")
    # Kafka's prefix has small letters, and does not work with capitals.
    if not dot or setting is None or listener_name != listener_name.lower():
        return None
    return listener_name.upper(), setting


class ListenerTls:
    """The settings of TLS of one listener: its own, or else those of all listeners."""

    def __init__(
        self, listener_name: str, given: Mapping[str, Value], *, has_sasl: bool = False
    ) -> None:
        self.listener_name = listener_name
        self.has_sasl = has_sasl
        """Whether clients get their names by logging in; then only the listener's own setting asks
        them for certificates, too (KIP-684)."""
        self._prefix = f"{_PREFIX}{listener_name.lower()}."
        self._given = given

    def __getitem__(self, name: str) -> Any:
        """The value of a setting by Kafka's name without the prefix."""
        if self.has_sasl and name == CLIENT_AUTH and self.name_of(name) == name:
            return TLS_SETTINGS[name].default
        return self._given.get(self.name_of(name), TLS_SETTINGS[name].default)

    def values(self) -> dict[str, Value]:
        """All values, by Kafka's names without the prefix."""
        return {name: self[name] for name in TLS_SETTINGS}

    def own_name(self, name: str) -> str:
        """The name of the setting for this listener."""
        return self._prefix + name

    def name_of(self, name: str) -> str:
        """The name under which the setting is set, to be shown to the user."""
        own = self.own_name(name)
        return own if own in self._given else name
