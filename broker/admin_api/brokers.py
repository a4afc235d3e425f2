"""The brokers of this process: which there are; stopping, starting and pausing single ones."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from odradek.storage.errors import StorageError

from ..faults.disks import DiskState
from ..server import StartupError
from .asking import wait_for_all
from .controls import Controls
from .fields import BOOLEAN, Field, Json
from .problems import Problem, not_found
from .schemas import INTEGER, NULL, STRING, array, either, members, one_of

if TYPE_CHECKING:
    from ..local_cluster import LocalCluster

BROKER = members(
    id=INTEGER,
    state=one_of("running", "paused", "down"),
    host=either(STRING, NULL),
    port=either(INTEGER, NULL),
    rack=either(STRING, NULL),
    disk=one_of(*[state.value for state in DiskState]),
)
BROKERS = members(brokers=array(BROKER))
EXPIRE = Field("expire", BOOLEAN, "End the session at once, not at its timeout.", False)
KILL = (EXPIRE,)


def show_all(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """List the brokers of this process."""
    return {"brokers": [state_of(controls, broker_id) for broker_id in controls.broker_ids]}


async def start(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Start a broker that is down; return once it serves."""
    broker_id = broker_id_in(path, controls)
    async with controls.changing_brokers:
        try:
            await _cluster(controls, broker_id, "started").start_broker(broker_id)
        except (StartupError, StorageError) as error:
            raise Problem(409, f"broker {broker_id} can't start: {error}") from error
    return state_of(controls, broker_id)


async def stop(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Stop a broker cleanly."""
    broker_id = broker_id_in(path, controls)
    async with controls.changing_brokers:
        cluster = _cluster(controls, broker_id, "stopped")
        _check_running(controls, broker_id)
        try:
            await cluster.stop_broker(broker_id)
        except StorageError as error:
            raise Problem(409, f"broker {broker_id} did not stop cleanly: {error}") from error
    return state_of(controls, broker_id)


async def kill(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """End a broker as `kill -9` would: nothing is flushed, and other brokers are not told."""
    broker_id = broker_id_in(path, controls)
    async with controls.changing_brokers:
        cluster = _cluster(controls, broker_id, "killed")
        _check_running(controls, broker_id)
        await cluster.kill_broker(broker_id, expire=fields["expire"])
    return state_of(controls, broker_id)


async def pause(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Pause a broker: until it is resumed, it reads nothing, and does not renew its session."""
    broker_id = broker_id_in(path, controls)
    async with controls.changing_brokers:
        _check_running(controls, broker_id)
        broker = controls.brokers[broker_id]
        if broker.config.zookeeper_connect is not None:
            raise Problem(409, "this broker uses ZooKeeper: stop its process with SIGSTOP")
        broker.pause()
    return state_of(controls, broker_id)


async def resume(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Let a paused broker go on; return once all brokers know that it is there."""
    broker_id = broker_id_in(path, controls)
    async with controls.changing_brokers:
        _check_running(controls, broker_id)
        controls.brokers[broker_id].resume()
        await wait_for_all(
            controls,
            lambda node: broker_id in node.metadata.brokers,
            f"the registration of broker {broker_id}",
        )
    return state_of(controls, broker_id)


def broker_id_in(path: Mapping[str, str], controls: Controls) -> int:
    """The broker that a path names.  Raises: Problem."""
    text = path["id"]
    for broker_id in controls.broker_ids:
        if text == str(broker_id):
            return broker_id
    known = ", ".join(map(str, controls.broker_ids))
    raise not_found(f"broker {text[:20]!a} in this process, which has {known}")


def _cluster(controls: Controls, broker_id: int, verb: str) -> "LocalCluster":
    if controls.cluster is None:
        raise Problem(
            409,
            f"broker {broker_id} is the only one of its process and can't be {verb} alone: "
            "end the process",
        )
    return controls.cluster


def _check_running(controls: Controls, broker_id: int) -> None:
    if broker_id not in controls.brokers:
        raise Problem(409, f"broker {broker_id} is not running")


def state_of(controls: Controls, broker_id: int) -> Json:
    """A broker, as it is now."""
    disk = controls.disks.worst_of(controls.log_dirs(broker_id)).value
    broker = controls.brokers.get(broker_id)
    if broker is None:
        nowhere = {"host": None, "port": None, "rack": None}
        return {"id": broker_id, "state": "down", **nowhere, "disk": disk}
    state = "paused" if broker.is_paused else "running"
    where = {"host": broker.host, "port": broker.port, "rack": broker.config.broker_rack}
    return {"id": broker_id, "state": state, **where, "disk": disk}
