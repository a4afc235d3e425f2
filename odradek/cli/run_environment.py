"""What a command of `odradek run` is told of its brokers: by the environment, and in files.

A variable of Kafka's clients that does not hold for these brokers is removed, so that a password
for others, which the surroundings have, is not sent to them.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from odradek.secure.client_files import client_files
from odradek.testing import Broker
from odradek.testing.scratch import write_for_owner

from .errors import CommandError

FILES_VARIABLE: Final = "ODRADEK_CLIENT_FILES"
# librdkafka's names, as variables in capitals with `_` for `.`.
CLIENT_PROPERTIES: Final = (
    "bootstrap.servers",
    "security.protocol",
    "ssl.ca.location",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
)
CONTEXT: Final = "odradek-run"
_CONTEXT_FILE: Final = "config.toml"


def environment_of(broker: Broker, files: Path) -> dict[str, str]:
    """The variables of a command that runs beside a broker."""
    config: Mapping[str, object] = {
        "security.protocol": "PLAINTEXT",
        **broker.client_config("confluent"),
    }
    variables = {name: f"KAFKA_{name.upper().replace('.', '_')}" for name in CLIENT_PROPERTIES}
    kept = {name: text for name, text in os.environ.items() if name not in variables.values()}
    return {
        **kept,
        **{variables[name]: str(value) for name, value in config.items() if name in variables},
        "ODRADEK_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "ODRADEK_ADMIN_URL": broker.admin_url,
        # The commands of Odradek take a context for what no variable says: TLS and the login.
        "ODRADEK_CONFIG": str(files / _CONTEXT_FILE),
        "ODRADEK_CONTEXT": CONTEXT,
        FILES_VARIABLE: str(files),
    }


def write_files(broker: Broker, users: Iterable[str], directory: Path) -> None:
    """Write the files of clients, and for each of these users others in a directory of its own.

    Raises: CommandError.
    """
    context = f'[contexts.{CONTEXT}]\nproperties = "java.properties"\n'
    try:
        _write_clients(broker, None, directory)
        for user in users:
            _write_clients(broker, user, directory / "users" / file_name(user))
        write_for_owner(directory / _CONTEXT_FILE, context)
    except OSError as error:  # also of a user whose name is too long for a directory
        reason = f"{error.filename}: {error.strerror}"
        raise CommandError(f"cannot write the files for clients: {reason}") from None


def file_name(user: str) -> str:
    """The name of a user's directory: never one that leads elsewhere."""
    name = quote(user, safe="")
    return name if name.strip(".") else name.replace(".", "%2E")


def _write_clients(broker: Broker, user: str | None, directory: Path) -> None:
    for each in (directory.parent, directory):
        each.mkdir(mode=0o700, exist_ok=True)
    for name, text in client_files(lambda client: broker.client_config(client, user=user)).items():
        write_for_owner(directory / name, text)
