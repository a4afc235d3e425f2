"""How commands log in to ZooKeeper: by a file with the settings of a broker."""

from pathlib import Path
from typing import Final

import click

from odradek.broker.config import Config, load_config
from odradek.broker.settings.declaration import ConfigError
from odradek.broker.settings.properties import parse_properties

from .errors import CommandError

TIMEOUT_MS: Final = 10_000
_OF_ZOOKEEPER: Final = ("zookeeper.", "odradek.zookeeper.")

zookeeper_config_option = click.option(
    "--zookeeper-config",
    "--zk-tls-config-file",
    "zookeeper_config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="How to connect and log in to ZooKeeper: the settings zookeeper.* and odradek.zookeeper.*"
    " of a broker; others have no effect. Without zookeeper.session.timeout.ms, 10 s.",
)


def zookeeper_settings(address: str, file: str | None) -> Config:
    """The settings of a broker that connects there.  Raises: CommandError."""
    settings: dict[str, str] = {}
    try:
        if file is not None:
            given = parse_properties(Path(file).read_text(encoding="utf-8"))
            settings = {k: v for k, v in given.items() if k.startswith(_OF_ZOOKEEPER)}
        settings.setdefault("zookeeper.session.timeout.ms", str(TIMEOUT_MS))
        return load_config(overrides={**settings, "zookeeper.connect": address})
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        raise CommandError(f"{file or '--zookeeper'}: {error}") from None
