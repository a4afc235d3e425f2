"""What lies on the disks of a simulated broker; that outlives its processes.

A log directory fails, is mended, and loses with the power what was not synced; an operator removes
what is there twice then.
"""

from odradek.broker.core.partition_state import PartitionState, TopicPartition

from .disk import MemoryFiles
from .promises import Promises, is_of
from .store import ClusterStore
from .world import World


class BrokerDisks:
    """The two log directories of a broker."""

    def __init__(
        self, broker_id: int, world: World, store: ClusterStore, promises: Promises
    ) -> None:
        self.files = MemoryFiles((f"/{broker_id}/a", f"/{broker_id}/b"))
        self.loss_count = 0
        """How often they have lost something."""
        self._broker_id = broker_id
        self._world = world
        self._store = store
        self._promises = promises

    def fail(self) -> str | None:
        """One of the two directories answers nothing any more: its path, unless one has failed."""
        if self.files.failed:
            return None
        path = self._world.random.choice(self.files.paths)
        self.files.failed.add(path)
        return path

    def mend(self, *, with_loss: bool) -> None:
        """What has failed answers again; what was not synced may be gone."""
        failed = tuple(sorted(self.files.failed))
        self.files.failed.clear()
        if failed and with_loss:
            self.lose_power(failed)
        self._remove_doubles(failed)

    def _remove_doubles(self, mended: tuple[str, ...]) -> None:
        """An operator removes from mended disks what was made anew on another one meanwhile.

        With a log of that name on both no broker starts, neither ours nor Kafka's. That of a topic
        that was deleted before comes back if the disk fails before the rename is safe, and then
        the power does.
        """
        others = [path for path in self.files.paths if path not in mended]
        anew = {name for path in others for name in self.files.directory_names(path)}
        for path in mended:
            for name in anew.intersection(self.files.directory_names(path)):
                self.files.drop(f"{path}/{name}")

    def lose_power(self, paths: tuple[str, ...]) -> None:
        """Tear what was not synced, and have it known which replicas have lost something."""
        before = {path: self._raw_logs(path) for path in paths}
        self.files.lose_power(self._world.random, paths=paths)
        self.loss_count += 1
        for path, logs in before.items():
            after = self._raw_logs(path)
            for (key, topic_id), raw in logs.items():
                if not after.get((key, topic_id), b"").startswith(raw):
                    self._promises.lost(
                        self._broker_id, key, topic_id, with_machine=paths == self.files.paths
                    )

    def _raw_logs(self, path: str) -> dict[tuple[TopicPartition, bytes], bytes]:
        found = {}
        for name in self.files.directory_names(path):
            topic, _, number = name.rpartition("-")
            node = self._store.topics.get(topic)
            if node is None or not number.isdecimal() or node.topic_id is None:
                continue
            directory = f"{path}/{name}"
            metadata = self.files.raw_file(f"{directory}/partition.metadata")
            raw = self.files.raw_log(directory)
            if raw is not None and is_of(metadata, node.topic_id):
                found[(topic, int(number)), node.topic_id] = raw
        return found

    def raw_log(self, state: PartitionState) -> bytes | None:
        """What lies on the disks of a replica; None if there is none."""
        best = None
        for path in self.files.paths:
            directory = f"{path}/{state.topic}-{state.partition}"
            raw = self.files.raw_log(directory)
            if raw is not None and (best is None or len(raw) > len(best)):
                metadata = self.files.raw_file(f"{directory}/partition.metadata")
                if is_of(metadata, state.topic_id):
                    best = raw
        return best

    def drop_failed(self, key: TopicPartition) -> None:
        """An operator removes from failed disks what is made anew on another."""
        for path in self.files.failed:
            self.files.drop(f"{path}/{key[0]}-{key[1]}")

    def stray_paths(self, ids: set[bytes]) -> list[str]:
        """Logs of topics that are gone."""
        found = []
        for path in self.files.paths:
            for name in self.files.directory_names(path):
                metadata = self.files.raw_file(f"{path}/{name}/partition.metadata")
                if not any(is_of(metadata, topic_id) for topic_id in ids):
                    found.append(f"{path}/{name}")
        return found
