"""Snapshots of a broker under test.

The broker takes them and returns to them while it runs. What it can't undo while it runs, and what
it does not remember since it was killed or stopped, is in the snapshot's files: then it is started
again on a copy of them.
"""

import http
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odradek import __version__

from .door import AdminError
from .errors import BrokerFailed, hides

if TYPE_CHECKING:
    from .broker import Broker

__tracebackhide__ = hides
LABEL: Final = "odradek-snapshot.json"
_NOT_IN_PLACE: Final = (http.HTTPStatus.CONFLICT, http.HTTPStatus.NOT_FOUND)


@dataclass(eq=False, kw_only=True)
class Snapshot:
    """A state of a broker, for `restore`."""

    directory: Path
    """Its files; another broker can be started on a copy of them (`data_dir`)."""
    id: str
    """In the broker's process; another one after a restart."""
    _of: "Snapshots" = field(repr=False)

    def remove(self) -> None:
        """Forget it, and remove its files; it can't be restored any more.

        Raises: BrokerFailed; ValueError if it is removed already.
        """
        self._of.drop(self)


class Snapshots:
    """The snapshots of one `Broker`."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._taken: list[Snapshot] = []

    def take(self) -> Snapshot:
        """Take one.  Raises: BrokerFailed."""
        told = self._broker.admin.post("snapshots")
        directory = Path(told["directory"])
        self._taken.append(Snapshot(id=told["id"], directory=directory, _of=self))
        return self._taken[-1]

    def restore(
        self,
        snapshot: Snapshot,
        *,
        ports: Mapping[str, int] | None = None,
        forgets_requests: bool = False,
    ) -> None:
        """Return to one, with an entrance on these ports, without rules for faults and journal.

        Raises: BrokerFailed, TypeError, ValueError.
        """
        if not isinstance(snapshot, Snapshot):
            raise TypeError("not a Snapshot; `broker.aio.restore()` takes those of broker.aio")
        if snapshot not in self._taken:
            raise ValueError("this snapshot is removed, or of another broker")
        self._broker._network.forget()  # it is healed, or else all brokers are started again
        fields = {"ports": ports, "forgets_requests": forgets_requests}
        if not self._restores_in_place(snapshot, fields):
            check_version(snapshot.directory)
            self._broker._put_back(snapshot.directory)
            if forgets_requests:
                self._broker.faults.clear()
                self._broker.journal.clear()
            snapshot.id = self._broker.admin.post("snapshots")["id"]

    def _restores_in_place(self, snapshot: Snapshot, fields: Mapping[str, Any]) -> bool:
        if not self._broker.running or self._broker._down or self._broker._paused:
            return False
        try:
            self._broker.admin.post("snapshots", snapshot.id, "restore", **fields)
        except AdminError as error:
            if error.status not in _NOT_IN_PLACE:
                raise
            return False
        return True

    def drop(self, snapshot: Snapshot) -> None:
        """Forget one, and remove its files.  Raises: BrokerFailed, ValueError."""
        if snapshot not in self._taken:
            raise ValueError("this snapshot is removed already")
        self._taken.remove(snapshot)
        try:
            self._broker.admin.delete("snapshots", snapshot.id)
        except AdminError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise
        shutil.rmtree(snapshot.directory, ignore_errors=True)  # if it is of an earlier process

    def copy_now(self, directory: Path) -> None:
        """Copy the state of now.  Raises: BrokerFailed."""
        told = self._broker.admin.post("snapshots")
        try:
            copy_directory(Path(told["directory"]), directory)
        finally:
            self._broker.admin.delete("snapshots", told["id"])

    def close(self) -> None:
        """Remove the files of all, as the broker is closed."""
        taken, self._taken = self._taken, []
        for snapshot in taken:
            shutil.rmtree(snapshot.directory, ignore_errors=True)


def copy_directory(source: Path, target: Path) -> None:
    """Copy the files of a snapshot, for brokers to start on."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(LABEL))


def check_version(directory: Path) -> None:
    """Check that this version can start on the files of a snapshot.  Raises: BrokerFailed."""
    try:
        version = json.loads((directory / LABEL).read_text())["version"]
    except (OSError, ValueError, KeyError) as error:
        raise BrokerFailed(f"{directory} is not a snapshot: {error!r}") from error
    if version != __version__:
        raise BrokerFailed(
            f"the snapshot {directory} is of Odradek {version}, and this is {__version__}: "
            "take it anew"
        )
