"""The commands for single brokers of a cluster under test."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from odradek.broker.local_cluster import LocalCluster

START: Final = "start"
STOP: Final = "stop"
KILL: Final = "kill"
EXPIRE: Final = "expire"
"""Kill it, and let its session expire at once."""


async def obey(cluster: "LocalCluster", command: str, broker_id: int) -> None:
    """Execute a command.  Raises: StartupError, StorageError, KeyError (no such broker now)."""
    if command == START:
        await cluster.start_broker(broker_id)
    elif command == STOP:
        await cluster.stop_broker(broker_id)
    else:
        assert command in (KILL, EXPIRE)
        await cluster.kill_broker(broker_id, expire=command == EXPIRE)
