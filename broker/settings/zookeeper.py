"""Settings of the connection to ZooKeeper, and their checks.

Kafka's TLS settings that could only be ignored are in `later.py`, and are refused.
"""

from typing import Any, Protocol

from .declaration import BOOLEAN, INT, PASSWORD, STRING, ConfigError, Setting


class ZooKeeperSettings:
    """The address of ZooKeeper, and how the broker communicates with it."""

    zookeeper_connect = Setting(
        "zookeeper.connect",
        STRING.or_none,
        None,
        "ZooKeeper servers as HOST:PORT, separated by commas, and optionally a chroot path; "
        "unset: the embedded store.",
    )
    zookeeper_connection_timeout_ms = Setting(
        "zookeeper.connection.timeout.ms",
        INT.or_none,
        None,
        "How long to wait for ZooKeeper at the start; unset: the session timeout.",
    )
    zookeeper_session_timeout_ms = Setting(
        "zookeeper.session.timeout.ms",
        INT,
        18_000,
        "ZooKeeper considers a broker dead after this long without a sign of it.",
    )
    zookeeper_max_in_flight_requests = Setting(
        "zookeeper.max.in.flight.requests",
        INT,
        100,
        "The most requests to ZooKeeper in flight at a time.",
        at_least=1,
        kafka_default="10",
    )
    zookeeper_set_acl = Setting(
        "zookeeper.set.acl",
        BOOLEAN,
        False,
        "Others may only read the nodes that this broker creates in ZooKeeper, and may not read "
        "those with secrets. Needs credentials or a certificate.",
    )
    zookeeper_ssl_client_enable = Setting(
        "zookeeper.ssl.client.enable", BOOLEAN, False, "Use TLS for connections to ZooKeeper."
    )
    zookeeper_ssl_endpoint_identification_algorithm = Setting(
        "zookeeper.ssl.endpoint.identification.algorithm",
        STRING,
        "HTTPS",
        "How to check ZooKeeper's host name: HTTPS; anything else: not at all.",
    )
    zookeeper_ssl_keystore_location = Setting(
        "zookeeper.ssl.keystore.location",
        STRING.or_none,
        None,
        "PEM file with this broker's certificate and private key for ZooKeeper.",
    )
    zookeeper_ssl_keystore_password = Setting(
        "zookeeper.ssl.keystore.password", PASSWORD.or_none, None, "Password of the private key."
    )
    zookeeper_ssl_keystore_type = Setting(
        "zookeeper.ssl.keystore.type",
        STRING.or_none,
        None,
        "Format of zookeeper.ssl.keystore.location; unset: taken from its name, which must end "
        "in .pem.",
    )
    zookeeper_ssl_truststore_location = Setting(
        "zookeeper.ssl.truststore.location",
        STRING.or_none,
        None,
        "PEM file with the authorities that ZooKeeper's certificate may come from.",
    )
    zookeeper_ssl_truststore_type = Setting(
        "zookeeper.ssl.truststore.type",
        STRING.or_none,
        None,
        "Format of zookeeper.ssl.truststore.location; unset: taken from its name, which must end "
        "in .pem.",
    )
    odradek_zookeeper_auth_scheme = Setting(
        "odradek.zookeeper.auth.scheme",
        STRING,
        "digest",
        "How to authenticate to ZooKeeper if odradek.zookeeper.auth.username is set: "
        "digest, or sasl (DIGEST-MD5, as with Kafka's JAAS file).",
        choices=("digest", "sasl"),
    )
    odradek_zookeeper_auth_username = Setting(
        "odradek.zookeeper.auth.username", STRING.or_none, None, "The user name for ZooKeeper."
    )
    odradek_zookeeper_auth_password = Setting(
        "odradek.zookeeper.auth.password", PASSWORD.or_none, None, "The password for ZooKeeper."
    )


class ByName(Protocol):
    """Settings by Kafka's names."""

    def __getitem__(self, name: str, /) -> Any:
        """The value of a setting."""
        ...


def check_zookeeper_settings(values: ByName) -> None:
    """Check the settings of the connection to ZooKeeper.  Raises: ConfigError."""
    if not values["zookeeper.connect"]:
        return
    if values["odradek.transaction.version"]:
        raise ConfigError(
            f"odradek.transaction.version={values['odradek.transaction.version']} does not go with "
            "zookeeper.connect: Kafka's brokers in ZooKeeper mode know no version 2 of transactions"
        )
    has_name = values["odradek.zookeeper.auth.username"] is not None
    if has_name != (values["odradek.zookeeper.auth.password"] is not None):
        raise ConfigError(
            "odradek.zookeeper.auth.username and odradek.zookeeper.auth.password go together"
        )
    has_tls = values["zookeeper.ssl.client.enable"]
    has_certificate = has_tls and values["zookeeper.ssl.keystore.location"] is not None
    if values["zookeeper.set.acl"] and not (has_name or has_certificate):
        raise ConfigError(
            "zookeeper.set.acl=true needs somebody whom ZooKeeper knows: set "
            "odradek.zookeeper.auth.username, or zookeeper.ssl.client.enable=true with "
            "zookeeper.ssl.keystore.location"
        )
