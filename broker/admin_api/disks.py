"""The disks of the brokers of this process: full, failed, and healed again."""

import errno
import os
from collections.abc import Mapping
from typing import Any

from odradek.storage.errors import LogDirFailed

from ..faults.disks import DiskState
from ..local_cluster import LocalCluster
from ..server import Broker
from .brokers import EXPIRE, broker_id_in, state_of
from .controls import Controls
from .fields import TEXT, Field, Json, nullable
from .problems import Problem

LOG_DIR = Field("log_dir", nullable(TEXT), "One of the broker's log.dirs; all by default.", None)
OF_BROKER = (LOG_DIR,)
FAIL = (LOG_DIR, EXPIRE)


async def fill(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Let nothing more be written to a broker's log directories, as on a full disk."""
    return await _change(controls, path, fields, DiskState.FULL)


async def heal(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Heal a broker's log directories; one that is offline is used again from its next start."""
    return await _change(controls, path, fields, DiskState.OK)


async def fail(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Have a broker's log directories fail: they go offline; without any, the broker ends.

    The only broker of a process then ends its process, as Kafka's does.
    """
    broker_id = broker_id_in(path, controls)
    directories = _directories(controls, broker_id, fields)
    if fields["expire"] and controls.cluster is None:
        raise Problem(409, "the session of a broker with a process of its own ends at its timeout")
    async with controls.changing_brokers:
        for directory in directories:
            controls.disks.set_state(directory, DiskState.FAILED)
        broker = controls.brokers.get(broker_id)
        if broker is not None:  # at once, not only when its next write fails
            await _take_offline(controls.running, broker, directories, expire=fields["expire"])
    return state_of(controls, broker_id)


async def _take_offline(
    running: Broker | LocalCluster, broker: Broker, directories: list[str], *, expire: bool
) -> None:
    replicas = broker.node.replicas
    online = {data_dir.path: data_dir for data_dir in replicas.log_dirs.online}
    failing = [online[path] for path in directories if path in online]
    for data_dir in failing:
        if isinstance(running, LocalCluster) and not replicas.log_dirs.can_lose(data_dir):
            await running.kill_broker(broker.broker_id, expire=expire)
            return
        reason = os.strerror(errno.EIO)
        replicas.take_offline(LogDirFailed(f"{data_dir.path}: {reason}", data_dir.path))


async def _change(
    controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any], state: DiskState
) -> Json:
    broker_id = broker_id_in(path, controls)
    async with controls.changing_brokers:
        for directory in _directories(controls, broker_id, fields):
            controls.disks.set_state(directory, state)
    return state_of(controls, broker_id)


def _directories(controls: Controls, broker_id: int, fields: Mapping[str, Any]) -> list[str]:
    """Those that a request is about.  Raises: Problem."""
    known = controls.log_dirs(broker_id)
    if fields["log_dir"] is None:
        return known
    wanted = os.path.abspath(fields["log_dir"])
    if wanted not in known:
        raise Problem(400, f"log_dir: broker {broker_id} has {', '.join(known)}")
    return [wanted]
