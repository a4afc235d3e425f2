"""Snapshots: the state of all brokers of this process, and the way back to it."""

from collections.abc import Mapping
from typing import Any, Final

from odradek.storage.errors import StorageError

from ..snapshots.image import CannotUndo
from ..snapshots.snapshots import Snapshot, SnapshotRefused, Snapshots
from . import entrance
from .controls import Controls
from .fields import BOOLEAN, Field, Json, nullable
from .problems import Problem, not_found
from .schemas import INTEGER, STRING, array, members

SNAPSHOT = members(id=STRING, directory=STRING)
PORTS = Field(
    "ports", nullable(entrance.PORTS.kind), "Open another entrance first, with these ports.", None
)
FORGETS_REQUESTS = Field(
    "forgets_requests",
    BOOLEAN,
    "End rules for faults, heal the network, put brokers into their racks, empty the journal, set "
    "the clock to the machine's; 409 if the clock has let partitions forget producers "
    "(producer.id.expiration.ms).",
    False,
)
RESTORE = (PORTS, FORGETS_REQUESTS)
_NETWORK: Final = "the network is cut or slow"
RESTORED = members(dropped_topics=array(STRING), rewound_partitions=INTEGER)


async def take(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Take a snapshot: topics, records, groups, transactions, settings, users and ACLs.

    `directory` has the files, for brokers that are started on a copy of it.
    """
    async with controls.changing_brokers:
        if not controls.has_good_network:
            raise Problem(409, f"no snapshot: {_NETWORK}: heal it first")
        try:
            snapshot = await _snapshots(controls).take()
        except (SnapshotRefused, StorageError, OSError) as error:
            raise Problem(409, f"no snapshot: {error}") from error
    return {"id": snapshot.id, "directory": str(snapshot.directory)}


async def restore(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Disconnect all clients, and return to a snapshot; 409 if that can't be done in place.

    Then the brokers must be stopped, and started on a copy of the snapshot's directory.
    """
    snapshot = _snapshot(controls, path)
    if fields["ports"] is not None:  # first, so that no client of before comes back meanwhile
        await entrance.open_another(controls, path, fields)
    async with controls.changing_brokers:
        controls.disks.heal_all()
        try:
            if fields["forgets_requests"]:
                await _put_right(controls, path, fields)
                if controls.clock.ahead_ms >= _expiration_ms(controls):
                    raise CannotUndo("the clock is so far ahead that producers have been forgotten")
            elif not controls.has_good_network:
                raise CannotUndo(_NETWORK)
            undo = await _snapshots(controls).restore(snapshot.id)
            if fields["forgets_requests"]:
                controls.interceptor.faults.clear()
                controls.interceptor.notes.journal.clear()
                controls.clock.set_wall()
        except CannotUndo as error:
            raise Problem(
                409,
                f"{error}, which can't be undone in running brokers: start them on a copy of "
                f"{snapshot.directory}",
            ) from error
    return {
        "dropped_topics": list(undo.dropped_topics),
        "rewound_partitions": undo.rewound_count,
    }


async def _put_right(
    controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]
) -> None:
    """Heal the network, and put brokers into their racks, where a test has changed them."""
    if not controls.has_good_network:
        from . import network  # few tests touch it

        network.heal(controls, path, fields)
    if controls.racks_before:
        from . import racks  # nor these

        await racks.put_back(controls)


def _expiration_ms(controls: Controls) -> int:
    """After which time partitions forget producers, which nothing but a start undoes."""
    configs = [broker.config for broker in controls.brokers.values()]
    return min((config.producer_id_expiration_ms for config in configs), default=0)


def remove(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Remove a snapshot, with its directory."""
    _snapshots(controls).drop(_snapshot(controls, path).id)
    return {}


def _snapshot(controls: Controls, path: Mapping[str, str]) -> Snapshot:
    try:
        return _snapshots(controls)[path["id"]]
    except KeyError:
        raise not_found(
            f"snapshot {path['id'][:40]!a} in this process; those of another one, and so of "
            "another version, are of no use here"
        ) from None


def _snapshots(controls: Controls) -> Snapshots:
    if controls.snapshots is None:
        controls.snapshots = Snapshots(controls.running, controls.runtime)
    return controls.snapshots
