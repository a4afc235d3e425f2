"""`odradek serve --secure`: TLS, a login and an authorizer, made in the data directory."""

import asyncio
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from odradek.broker.config import Config, ConfigError
from odradek.broker.server import STORE_FILE
from odradek.jaas import jaas_text
from odradek.secure.files import MECHANISM, PROTOCOL, USER, SecureFiles
from odradek.secure.first_user import add_to_directory

AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
DEFAULT_LISTEN: Final = "127.0.0.1:9092"
JAAS: Final = f"listener.name.{PROTOCOL.lower()}.{MECHANISM.lower()}.sasl.jaas.config"
_OWN: Final = ("listeners", "listener.", "ssl.", "sasl.", "authorizer.", "super.", "inter.broker.")
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


def make_secure(given: Config, listen: str | None) -> tuple[SecureFiles, dict[str, str]]:
    """Make certificates and a user; return them with the settings that use them.

    `given` is what the user has set, without `listen`.  Raises: ConfigError, StorageError.
    """
    for name in given.layers.static:
        if name.startswith(_OWN) and name != "inter.broker.protocol.version":
            raise ConfigError(f"--secure and {name} exclude each other: --secure sets it itself")
    if given.zookeeper_connect is not None:
        raise ConfigError(
            "--secure is for brokers of one process: with zookeeper.connect, make certificates and "
            "users for all brokers, see docs/clusters.md"
        )
    files = SecureFiles(given.data_dir)
    settings = {
        "listeners": f"{PROTOCOL}://{listen or DEFAULT_LISTEN}",
        "ssl.keystore.location": str(files.store),
        "sasl.enabled.mechanisms": MECHANISM,
        JAAS: jaas_text(MECHANISM),
        "authorizer.class.name": AUTHORIZER,
        "super.users": f"User:{USER}",
    }
    files.prepare(_hosts(given, listen or DEFAULT_LISTEN), datetime.now(UTC))
    password = files.access.password
    asyncio.run(add_to_directory(given.data_dir, STORE_FILE, USER, MECHANISM, password))
    return files, settings


def say_files(files: SecureFiles, bootstrap_servers: str) -> list[str]:
    """Write the files for clients; return a line for each.  Raises: OSError."""
    paths: dict[str, Path] = files.write_clients(bootstrap_servers)
    return [f"odradek client file: {path}" for path in paths.values()]


def _hosts(given: Config, listen: str) -> list[str]:
    """The names of this machine that clients may use, each once."""
    listened = listen.rpartition(":")[0].strip("[]")
    advertised = [end.host for end in given.advertised_endpoints]
    names = [*_LOCAL, socket.gethostname(), socket.getfqdn(), listened, *advertised]
    wild = ("", "0.0.0.0", "::")
    return [name for name in dict.fromkeys(names) if name not in wild]
