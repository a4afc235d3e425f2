"""Creating, extending and deleting topics for admin clients.

This module only validates a topic and writes its znodes (or the request to delete it). The
controller watches them and does the rest. The answer waits until this broker's metadata shows the
result.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.primitives import ZERO_UUID, uuid_text

from ..coordination import znodes
from ..coordination.interface import (
    BadVersion,
    Create,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    RequestTooLarge,
    Session,
    Set,
)
from ..coordination.json_fields import MalformedZnode
from ..core.assignment import (
    BrokerRack,
    assign_added,
    assign_replicas,
    check_added_assignment,
    check_counts,
    check_manual_assignment,
    check_racks,
)
from ..core.partition_state import NO_LEADER
from ..core.topic_names import (
    INTERNAL_TOPICS,
    TOPIC_NAME_LENGTH_MAX,
    check_collision,
    check_topic_name,
    is_topic_name,
    may_collide,
)
from ..partitions.replicas import read_overrides
from .config_writes import controller_check
from .store_failures import needs_store

if TYPE_CHECKING:
    from ..cluster.controller import ClusterController
    from ..local_broker import LocalBroker

logger = logging.getLogger(__name__)

DEFAULT_COUNT: Final = -1
_TOPIC_ID_BYTES: Final = 16


class NewTopic(NamedTuple):
    """A topic that has passed validation."""

    name: str
    topic_id: bytes
    assignment: dict[int, tuple[int, ...]]
    configs: dict[str, str]
    configs_without_effect: list[str]

    @property
    def replication_factor(self) -> int:
        """The number of replicas of the first partition."""
        return len(self.assignment[0])


class Topics:
    """Administers topics on this broker."""

    def __init__(
        self, local: "LocalBroker", controller: "ClusterController", session: Session
    ) -> None:
        self._local = local
        self._controller = controller
        self._session = session
        self._partitions_max = local.config.odradek_topic_partitions_max

    # Creating.

    def validate_new(
        self,
        name: str,
        *,
        partitions: int = DEFAULT_COUNT,
        replication_factor: int = DEFAULT_COUNT,
        assignment: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> NewTopic:
        """Validate a new topic and fill in defaults.  Raises: Refused."""
        check_topic_name(name)
        if name in self._local.metadata.topics:
            raise _already_exists(name)
        check_collision(name, self._local.metadata.topics)
        if assignment:
            if (partitions, replication_factor) != (DEFAULT_COUNT, DEFAULT_COUNT):
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    "either replicas are assigned, or counts are given, not both",
                )
            live = self._local.metadata.brokers
            check_manual_assignment(assignment, live, partitions_max=self._partitions_max)
            assigned = {p: tuple(replicas) for p, replicas in sorted(assignment.items())}
        else:
            assigned = self._assign(partitions, replication_factor)
        overrides = dict(configs or {})
        without_effect = self._local.config.check_topic_config(overrides)
        return NewTopic(name, self._new_topic_id(), assigned, overrides, without_effect)

    def _assign(self, partitions: int, replication_factor: int) -> dict[int, tuple[int, ...]]:
        config, random = self._local.config, self._local.runtime.random
        if partitions == DEFAULT_COUNT:
            partitions = config.num_partitions
        if replication_factor == DEFAULT_COUNT:
            replication_factor = config.default_replication_factor
        racks = self._racks()
        check_counts(
            partitions, replication_factor, len(racks), partitions_max=self._partitions_max
        )
        check_racks(racks)
        start, shift = random.randrange(len(racks)), random.randrange(len(racks))
        replicas = assign_replicas(racks, partitions, replication_factor, start=start, shift=shift)
        return dict(enumerate(map(tuple, replicas)))

    def _racks(self) -> list[BrokerRack]:
        brokers = self._local.metadata.brokers.values()
        return [BrokerRack(broker.broker_id, broker.rack) for broker in brokers]

    def _new_topic_id(self) -> bytes:
        while True:  # not a reserved id, nor one whose text looks like an option
            topic_id = self._local.runtime.random.randbytes(_TOPIC_ID_BYTES)
            if topic_id[:15] != ZERO_UUID[:15] and not uuid_text(topic_id).startswith("-"):
                return topic_id

    @needs_store
    async def check_new(self, name: str) -> None:
        """Check that no topic of this name is being deleted, and that the name collides with none.

        Raises: Refused (TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION).
        """
        if await self._session.exists(znodes.delete_topic_path(name)) is not None:
            raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} is being deleted")
        if may_collide(name) and not self._controller.is_active:
            # This broker's metadata may be outdated.
            check_collision(name, await self._session.children(znodes.BROKER_TOPICS))

    @needs_store
    async def create(self, topic: NewTopic, *, timeout_ms: int) -> None:
        """Write the topic's znodes; return when every partition has a leader.

        Raises: Refused (TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_CONFIG,
        STALE_CONTROLLER_EPOCH, REQUEST_TIMED_OUT).
        """
        await self.check_new(topic.name)
        while not await self._write_new(topic):
            pass  # its config was written concurrently, or the controller has changed
        is_internal = topic.name in INTERNAL_TOPICS  # no client asked for its configs
        for config_text in () if is_internal else topic.configs_without_effect:
            logger.warning("topic config has no effect yet topic=%s %s", topic.name, config_text)
        logger.info("topic created topic=%s partitions=%d", topic.name, len(topic.assignment))
        await self._wait_for_leaders(topic.name, len(topic.assignment), timeout_ms)

    async def _write_new(self, topic: NewTopic) -> bool:
        """Return whether it was written: the config first, as in Kafka, but both or none."""
        node = znodes.TopicAssignment(topic.assignment, topic.topic_id)
        config = znodes.encode_config(topic.configs)
        config_path = znodes.topic_config_path(topic.name)
        controller = await controller_check(self._session)
        is_left_over = await self._session.exists(config_path) is not None
        ops: list[Op] = [
            controller,
            Set(config_path, config) if is_left_over else Create(config_path, config),
            Create(znodes.topic_path(topic.name), node.encode()),
        ]
        try:
            await self._session.multi(ops)
        except MultiFailed as failed:
            is_there = isinstance(failed.error, NodeExists)
            if is_there and failed.index == len(ops) - 1:
                raise _already_exists(topic.name) from None
            if ops[failed.index] is controller or is_there or is_left_over:
                return False
            raise
        except RequestTooLarge as error:
            raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from None
        return True

    @needs_store
    async def create_if_absent(
        self,
        name: str,
        *,
        partitions: int = DEFAULT_COUNT,
        replication_factor: int = DEFAULT_COUNT,
        configs: Mapping[str, str] | None = None,
        timeout_ms: int,
    ) -> None:
        """Create a topic automatically; succeed too if it was created concurrently.

        Raises: Refused.
        """
        try:
            new = self.validate_new(
                name, partitions=partitions, replication_factor=replication_factor, configs=configs
            )
            await self.create(new, timeout_ms=timeout_ms)
        except Refused as refused:
            if refused.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            await self._wait_for_leaders(name, 1, timeout_ms)

    @needs_store
    async def overrides(self, name: str) -> dict[str, str]:
        """The topic's own settings, which override the broker's."""
        return await read_overrides(name, self._session)

    # Extending.

    @needs_store
    async def extend(
        self,
        name: str,
        total_count: int,
        added: Sequence[Sequence[int]] | None,
        *,
        validate_only: bool = False,
        timeout_ms: int = 0,
        on_valid: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Add partitions up to `total_count`; return when they have leaders.

        `on_valid` is called with the number of new partitions before they are written, and may
        refuse them.  `added` are the replicas of each new partition; None: assign them here.
        Raises: Refused (UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION,
        REASSIGNMENT_IN_PROGRESS, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT,
        REQUEST_TIMED_OUT, UNKNOWN_SERVER_ERROR, and what the checks in `core.assignment` raise).
        """
        path = znodes.topic_path(name)
        is_counted = False
        while True:
            node, version = await self._at_rest(name)
            extended = self._extended(node, total_count, added)
            if validate_only:
                return
            if not is_counted:
                on_valid(len(extended.partitions) - len(node.partitions))
                is_counted = True
            try:
                await self._session.set(path, extended.encode(), version)
                break
            except NoNode:
                raise _unknown(name) from None
            except RequestTooLarge as error:
                raise Refused(ErrorCode.INVALID_PARTITIONS, str(error)) from None
            except BadVersion:
                pass  # the topic was changed concurrently
        await self._wait_for_leaders(name, len(extended.partitions), timeout_ms, exists=True)

    async def _at_rest(self, name: str) -> tuple[znodes.TopicAssignment, int]:
        """The znode and its version; the topic must be neither being deleted nor reassigned.

        Raises: Refused.
        """
        if not is_topic_name(name):
            raise _unknown(name[:TOPIC_NAME_LENGTH_MAX])
        if await self._session.exists(znodes.delete_topic_path(name)) is not None:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {name!r} is being deleted")
        try:
            data, stat = await self._session.get(znodes.topic_path(name))
            node = znodes.TopicAssignment.decode(data)
        except NoNode:
            raise _unknown(name) from None
        except MalformedZnode as error:
            logger.error("topic cannot be read topic=%s error=%s", name, error)
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"topic {name!r}: {error}") from None
        if node.adding_replicas or node.removing_replicas:
            raise Refused(
                ErrorCode.REASSIGNMENT_IN_PROGRESS, f"replicas of topic {name!r} are being moved"
            )
        return node, stat.version

    def _extended(
        self,
        node: znodes.TopicAssignment,
        total_count: int,
        added: Sequence[Sequence[int]] | None,
    ) -> znodes.TopicAssignment:
        """The assignment with the new partitions.  Raises: Refused."""
        existing = [node.partitions[partition] for partition in sorted(node.partitions)]
        if 0 not in node.partitions or not existing[0]:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "partition 0 has no replicas")
        racks = self._racks()
        check_counts(total_count, 1, 1, partitions_max=self._partitions_max)
        check_racks(racks)
        live = self._local.metadata.brokers
        count = check_added_assignment(existing, total_count, added, live)
        if added is None:
            check_counts(count, len(existing[0]), len(racks), partitions_max=self._partitions_max)
        new = assign_added(racks, existing, count) if added is None else added
        numbered = dict(enumerate(map(tuple, new), start=len(existing)))
        return znodes.TopicAssignment({**numbered, **node.partitions}, node.topic_id)

    # Deleting.

    @needs_store
    async def delete(self, name: str, *, timeout_ms: int) -> None:
        """Ask the controller to delete a topic; return when the metadata no longer has it.

        Within the timeout it also waits until the controller has deleted the topic or put that off.

        Raises: Refused (UNKNOWN_TOPIC_OR_PARTITION, REQUEST_TIMED_OUT).
        """
        metadata = self._local.metadata
        if name not in metadata.topics:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        topic_id = metadata.topics[name].topic_id
        with contextlib.suppress(NodeExists):  # its deletion was already requested
            await self._session.create(znodes.delete_topic_path(name))
        end_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        await self._wait_until(lambda: metadata.topic_name(topic_id) is None, timeout_ms)
        # The metadata changes before the replicas are deleted. A client that creates a topic of the
        # same name next should not find it being deleted, unless that takes very long.
        with contextlib.suppress(TimeoutError, Refused):
            async with asyncio.timeout_at(end_s):
                await self._controller.wait_until(
                    lambda context: (
                        name not in context.topics_to_delete or name in context.deletions_halted
                    )
                )

    # Waiting.

    async def _wait_for_leaders(
        self, name: str, count: int, timeout_ms: int, *, exists: bool = False
    ) -> None:
        """`exists`: the topic existed before, so if it is missing it was deleted."""

        metadata = self._local.metadata

        def all_led() -> bool:
            if exists and name not in metadata.topics:
                raise _unknown(name)
            states = (metadata.partition(name, partition) for partition in range(count))
            return all(state is not None and state.leader != NO_LEADER for state in states)

        await self._wait_until(all_led, timeout_ms)

    async def _wait_until(self, done: Callable[[], bool], timeout_ms: int) -> None:
        try:
            async with asyncio.timeout(max(0, timeout_ms) / 1000):
                await self._local.metadata.wait_until(done)
        except TimeoutError:
            raise Refused(ErrorCode.REQUEST_TIMED_OUT) from None


def _already_exists(name: str) -> Refused:
    return Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")


def _unknown(name: str) -> Refused:
    return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
