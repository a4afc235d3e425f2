"""`odradek log`: reads, checks and repairs a data directory without a broker."""

from .commands import group
from .log_dump import dump
from .log_repair import repair
from .log_verify import verify


@group(epilog="Works on Apache Kafka's directories as well. No broker is needed.")
def log() -> None:
    """Read, check and repair the files of a data directory."""


for command in (dump, verify, repair):
    log.add_command(command)
